"""Each workload against a running log, with clients that die: much happens, and every checker that can judge says ok.
And each history can be found guilty: changed by hand, it is broken by the checker that is meant for it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import (
    Ending,
    FinalRead,
    History,
    Isolation,
    OffsetsCommitted,
    OffsetsFetched,
    Outcome,
    PlainSend,
    Poll,
    Read,
    Transaction,
)
from oncelog_robustness.workload_facts import (
    GroupProgress,
    KeyDeleted,
    ProducerReady,
    SparkBatchEnded,
    SparkTask,
    facts_of,
    note,
)
from tests.integration.robustness.judged import (
    broken,
    changed,
    history_of,
    kills,
    verdicts,
    with_final_read,
    without,
)


def committed(history: History) -> list[Transaction]:
    return [
        one
        for one in history.all(Transaction)
        if one.ending is Ending.COMMIT and one.outcome is Outcome.OK and one.sends
    ]


def final_reads(history: History) -> list[Read]:
    finals = [one for one in history.all(FinalRead) if one.isolation is Isolation.READ_COMMITTED]
    return [read for one in finals for read in one.reads]


def loses_a_value(history: History) -> History:
    """One that is in the end where it belongs."""
    there = {read.value for read in final_reads(history)}
    values = [send.value for one in committed(history) for send in one.sends]
    values += [one.send.value for one in history.all(PlainSend) if one.outcome is Outcome.OK]
    return without(history, [next(value for value in values if value in there)])


def loses_the_newest_value_of_a_key(history: History) -> History:
    """An acknowledged one. An older value, or one that a tombstone follows, may be gone from a compacted topic. One
    whose commit was not answered may never have been there.
    """
    newest = {(one.topic, one.partition, one.key): one.value for one in final_reads(history)}
    acknowledged = {send.value for one in committed(history) for send in one.sends}
    return without(history, [next(value for value in newest.values() if value in acknowledged)])


def loses_a_value_of_a_batch(history: History) -> History:
    """Of a task that its driver named when it committed, and was told so."""
    winners = {
        (one.attempt, *winner) for _, one in committed_batches(history) for winner in one.winners
    }
    written = [
        value
        for _, task in facts_of(history, SparkTask)
        if (task.attempt, task.task, task.branch) in winners
        for _, _, value in task.values
    ]
    return without(history, [written[-1]])


def reads_twice(history: History) -> History:
    read = final_reads(history)[0]
    end = max(one.end_offset for one in history.all(FinalRead) if one.topic == read.topic)
    return with_final_read(history, read._replace(offset=end))


def loses_a_token(history: History) -> History:
    last = max(final_reads(history), key=lambda one: int((one.value or "").split("|")[2]))
    return without(history, [last.value])


def processes_twice(history: History) -> History:
    transaction = next(one for one in committed(history) if one.reads and one.offsets)
    sends = tuple(
        send._replace(value=f"{send.value}-again", offset=None) for send in transaction.sends
    )
    history = changed(history, lambda one: one)
    history.add(replace(transaction, sends=sends))
    return history


def shows_a_zombie(history: History) -> History:
    """What a fenced producer wrote after its successor was ready stands in the log after all."""
    readies = [
        (ready.transactional_id, entry.client, entry.invoked_ms, entry.completed_ms)
        for entry, ready in facts_of(history, ProducerReady)
        if entry.completed_ms is not None
    ]
    for one in history.all(Transaction):
        if one.ending is Ending.ABORT or one.outcome is not Outcome.FAIL or not one.sends:
            continue
        own = [
            completed_ms
            for _, client, _, completed_ms in readies
            if client == one.client and completed_ms <= one.invoked_ms
        ]
        is_fenced = own and any(
            name == one.transactional_id and max(own) < invoked_ms and completed_ms < one.asked_ms
            for name, client, invoked_ms, completed_ms in readies
            if client != one.client and one.asked_ms is not None
        )
        if is_fenced:
            send = one.sends[0]
            return with_final_read(history, Read(send.topic, send.partition, 10_000, send.value))
    raise AssertionError("no transaction was fenced")


def shows_a_loser(history: History) -> History:
    """A try that its driver did not name is there as well."""
    ended = {one.attempt: dict(one.winners) for _, one in committed_batches(history)}
    for _, task in facts_of(history, SparkTask):
        winners = ended.get(task.attempt, {})
        if winners.get(task.task, task.branch) != task.branch:
            topic, partition, value = task.values[0]
            return with_final_read(history, Read(topic, partition, 10_000, value))
    raise AssertionError("no task of a committed attempt ran twice")


def tells_an_offset_of_nobody(history: History) -> History:
    def tell(one):
        if not isinstance(one, OffsetsFetched) or not one.is_final:
            return one
        offsets = tuple((topic, number, 1) for topic, number, _ in one.fetched.offsets)
        return replace(one, fetched=one.fetched._replace(offsets=offsets))

    return changed(history, tell)


def shows_what_was_late(history: History) -> History:
    send = next(one.sends[0] for one in history.all(Transaction) if "decided" in one.error)
    return with_final_read(history, Read(send.topic, send.partition, 10_000, send.value))


def commits(history: History) -> list[OffsetsCommitted]:
    return history.all(OffsetsCommitted)


def committed_batches(history: History):
    return [
        (entry, one)
        for entry, one in facts_of(history, SparkBatchEnded)
        if one.outcome == Outcome.OK.value
    ]


@dataclass(frozen=True)
class Case:
    kind: str
    parameters: dict[str, object] = field(default_factory=dict)
    breaks: tuple[tuple[Callable[[History], History], str], ...] = ()
    judges: tuple[str, ...] = ()
    """Checkers that must have found something to judge."""
    name: str = ""
    """Where a kind has several cases."""


ALWAYS = ("lost-write", "duplicate", "inconsistent-offsets", "poll-skip", "poll-reversal")
TRANSACTIONAL = (*ALWAYS, "aborted-read", "torn-transaction", "unseen-after-healing")
DEADLY = {"life_ms": 1_200, "rest_ms": 300}
FENCING = {"transaction_timeout_ms": 3_000, "dawdle_ms": 150, "rest_ms": 300}
CASES = [
    Case("transactions", DEADLY, ((loses_a_value, "lost-write"),), TRANSACTIONAL),
    Case(
        "plain",
        {"life_ms": 700, "rest_ms": 300, "think_ms": 3, "poll_pause_ms": 200},
        ((loses_a_value, "lost-write"), (reads_twice, "duplicate")),
        ALWAYS,
    ),
    Case(
        "token_ring",
        {"tokens": 2, "life_ms": 2_000, "rest_ms": 300, "think_ms": 10},
        ((loses_a_token, "token-ring"),),
        (*TRANSACTIONAL, "token-ring", "processed-once"),
    ),
    Case(
        "bank",
        {**DEADLY, "think_ms": 20},
        ((loses_a_value, "bank"), (loses_a_value, "torn-transaction")),
        (*TRANSACTIONAL, "bank"),
    ),
    Case(
        "copier",
        {"life_ms": 3_000, "rest_ms": 300, "write_pause_ms": 30, "readers": 1},
        ((loses_a_value, "lost-write"), (processes_twice, "processed-once")),
        (*TRANSACTIONAL, "processed-once", "stuck-group"),
    ),
    Case(
        "zombies",
        {**FENCING, "reign_ms": 500, "haunt_ms": 1_500, "life_ms": 700},
        ((shows_a_zombie, "zombie-write"), (loses_a_value, "lost-write")),
        (*TRANSACTIONAL, "zombie-write"),
    ),
    Case(
        "hijack",
        {**FENCING, "life_ms": 3_000},
        ((shows_a_zombie, "zombie-write"), (loses_a_value, "lost-write")),
        (*TRANSACTIONAL, "zombie-write"),
    ),
    Case("compaction", DEADLY, ((loses_the_newest_value_of_a_key, "lost-write"),), TRANSACTIONAL),
    Case(
        "sink",
        {
            **DEADLY,
            "think_ms": 100,
            "attempt_timeout_ms": 3_000,
            "zombie_pause_ms": 500,
        },
        ((loses_a_value_of_a_batch, "spark-batch"), (shows_a_loser, "spark-batch")),
        (*ALWAYS[1:], "spark-batch"),
    ),
    Case("churn", DEADLY, ((loses_a_value, "lost-write"),), TRANSACTIONAL),
    Case(
        "copier",
        {
            "life_ms": 3_000,
            "rest_ms": 300,
            "write_pause_ms": 30,
            "readers": 1,
            "consumer_protocol": True,
            "static_share": 0.4,
        },
        ((loses_a_value, "lost-write"), (processes_twice, "processed-once")),
        (*TRANSACTIONAL, "processed-once", "stuck-group"),
        "copier of the consumer protocol",
    ),
    Case(
        "members",
        {**DEADLY, "think_ms": 100, "pause_ms": 50},
        ((tells_an_offset_of_nobody, "offsets-outside-transaction"),),
        (*TRANSACTIONAL, "offsets-outside-transaction", "stuck-group"),
    ),
    Case(
        "meddling",
        {**DEADLY, "think_ms": 50, "meddle_ms": 50},
        ((loses_a_value, "lost-write"), (shows_what_was_late, "delayed-end-txn-tv1")),
        TRANSACTIONAL,
    ),
]


IN_THE_GATE = ("transactions", "compaction", "zombies")
"""The others take a minute more."""


def cases():
    for case in CASES:
        marks = () if case.kind in IN_THE_GATE else (pytest.mark.robustness,)
        yield pytest.param(case, id=case.name or case.kind, marks=marks)


PACES = (1, 2, 4, 8)


@pytest.fixture(scope="module", params=cases())
def run(request, target):
    """A busy machine does less in the same time: then there is more of it, for each life and for all."""
    case = request.param
    for seed, pace in enumerate(PACES, 1):
        history = history_of(target, case.kind, case.parameters, seed, pace)
        if broken(history) or is_eventful(case, history):
            break
    return case, history


def is_eventful(case, history):
    try:
        check_that_much_happens(case, history)
        test_what_a_workload_alone_does_was_done((case, history))
        for breaks, _ in case.breaks:
            breaks(history)
    except (AssertionError, StopIteration):
        return False
    return True


def check_that_much_happens(case, history):
    done = [one for one in history.all(PlainSend) if one.outcome is Outcome.OK]
    done += [*committed(history), *committed_batches(history)]
    assert len(done) > 5
    assert kills(history) > 0
    assert {one.isolation for one in history.all(Poll)} == set(Isolation)
    found = verdicts(history)
    assert Answer.UNKNOWN not in {found[name].answer for name in case.judges}


def test_much_happens_and_nothing_is_broken(run):
    case, history = run
    check_that_much_happens(case, history)
    assert all(one.is_complete for one in history.all(FinalRead))
    found = verdicts(history)
    assert broken(history) == {}
    assert {name: found[name].answer for name in case.judges} == dict.fromkeys(
        case.judges, Answer.OK
    )


def test_a_broken_history_is_found_guilty(run):
    case, history = run
    for breaks, checker in case.breaks:
        assert checker in broken(breaks(history)), breaks.__name__


def test_what_a_workload_alone_does_was_done(run):
    case, history = run
    endings = [(one.ending, one.outcome) for one in history.all(Transaction)]
    if case.kind not in ("plain", "zombies", "hijack", "sink"):
        assert (Ending.ABORT, Outcome.OK) in endings
    match case.kind:
        case "plain":
            assert Outcome.INFO in [one.outcome for one in history.all(PlainSend)]
        case "transactions":
            assert (Ending.NONE, Outcome.FAIL) in endings
            assert any(one.reads for one in history.all(Transaction))
        case "copier":
            assert any(one.is_final for one in history.all(OffsetsFetched))
            ((entry, progress), *_) = facts_of(history, GroupProgress)
            stuck = replace(progress, partitions=((*progress.partitions[0][:2], 0, 1),))
            history = changed(history, lambda one: one)
            history.add(note(stuck, client=entry.client, invoked_ms=0, completed_ms=0))
            assert "stuck-group" in broken(history)
        case "zombies" | "hijack":
            assert "Fenced" in "".join(one.error for one in history.all(Transaction))
        case "compaction":
            assert facts_of(history, KeyDeleted)
            sends = [send for one in committed(history) for send in one.sends]
            assert len(final_reads(history)) < len(sends)
        case "sink":
            endings = {one.outcome for _, one in facts_of(history, SparkBatchEnded)}
            assert {Outcome.OK.value, Outcome.FAIL.value} <= endings
            assert len({one.client for one, _ in committed_batches(history)}) > 1
        case "members":
            outcomes = {(one.committed.offsets[0][2] < 0, one.outcome) for one in commits(history)}
            assert {(False, Outcome.OK), (False, Outcome.FAIL), (True, Outcome.OK)} <= outcomes
        case "meddling":
            assert any("decided" in one.error for one in history.all(Transaction))
        case "churn":
            topics = {send.topic for one in history.all(Transaction) for send in one.sends}
            assert topics - {one.topic for one in history.all(FinalRead)}
            assert any(one.start_offset > 0 for one in history.all(FinalRead))
