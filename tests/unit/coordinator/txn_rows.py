"""Machines brought into a given state, and what came out of a step: the vocabulary of the table tests."""

from dataclasses import replace

from oncelog.ids import Partition
from oncelog.machine import Reply, Send, SetTimer
from oncelog_coordinator.core.txn import TxnConfig, TxnMachine
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState

NOW = 1_000_000
START = 900_000
PID = 7
NEW_PID = 8
ORDERS_0, ORDERS_1 = Partition("orders", 0), Partition("orders", 1)

EMPTY, ONGOING = TxnState.EMPTY, TxnState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT


def stored(state, producer_epoch=5, **fields):
    """A transaction named `pay` in this state, the way it would stand in the log."""
    has_partitions = state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
    txn = TxnMetadata(
        "pay",
        PID,
        producer_epoch,
        state,
        60_000,
        (ORDERS_0,) if has_partitions else (),
        -1 if state is EMPTY else START,
        START,
        PID,
    )
    return replace(txn, **fields)


def machine_with(*txns, config=None):
    machine = TxnMachine(config or TxnConfig())
    for offset, txn in enumerate(txns):
        machine.apply(offset, txn)
    machine.resume(NOW)
    return machine


class Step:
    """One decision, applied."""

    def __init__(self, machine, event, now=NOW):
        self.decision = machine.decide(event, now)
        for record in self.decision.records:
            machine.apply(1_000, record)
        replies = [one for one in self.decision.effects if isinstance(one, Reply)]
        assert all(one.request_id == event.request_id for one in replies), "a reply to nobody"
        self.records = self.decision.records
        self.label = self.decision.label
        self.effects = self.decision.effects

    @property
    def answer(self):
        (reply,) = (effect for effect in self.effects if isinstance(effect, Reply))
        return reply.answer

    @property
    def code(self):
        return int(self.answer.error_code)

    @property
    def identity(self):
        return self.answer.producer_id, self.answer.producer_epoch

    @property
    def states(self):
        return [record.state for record in self.records]

    @property
    def markers(self):
        return [effect.message for effect in self.effects if isinstance(effect, Send)]

    @property
    def timers(self):
        return [effect for effect in self.effects if isinstance(effect, SetTimer)]
