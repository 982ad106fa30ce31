"""The store of a controller's metadata: a journal that only the lease's holder writes, and the lease.

The implementations are on SQL: `sql_journal`, `lease`. Another database is a second pair, chosen in `wiring`. A journal
passes `tests/contracts/journal.py`; what it needs besides is in `tests/contracts/test_sql_journal_contract.py`.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from oncelog.journal import Journal
from oncelog_controller.core.records import MetadataRecord

NOBODY: Final = -1
NO_BLOCK_YET: Final = -1


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

    Every call raises OncelogError when the database does not answer.
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
