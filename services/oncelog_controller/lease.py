"""The lease: one row in the database says which controller is active, under which controller epoch, and until when.

Time is the database's, so the controllers' clocks do not matter. Safety does not depend on the lease: every append
checks the controller epoch under the row's lock (`sql_journal`), and a new holder raises it. The lease only says when a
standby may try, so taking it early costs a needless failover and nothing else.
"""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Update,
    bindparam,
    cast,
    extract,
    func,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from oncelog_controller.database import Database, failure_of
from oncelog_controller.metadata_store import NOBODY, LeaseView
from oncelog_controller.schema import STATE_ID, controller_state

ResultT = TypeVar("ResultT")


class Lease:
    """The lease as a row of the database; it implements `ControllerLease`. Every call is one transaction.

    Raises DatabaseAway when the database does not answer.
    """

    def __init__(
        self, database: Database, controller_id: int, rpc_address: str, lease_ms: int
    ) -> None:
        self._database = database
        self._controller_id = controller_id
        self._rpc_address = rpc_address
        self._lease_ms = lease_ms

    async def read(self) -> LeaseView:
        return await self._run(lambda connection: _read(connection, lock=False)[0])

    async def take_over(self, seen: LeaseView) -> LeaseView | None:
        """Take the lease from the holder in `seen`, under the next controller epoch, and return it.

        None: another controller took it first.
        """

        def taken(connection: Connection) -> LeaseView | None:
            view, now_ms = _read(connection, lock=True)
            if view.controller_epoch != seen.controller_epoch:
                return None
            controller_epoch = view.controller_epoch + 1
            connection.execute(
                update(controller_state)
                .where(controller_state.c.state_id == STATE_ID)
                .values(
                    holder=self._controller_id,
                    controller_epoch=controller_epoch,
                    rpc_address=self._rpc_address,
                    lease_expires_at_ms=now_ms + self._lease_ms,
                )
            )
            return LeaseView(
                self._controller_id, controller_epoch, self._rpc_address, self._lease_ms
            )

        return await self._run(taken)

    async def renew(self, controller_epoch: int, raise_to: int | None = None) -> bool:
        """Extend this controller's lease, even if it has expired. False: another controller has it.

        `raise_to` is a higher controller epoch under which the lease is held from now on.
        """

        values = {
            "held_epoch": controller_epoch,
            "next_epoch": raise_to or controller_epoch,
            "holder_id": self._controller_id,
            "address": self._rpc_address,
            "lease_ms": self._lease_ms,
        }

        def renewed(connection: Connection) -> bool:
            renewal = _RENEWALS[connection.dialect.name == "postgresql"]
            return connection.execute(renewal, values).rowcount == 1

        return await self._run(renewed)

    async def release(self, controller_epoch: int) -> None:
        """Release the lease, if this controller still holds it, so that a standby can take it at once."""
        row = controller_state.c
        mine = (row.state_id == STATE_ID) & (row.controller_epoch == controller_epoch)
        statement = (
            update(controller_state).where(mine).values(holder=NOBODY, lease_expires_at_ms=0)
        )
        await self._run(lambda connection: connection.execute(statement).rowcount)

    async def _run(self, function: Callable[[Connection], ResultT]) -> ResultT:
        try:
            return await self._database.run(function)
        except SQLAlchemyError as error:
            raise failure_of(
                error, f"the controller's lease in {self._database.shown_url} cannot be reached"
            ) from error


# Made once: a standby asks several times a second.
_LEASE = select(
    controller_state.c.holder,
    controller_state.c.controller_epoch,
    controller_state.c.rpc_address,
    controller_state.c.lease_expires_at_ms,
).where(controller_state.c.state_id == STATE_ID)
_LOCKED_LEASE = _LEASE.with_for_update()
_POSTGRES_NOW_MS = cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger)
_SQLITE_NOW_MS = cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger)


def _renewal(now_ms: ColumnElement[int]) -> Update:
    """Return the SQL statement that renews the lease. A wait for the row's lock does not make the lease longer."""
    row = controller_state.c
    is_held = (row.controller_epoch == bindparam("held_epoch")) & (row.holder != NOBODY)
    return (
        update(controller_state)
        .where((row.state_id == STATE_ID) & is_held)
        .values(
            holder=bindparam("holder_id"),
            controller_epoch=bindparam("next_epoch"),
            rpc_address=bindparam("address"),
            lease_expires_at_ms=now_ms + bindparam("lease_ms", type_=BigInteger),
        )
    )


# Made once, as above: a holder renews its lease all the time.
_RENEWALS = {True: _renewal(_POSTGRES_NOW_MS), False: _renewal(_SQLITE_NOW_MS)}


def _read(connection: Connection, *, lock: bool) -> tuple[LeaseView, int]:
    """Return the row of the lease, and the database's time in ms."""
    found = connection.execute(_LOCKED_LEASE if lock else _LEASE).one()
    # Asked after the lock was got: a wait for it must not count as time that the holder has left.
    is_postgres = connection.dialect.name == "postgresql"
    now = select(_POSTGRES_NOW_MS if is_postgres else _SQLITE_NOW_MS)
    now_ms = int(connection.execute(now).scalar_one())
    remaining_ms = max(0, int(found.lease_expires_at_ms) - now_ms)
    view = LeaseView(
        int(found.holder), int(found.controller_epoch), str(found.rpc_address), remaining_ms
    )
    return view, now_ms
