"""Facts of workloads survive their way through a history, and a wrong fact is refused."""

import pytest
from oncelog_robustness.history import History, Outcome, WorkloadFact
from oncelog_robustness.workload_facts import (
    BankOpened,
    BankRead,
    GroupProgress,
    ProducerReady,
    SparkBatchEnded,
    SparkTask,
    TokenRing,
    booking_of,
    booking_value,
    facts_of,
    note,
    token_of,
    token_value,
)

FACTS = [
    ProducerReady(transactional_id="pay", protocol="TV1", producer_id=7, producer_epoch=2),
    TokenRing(topic="ring", places=3, tokens=2, group="movers"),
    BankOpened(topic="bank", partitions=2, total=100),
    BankRead(topic="bank", balances=(("alice", 60), ("bob", 40)), is_consistent=True),
    SparkTask(
        sink="s", query="q", batch=3, attempt="a", task=1, branch="1.0", values=(("t", 0, "v"),)
    ),
    SparkBatchEnded(
        sink="s", query="q", batch=3, attempt="a", outcome="info", winners=((1, "1.0"),)
    ),
    GroupProgress(group="g", waited_ms=5_000, partitions=(("t", 0, 7, 9),)),
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.kind)
def test_a_fact_is_found_again_in_a_history_read_from_its_file(fact):
    history = History()
    history.add(note(fact, client="c#1", invoked_ms=3, completed_ms=None))
    again = History.from_lines(history.lines())
    ((entry, found),) = facts_of(again, type(fact))
    assert found == fact
    assert (entry.client, entry.invoked_ms) == ("c#1", 3)


def test_a_batch_that_ended_knows_its_outcome():
    ended = FACTS[5]
    assert isinstance(ended, SparkBatchEnded)
    assert ended.was is Outcome.INFO


def test_facts_of_another_shape_are_refused():
    history = History()
    history.add(
        WorkloadFact(
            client="c", invoked_ms=0, completed_ms=0, kind="token-ring", facts='{"topic": "t"}'
        )
    )
    with pytest.raises(ValueError, match="no facts of token-ring"):
        facts_of(history, TokenRing)


def test_values_that_mean_something_are_read_back():
    assert token_of(token_value(3, 17, "mover-2#3/5|x")) == (3, 17, "mover-2#3/5|x")
    assert booking_of(booking_value("alice", -5, "t17")) == ("alice", -5, "t17")
    assert token_of("writer-1#1-5") is None
    assert booking_of(token_value(1, 2, "x")) is None
