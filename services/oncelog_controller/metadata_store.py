"""The store of a controller's metadata: a journal that only the lease's holder writes, and the lease.

`sql_store` implements it on SQLite and Postgres. Another database is a second `MetadataStore`, which `wiring` chooses
by its URL. It passes `tests/contracts/metadata_store.py`: order, atomic appends, fencing, producer ids, the lease.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from oncelog.errors import OncelogError
from oncelog.journal import Journal
from oncelog_controller.core.records import MetadataRecord

NOBODY: Final = -1
NO_BLOCK_YET: Final = -1


class DatabaseAway(OncelogError):
    """The metadata database is not there, or too slow. The failed step may be tried again as it is."""


class MetadataJournal(Journal[MetadataRecord], Protocol):
    """The metadata journal, open for writing under one controller epoch.

    An append under an older epoch than the lease's raises AppendFailed.
    """

    kept_producer_id: int
    """The first producer id after every block given away, as the last replay found it beside the journal.

    NO_BLOCK_YET: no block was given away.
    """

    async def may_append(self) -> bool:
        """True if the database says that the lease is still held under this journal's controller epoch.

        False too when the database does not answer.
        """


class MetadataWentBack(Exception):
    """The database lacks metadata that this controller has published: an older copy was put in its place.

    The process must end.
    """


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The lease as it was when it was read: who holds it, and for how long."""

    holder: int  # controller id, or NOBODY
    controller_epoch: int
    rpc_address: str
    remaining_ms: int  # 0: expired, or released

    @property
    def is_free(self) -> bool:
        return self.holder == NOBODY


class ControllerLease(Protocol):
    """The lease, which says which controller is active.

    Every call raises DatabaseAway when the database does not answer, and OncelogError when it never will.
    """

    async def read(self) -> LeaseView: ...

    async def take_over(self, seen: LeaseView) -> LeaseView | None:
        """Take the lease from the holder in `seen`, under the next controller epoch, and return it.

        None: another controller took it first.
        """

    async def renew(self, controller_epoch: int, raise_to: int | None = None) -> bool:
        """Extend this controller's lease. False: another controller has it.

        `raise_to`: a higher controller epoch under which it is held from now on.
        """

    async def release(self, controller_epoch: int) -> None: ...


class MetadataStore(Protocol):
    """One metadata database. Call `open`, then the others any number of times, then `close`."""

    shown_url: str
    """Its URL without the password, for people."""

    async def open(self) -> None:
        """Connect, and bring the tables up to date. Raises OncelogError; DatabaseAway if a later try may succeed."""

    async def close(self) -> None:
        """Close the connections. Closing twice, or without opening, is fine."""

    def journal(self, controller_epoch: int | None) -> MetadataJournal:
        """Return a journal that writes under this controller epoch; None: under none, where no other controller is."""

    def lease(self, controller_id: int, rpc_address: str, lease_ms: int) -> ControllerLease:
        """Return the lease as this controller takes it. `rpc_address` is where others reach it."""
