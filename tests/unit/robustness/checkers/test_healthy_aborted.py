"""A transaction that its client keeps within its time-out is not aborted by the cluster alone."""

from dataclasses import replace

import pytest
from oncelog_robustness.checkers.healthy_aborted import check
from oncelog_robustness.history import Ending, Fault, Outcome
from oncelog_robustness.observations import ShardOwned, StateRecorded
from oncelog_robustness.workload_facts import ProducerReady
from tests.unit.robustness.checkers.made_history import MadeHistory

PAY = ProducerReady(transactional_id="pay", protocol="TV1")
BEGUN, TOLD = 10_000, 12_000


def taken(told_ms: int = TOLD, **more) -> MadeHistory:
    """w#1 opens at 100 ms, begins at 10 s, and is told at `told_ms` that it is fenced."""
    made = MadeHistory()
    made.note(PAY, client="w#1", at=(100, 150))
    found = made.txn(
        "t-0@0 a",
        tid="pay",
        at=(BEGUN, told_ms),
        ending=Ending.NONE,
        outcome=Outcome.FAIL,
    )
    fields = {"timeout_ms": 5_000, "is_taken": True} | more
    made.history.operations[-1] = replace(found, **fields)
    return made


def fault(made: MadeHistory, kind: str, begins: int, ends: int | None) -> None:
    made.history.add(
        Fault(
            client="fault-plan",
            invoked_ms=begins,
            completed_ms=ends,
            kind=kind,
            target="coordinator-1",
        )
    )


def test_one_that_nobody_asked_to_end_is_named():
    taken().assert_broken(check, "w#1", "pay", "2000 ms", "5000 ms")


def test_a_committed_one_counts_as_kept():
    made = taken(ending=Ending.COMMIT, outcome=Outcome.OK, is_taken=False)
    made.assert_ok(check, judged=1)


@pytest.mark.parametrize(
    "more",
    [
        {"timeout_ms": 2_000},
        {"timeout_ms": None},
        {"completed_ms": None},
        {"is_taken": False},
        {"is_taken": False, "ending": Ending.COMMIT, "outcome": Outcome.INFO},
    ],
    ids=["its time was up", "nobody knows its time", "it died", "its own abort", "not answered"],
)
def test_what_proves_nothing_is_not_judged(more):
    taken(**more).assert_unknown(check, "time-out")


@pytest.mark.parametrize(
    "opening", [(11_000, 11_500), (9_000, 20_000), (50, 120), (20, None), (11_000, None)]
)
def test_another_that_may_have_fenced_it_is_an_excuse(opening):
    made = taken()
    made.note(PAY, client="w#2", at=opening)
    made.assert_unknown(check)


@pytest.mark.parametrize("opening", [(10, 50), (12_001, None)])
def test_another_that_cannot_have_fenced_it_is_none(opening):
    made = taken()
    made.note(PAY, client="w#0", at=opening)
    made.assert_broken(check, "w#1")


def test_the_client_of_another_id_is_no_excuse():
    made = taken()
    made.note(ProducerReady(transactional_id="other", protocol="TV1"), at=(11_000, None))
    made.assert_broken(check, "w#1")


@pytest.mark.parametrize("opening", [(100, 2_100), (100, None)])
def test_a_copy_of_its_own_call_may_come_late(opening):
    made = taken()
    del made.history.operations[0]
    made.note(PAY, client="w#1", at=opening)
    made.assert_unknown(check)


@pytest.mark.parametrize(
    ("kind", "begins", "ends", "is_excuse"),
    [
        ("ghost", 0, 110, True),
        ("ghost", 0, None, True),
        ("ghost", 200, 20_000, False),
        ("client-kill", 0, 20_000, False),
        ("operate", 200, 300, True),
        ("operate", 12_001, None, False),
        ("clock-jump", 0, 50, True),
        ("clock-jump", 12_001, None, False),
    ],
)
def test_a_fault_is_an_excuse_where_it_can_be_one(kind, begins, ends, is_excuse):
    made = taken()
    fault(made, kind, begins, ends)
    if is_excuse:
        made.assert_unknown(check)
    else:
        made.assert_broken(check, "w#1")


@pytest.mark.parametrize(
    ("at_ms", "shard", "is_excuse"),
    [(50, 3, False), (11_000, 3, True), (11_000, 4, False), (13_000, 3, False)],
)
def test_a_wrong_clock_counts_where_a_shard_is_taken_over(at_ms, shard, is_excuse):
    """One coordinator throughout measures by its monotonic clock."""
    made = taken()
    fault(made, "clock-jump", 0, None)
    made.observations.states.append(StateRecorded(3, 0, "pay", 7, 0, "Ongoing", ()))
    for owned_ms, owned in ((10, 3), (at_ms, shard)):
        made.observations.shards.append(
            ShardOwned(
                at_ms=owned_ms,
                node_id=1,
                node_incarnation=1,
                topic="__transaction_state",
                shard=owned,
                coordinator_epoch=1,
            )
        )
    if is_excuse:
        made.assert_unknown(check)
    else:
        made.assert_broken(check, "w#1")
