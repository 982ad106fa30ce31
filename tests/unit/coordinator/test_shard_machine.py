"""Transactions and sinks on one shard: who owns a name, and where an event goes."""

import pytest
from tests.unit.coordinator.txn_rows import NOW, Step

from oncelog.ids import Partition, branch_transactional_id, job_sink_name
from oncelog_coordinator.core import sink_events
from oncelog_coordinator.core.markers import SINK_MACHINE, DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.shard_machine import (
    ShardMachine,
    decode_shard_record,
    encode_shard_record,
)
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    DescribeTransaction,
    EndTxn,
    ForceTerminate,
    InitProducerId,
    ListTransactions,
    VerifyPartitions,
)

NONCE = b"n" * 16
BRANCH_PID = 40
BRANCH = branch_transactional_id("lake", 3, 0)
ORDERS = Partition("orders", 0)


def live(machine=None):
    machine = machine or ShardMachine()
    machine.resume(NOW)
    return machine


@pytest.fixture
def machine():
    """The sink `lake` with one attempt, joined by one task."""
    machine = live()
    assert Step(machine, sink_events.OpenAttempt(1, "lake", NONCE, 60_000)).code == 0
    join = sink_events.JoinAttempt(1, "lake", NONCE, "query", "run", 3, 0, 9)
    assert machine.wants_producer_id(join)
    joined = Step(
        machine,
        sink_events.JoinAttempt(1, "lake", NONCE, "query", "run", 3, 0, 9, producer_id=BRANCH_PID),
    )
    assert (joined.code, joined.answer.producer_id) == (0, BRANCH_PID)
    assert joined.answer.transactional_id == BRANCH
    return machine


def init(machine, name):
    return Step(machine, InitProducerId(1, name, 60_000, new_producer_id=7))


def test_a_producer_works_as_if_there_were_no_sinks(machine):
    assert init(machine, "pay").identity == (7, 0)
    assert Step(machine, AddPartitions(1, "pay", 7, 0, (ORDERS,))).code == 0
    assert Step(machine, EndTxn(1, "pay", 7, 0, True)).code == 0


@pytest.mark.parametrize(
    "name",
    [
        "lake",
        BRANCH,
        branch_transactional_id("nobody", 9, 1),
        job_sink_name("a", "b"),
        "__oncelog/",
    ],
)
def test_a_producer_is_refused_sink_names_and_reserved_ones(machine, name):
    assert init(machine, name).code == 42
    assert Step(machine, EndTxn(1, name, 7, 0, True)).code == 42


def test_reserved_names_are_refused_before_there_is_a_sink():
    assert init(live(), BRANCH).code == 42


@pytest.mark.parametrize("name", ["lake/3", "lake/3/x", "lake/999/1", "lakes", "other/3/0", "__"])
def test_other_names_are_free(machine, name):
    assert init(machine, name).code == 0


def test_a_sink_is_refused_a_producers_name():
    machine = live()
    init(machine, "pay")
    opened = Step(machine, sink_events.OpenAttempt(1, "pay", NONCE, 60_000))
    assert (opened.code, opened.records) == (42, ())
    assert "'pay'" in opened.answer.error_message
    joined = Step(machine, sink_events.JoinAttempt(1, "pay", NONCE, "q", "r", 0, 0, 0))
    assert joined.code == 42


def test_a_leader_adds_and_verifies_partitions_of_a_branch(machine):
    missing = Step(machine, VerifyPartitions(1, BRANCH, BRANCH_PID, 0, (ORDERS,)))
    assert (missing.code, missing.answer.missing) == (0, (ORDERS,))
    added = Step(machine, AddPartitions(1, BRANCH, BRANCH_PID, 0, (ORDERS,), 2))
    assert (added.code, len(added.records)) == (0, 1)
    verified = Step(machine, VerifyPartitions(1, BRANCH, BRANCH_PID, 0, (ORDERS,)))
    assert (verified.code, verified.answer.missing) == (0, ())


def test_a_zombie_branch_adds_nothing(machine):
    assert Step(machine, AddPartitions(1, BRANCH, BRANCH_PID, 1, (ORDERS,), 2)).code != 0
    assert Step(machine, AddPartitions(1, BRANCH, 41, 0, (ORDERS,), 2)).code == 49


def test_branches_are_listed_and_described_as_transactions(machine):
    init(machine, "pay")
    listed = Step(machine, ListTransactions(1)).answer.transactions
    assert [txn.transactional_id for txn in listed] == ["pay", BRANCH]
    described = Step(machine, DescribeTransaction(1, BRANCH))
    assert described.answer.transaction.producer_id == BRANCH_PID
    assert described.answer.transaction.state.kafka_name == "Ongoing"
    assert Step(machine, DescribeTransaction(1, "nobody")).code == 105


@pytest.mark.parametrize("name", [BRANCH, "lake"])
def test_an_operator_ends_a_branch_with_its_whole_attempt(machine, name):
    Step(machine, AddPartitions(1, BRANCH, BRANCH_PID, 0, (ORDERS,), 2))
    ended = Step(machine, ForceTerminate(1, name))
    assert ended.code == 0
    (wanted,) = ended.markers
    assert wanted.decision_key.machine == SINK_MACHINE
    assert not any(marker.commit for marker in wanted.markers)
    done = Step(machine, MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))
    assert done.records
    assert Step(machine, ForceTerminate(1, name)).code == 48


def test_every_record_of_both_kinds_replays_to_the_same_answers():
    machine = live()
    log = []

    def step(event):
        taken = Step(machine, event)
        log.extend(encode_shard_record(record, 1) for record in taken.records)
        return taken

    step(sink_events.OpenAttempt(1, "lake", NONCE, 60_000))
    step(sink_events.JoinAttempt(1, "lake", NONCE, "q", "r", 3, 0, 9, producer_id=BRANCH_PID))
    step(InitProducerId(1, "pay", 60_000, new_producer_id=7))
    step(AddPartitions(1, "pay", 7, 0, (ORDERS,)))
    step(EndTxn(1, "pay", 7, 0, True))
    again = ShardMachine()
    assert again.is_empty
    for offset, (key, value) in enumerate(log):
        again.apply(offset, decode_shard_record(key, value))
    sends = [effect for effect in again.resume(NOW) if hasattr(effect, "message")]
    assert [send.message.decision_key.name for send in sends] == ["pay"]
    assert not again.is_empty
    assert Step(again, ListTransactions(1)).answer == Step(machine, ListTransactions(1)).answer
    assert init(again, "lake").code == 42
