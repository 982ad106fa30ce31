"""The coordinator's transactions as faults use them: find one by its id, let it expire, fence its producer."""

import asyncio
from typing import Final

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.ids import TransactionalId
from oncelog.runtime import Driver, DriverStopped
from oncelog_coordinator.core.shard_machine import ShardMachine
from oncelog_coordinator.core.sink_events import ExpireSinks
from oncelog_coordinator.core.txn_events import DescribeTransaction, ExpireIds, TxnTimedOut
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState
from oncelog_server.coordinator_slot import CoordinatorSlot

FENCE_TIMEOUT_S: Final = 10.0
_FENCE_PAUSE_S: Final = 0.02
_NAMES_TOLD_MAX: Final = 10


class Transactions:
    def __init__(self, slot: CoordinatorSlot) -> None:
        self._slot = slot

    def known(self) -> str:
        """Return in words which transactional ids the log knows, for an error's text."""
        names = sorted(txn.transactional_id for _, txn in self._all())
        if not names:
            return "the log knows no transactional id yet"
        more = "" if len(names) <= _NAMES_TOLD_MAX else f" and {len(names) - _NAMES_TOLD_MAX} more"
        return f"the log knows {', '.join(map(repr, names[:_NAMES_TOLD_MAX]))}{more}"

    def producer_ids(self, transactional_id: str) -> set[int]:
        """Return the producer ids by which markers may name this transactional id: the present one, and those before
        and after it while it changes.
        """
        found = (txn for _, txn in self._all() if txn.transactional_id == transactional_id)
        return {
            producer_id
            for txn in found
            for producer_id in (txn.producer_id, txn.previous_producer_id, txn.next_producer_id)
            if producer_id >= 0
        }

    async def expire(self, transactional_id: str) -> None:
        """Abort the open transaction as its timeout would. Returns when the decision is in the coordinator's log.
        Raises OncelogError if none is open.
        """
        driver, txn = self._find(transactional_id)
        if txn.state is not TxnState.ONGOING:
            raise OncelogError(
                f"no transaction of {transactional_id!r} is open, it is {txn.state.kafka_name}: begin one and send a "
                "record first"
            )
        name = TransactionalId(transactional_id)
        # A timer that has waited for the whole timeout says so, because a wall clock may have been set back.
        driver.submit(TxnTimedOut(name, waited_since=txn.start_timestamp))
        # Answers wait for what was decided before them.
        request_id = driver.request_id()
        await driver.ask(DescribeTransaction(request_id, name), request_id)
        _, after = self._find(transactional_id)
        if after.state is TxnState.ONGOING and after.start_timestamp == txn.start_timestamp:
            raise OncelogError(
                f"the transaction of {transactional_id!r} has no timeout, or no producer id is at hand: nothing expired"
            )

    async def fence(self, transactional_id: str) -> None:
        """Fence the producer of the transactional id, as the start of another producer with that id does. Returns when
        its transaction has ended.
        """
        _, txn = self._find(transactional_id)
        request = pb.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=txn.timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        deadline = asyncio.get_running_loop().time() + FENCE_TIMEOUT_S
        while True:
            answer = await self._slot.role.servicer.InitProducerId(request, None)
            code = error_code_of(answer.error_code)
            if code is ErrorCode.NONE:
                return
            if not code.is_retriable or asyncio.get_running_loop().time() > deadline:
                raise OncelogError(
                    f"{transactional_id!r} was not fenced within {FENCE_TIMEOUT_S:g} s: {code.name}; release the faults"
                    " that hold its markers first"
                )
            await asyncio.sleep(_FENCE_PAUSE_S)

    def fire_timers(self) -> None:
        """Let the coordinator check all timeouts now, because the clock was moved."""
        for _, driver in self._slot.role.shards.active():
            machine = driver.machine
            assert isinstance(machine, ShardMachine), machine
            names = [
                txn.transactional_id
                for txn in machine.txn.transactions
                if txn.state is TxnState.ONGOING
            ]
            try:
                for name in names:
                    driver.submit(TxnTimedOut(name))
                driver.submit(ExpireIds())
                driver.submit(ExpireSinks())
            except DriverStopped:
                # It is loaded again, and then sees the new time by itself.
                continue

    def _all(self) -> list[tuple[Driver, TxnMetadata]]:
        found: list[tuple[Driver, TxnMetadata]] = []
        for _, driver in self._slot.role.shards.active():
            assert isinstance(driver.machine, ShardMachine), driver.machine
            found += [(driver, txn) for txn in driver.machine.txn.transactions]
        return found

    def _find(self, transactional_id: str) -> tuple[Driver, TxnMetadata]:
        """Return the transaction of this id, and the driver that runs the state machine of its shard. Raises
        OncelogError when no producer has used the id.
        """
        for driver, txn in self._all():
            if txn.transactional_id == transactional_id:
                return driver, txn
        raise OncelogError(
            f"no producer has used the transactional id {transactional_id!r}; {self.known()}"
        )
