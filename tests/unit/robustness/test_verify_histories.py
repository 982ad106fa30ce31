"""Histories that `oncelog verify --history` is given: EDN, Jepsen's operations, our own lines; good and bad ones."""

import gzip
import json

import pytest
from oncelog_robustness.chaos.measures import FAULT_PLAN, Tried
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import Fault, Isolation, Outcome, Poll, Transaction
from oncelog_robustness.judging import judge_parts
from oncelog_robustness.verify.edn import EdnError, Keyword, forms
from oncelog_robustness.verify.jepsen import read_jepsen
from oncelog_robustness.verify.judging import judged
from oncelog_robustness.verify.offline import _see, _whole, judge_history, measures_of
from tests.unit.robustness.checkers.made_history import MadeHistory

from oncelog.errors import OncelogError

RC = Isolation.READ_COMMITTED


def jepsen(*operations, isolation=RC):
    """Each `process type f value`, a millisecond after the other."""
    lines = []
    for at, text in enumerate(operations):
        process, kind, f, value = text.split(" ", 3)
        lines.append(
            f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}, :time {at * 1_000_000}, :index {at}}}"
        )
    return read_jepsen("\n".join(lines), isolation)


def done(process, kind, f, asked, told):
    return f"{process} invoke {f} {asked}", f"{process} {kind} {f} {told}"


WRITTEN = (
    *done(0, "ok", "txn", "[[:send 5 1] [:send 6 1]]", "[[:send 5 [0 1]] [:send 6 [0 1]]]"),
    *done(0, "ok", "send", "[[:send 5 2]]", "[[:send 5 [2 2]]]"),
)
POLLED = done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1] [2 2]], 6 [[0 1]]}]]")


def answers(found):
    return {
        verdict.checker: verdict.answer
        for one in judged(found.history).promises
        for verdict in one.verdicts
    }


def broken(found):
    return {name for name, answer in answers(found).items() if answer is Answer.BROKEN}


# ------------------------------------------------------------------------------------------------------------- EDN


def test_edn_is_read_as_it_is_written():
    text = '#j.Op{:a -1.5, :b nil :c #{1} :d "x\\"y\\n" #_ (skip) :e [true 7N]} ; said\n\n :x'
    assert list(forms(text)) == [
        (1, {"a": -1.5, "b": None, "c": [1], "d": 'x"y\n', "e": [True, 7]}),
        (3, "x"),
    ]
    assert isinstance(next(forms(":ok"))[1], Keyword)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("\n{:a", "line 2: the text ends in the middle"),
        ("[1\n2}", "line 2: '}' closes a '['"),
        ("{:a}", "a key without a value"),
        ("]", "']' closes or discards"),
        ('"open', "is no EDN"),
        ("[" * 200 + "]" * 200, "nested more than 100 deep"),
        ("{{:a 1} 2}", "a key cannot be used"),
    ],
)
def test_edn_that_is_none_is_refused_with_its_line(text, named):
    with pytest.raises(EdnError, match=None) as refused:
        list(forms(text))
    assert named in str(refused.value)


# ---------------------------------------------------------------------------------------------------------- Jepsen


def test_a_sound_history_of_jepsen_breaks_nothing():
    found = jepsen(*WRITTEN, *POLLED, "2 invoke crash nil", ":nemesis info kill :all")
    assert broken(found) == set()
    assert answers(found)["lost-write"] is Answer.OK
    assert answers(found)["torn-transaction"] is Answer.OK
    assert answers(found)["duplicate"] is Answer.OK
    assert found.notes == ("Operations of other kinds are not looked at: :kill (1)",)
    first = found.history.all(Transaction)[0]
    assert [(one.topic, one.value, one.offset) for one in first.sends] == [
        ("key 5", "5/1", 0),
        ("key 6", "6/1", 0),
    ]


@pytest.mark.parametrize(
    ("operations", "checker"),
    [
        (
            (*WRITTEN, *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[2 2]], 6 [[0 1]]}]]")),
            "lost-write",
        ),
        (
            (
                *done(0, "fail", "send", "[[:send 5 1]]", "[[:send 5 1]]"),
                *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1]]}]]"),
            ),
            "aborted-read",
        ),
        (
            (*WRITTEN, *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1] [2 2] [3 1]]}]]")),
            "duplicate",
        ),
        (
            (*WRITTEN, *POLLED, *done(2, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 9]]}]]")),
            "inconsistent-offsets",
        ),
        (
            # What Jepsen found in a real run: two processes were told the same offset.
            (
                *done(7, "ok", "send", "[[:send 11 1]]", "[[:send 11 [537 1]]]"),
                *done(8, "ok", "send", "[[:send 11 2]]", "[[:send 11 [537 2]]]"),
            ),
            "inconsistent-offsets",
        ),
        (
            (*WRITTEN, *POLLED, *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1]]}]]")),
            "poll-reversal",
        ),
        (
            (
                *done(
                    0, "ok", "txn", "[[:send 5 1] [:send 5 2]]", "[[:send 5 [4 1]] [:send 5 [3 2]]]"
                ),
            ),
            "send-reversal",
        ),
        (
            done(0, "ok", "txn", "[[:send 5 1] [:poll]]", "[[:send 5 [0 1]] [:poll {5 [[0 1]]}]]"),
            "pre-committed-read",
        ),
        (
            (
                *WRITTEN,
                *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1]]}]]"),
                *done(0, "ok", "send", "[[:send 5 3]]", "[[:send 5 [3 3]]]"),
                *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[3 3]]}]]"),
                *done(2, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1] [2 2] [3 3]], 6 [[0 1]]}]]"),
            ),
            "poll-skip",
        ),
    ],
)
def test_what_is_broken_in_a_history_of_jepsen_is_found(operations, checker):
    assert checker in broken(jepsen(*operations))


def test_a_consumer_that_was_moved_may_go_back():
    again = done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1]]}]]")
    moved = done(1, "ok", "assign", "[5]", "[5]")
    assert broken(jepsen(*WRITTEN, *POLLED, *moved, *again)) == set()
    failed = done(1, "info", "poll", "[[:poll]]", "nil")
    assert broken(jepsen(*WRITTEN, *POLLED, *failed, *again)) == set()
    rebalanced = again[1] + ", :rebalance-log [{:keys [5]}]"
    assert broken(jepsen(*WRITTEN, *POLLED, again[0], rebalanced)) == set()


def test_what_nobody_can_know_is_not_held_against_a_history():
    """A send without an offset that nobody polled may lie above all polls, also where its transaction is seen."""
    found = jepsen(
        *done(0, "ok", "txn", "[[:send 5 1] [:send 5 2]]", "[[:send 5 [0 1]] [:send 5 [nil 2]]]"),
        *done(2, "info", "txn", "[[:send 5 3] [:send 6 3]]", "[[:send 5 3] [:send 6 3]]"),
        "3 invoke send [[:send 5 9]]",
        *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1] [1 3]]}]]"),
    )
    assert broken(found) == set()
    assert found.notes == ("3 sends without an offset, which nobody polled, are not judged",)
    unanswered = [one for one in found.history.all(Transaction) if one.outcome is Outcome.INFO]
    assert [one.completed_ms is None for one in unanswered] == [False, True]


def test_consumers_of_a_history_may_read_uncommitted():
    aborted = (
        *done(0, "fail", "txn", "[[:send 5 1] [:poll]]", "[[:send 5 1] [:poll]]"),
        *done(1, "ok", "poll", "[[:poll]]", "[[:poll {5 [[0 1]]}]]"),
    )
    assert "aborted-read" in broken(jepsen(*aborted))
    found = jepsen(*aborted, isolation=Isolation.READ_UNCOMMITTED)
    assert "aborted-read" not in broken(found)
    assert found.history.all(Poll)[0].isolation is Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{:f :send}", "line 1: \"{'f': 'send'}\" is no operation with a :type"),
        ("{:type :ok, :f :send, :value [[:push 1 2]], :process 0}", "['push', 1, 2] is neither"),
        ("{:type :odd, :f :send, :value [], :process 0}", ":type is :odd"),
        ("{:type :ok, :f :poll, :value [[:poll {1 [5]}]], :process 0}", "5 of a poll of 1 is no"),
        ("{:type :ok, :f :poll, :value [[:poll 7]], :process 0}", "is no poll with a map"),
        ("{:type :info, :f :kill, :process :nemesis}", "it holds no operation :send"),
        ('{:type :ok, :f :send, :value [], :process 0, :time "now"}', "'now' is no time"),
    ],
)
def test_a_history_of_something_else_is_refused(text, named, tmp_path):
    with pytest.raises(EdnError) as refused:
        read_jepsen(text, RC)
    assert named in str(refused.value)


# ------------------------------------------------------------------------------------------------------------ files


def test_our_history_is_read_plain_and_compressed(tmp_path):
    made = MadeHistory()
    made.txn("t-0@0 a")
    made.final("t-0", "0 a", end=1)
    text = "\n".join(made.history.lines()) + "\n"
    plain, packed = tmp_path / "h.jsonl", tmp_path / "h.jsonl.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        found = judge_history(path, RC)
        assert found.judgement == judged(made.history)
        assert found.tried == Tried.of(made.history)
        assert found.measures == measures_of(made.history)
    edn = tmp_path / "history.edn"
    edn.write_text("{:type :ok, :f :send, :value [[:send 1 [0 2]]], :process 0, :index 1}")
    assert judge_history(edn, RC).tried.operations[Transaction.__name__] == 1


def test_many_parts_are_judged_as_the_whole_is(tmp_path):
    """Two anomalies in two parts, each with its operations, and a fault that each part has."""
    made = MadeHistory()
    made.history.add(
        Fault(client=FAULT_PLAN, invoked_ms=1, completed_ms=5, kind="kill", target="broker-1")
    )
    for topic in ("t", "u"):
        made.txn(f"{topic}-0@0 {topic}1", client=f"{topic}-w#1", tid=f"{topic}-w")
        made.txn(f"{topic}-0@2 {topic}2", client=f"{topic}-w#1", tid=f"{topic}-w")
        made.finals(f"{topic}-0", f"2 {topic}2")
    path = tmp_path / "h.jsonl"
    path.write_text("".join(f"{line}\n" for line in made.history.lines()))
    seen = judge_parts(path, _see, most=1, jobs=1)
    assert len(seen.looks) == 2
    found = _whole(seen.facts, seen.verdicts, seen.looks)
    whole = judged(made.history)
    assert set(found.judgement.anomalies) == set(whole.anomalies)
    assert len(whole.anomalies) == 2
    assert all(one.operations for one in found.judgement.anomalies)
    assert found.tried == Tried.of(made.history)
    assert found.measures == measures_of(made.history)


def test_a_broken_line_is_named_by_its_number(tmp_path):
    made = MadeHistory()
    made.txn("t-0@0 a")
    lines = [*made.history.lines(), '{"operation": "Poll", "client": "c"}']
    path = tmp_path / "h.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(OncelogError, match=r"line 3: .* is no operation of a history"):
        judge_history(path, RC)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"\x1f\x8b broken", "cannot read --history"),
        (b"\xff\xfe", "is no text"),
        (json.dumps({"operation": "Dance"}).encode(), "the first line is no facts of a history"),
        (b"hello", "is no history of ours (JSON lines) nor of Jepsen's"),
        (b"", "it holds no operation"),
    ],
)
def test_a_file_that_is_no_history_is_named(raw, named, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(raw)
    with pytest.raises(Exception, match="--history") as refused:
        judge_history(path, RC)
    assert str(path) in str(refused.value)
    assert named in str(refused.value)
