"""A history judged in parts has the verdicts of the whole."""

import json

import pytest
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import Fault, History
from oncelog_robustness.judging import judge_file
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import ProducerReady
from scripts.long_history import ANOMALIES, operations
from tests.unit.robustness.checkers.made_history import Ending, MadeHistory, Outcome

from oncelog.errors import OncelogError

FACTS = {"records deleted from": ""}


def written(tmp_path, history):
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f"{line}\n" for line in history.lines()))
    return path


def both(tmp_path, history, most=1):
    """Judged as a whole, and in as many parts as there are. Proofs of parts come in another order."""
    path = written(tmp_path, history)
    with path.open() as lines:
        whole = judge(History.from_lines(lines), Observations(is_healed=True))
    parts = judge_file(path, most=most, jobs=2)
    return [
        {one.checker: (one.answer, one.judged, set(one.proof)) for one in verdicts}
        for verdicts in (whole, parts)
    ]


def long_history(count, anomaly):
    lines = [json.dumps({"facts": FACTS})]
    lines += [json.dumps(one) for one in operations(count, seed=3, topics=4, anomaly=anomaly)]
    return History.from_lines(lines)


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_parts_say_what_the_whole_says(tmp_path, anomaly):
    whole, parts = both(tmp_path, long_history(1_500, anomaly))
    assert parts == whole
    broken = [name for name, (answer, *_) in parts.items() if answer is Answer.BROKEN]
    assert broken == [] if anomaly == "none" else anomaly in broken


def test_what_shares_a_transactional_id_is_one_part(tmp_path):
    """The successor is known by a fact alone, and wrote into another topic."""
    made = MadeHistory()
    made.note(ProducerReady(transactional_id="id", protocol="TV1"), client="old#1", at=(1, 2))
    made.note(ProducerReady(transactional_id="id", protocol="TV1"), client="new#1", at=(10, 20))
    made.txn("t-0@0 a", client="old#1", tid="id", asked_ms=30, at=(25, 40))
    made.txn("u-0@0 b", client="new#1", tid="id", asked_ms=50, at=(45, 60))
    made.finals("t-0", "0 a")
    made.finals("u-0", "0 b")
    whole, parts = both(tmp_path, made.history)
    assert parts == whole
    assert parts["zombie-write"][0] is Answer.BROKEN


def test_a_group_joins_what_it_reads_with_what_it_committed(tmp_path):
    made = MadeHistory()
    made.txn("in-0@0 a", client="w#1")
    for number in (1, 2):
        made.txn(
            f"out-0@{number} b{number}",
            client=f"m#{number}",
            reads=("in-0@0 a",),
            offsets="g: in-0@1",
        )
    made.fetched("g: in-0@1", final=True)
    made.finals("in-0", "0 a")
    whole, parts = both(tmp_path, made.history)
    assert parts == whole
    assert parts["processed-once"][0] is Answer.BROKEN


def test_a_fault_matters_to_every_part(tmp_path):
    history = long_history(400, "none")
    times = {"client": "fault-plan", "invoked_ms": 1, "completed_ms": 2}
    history.add(Fault(**times, kind="client-kill", target="any"))
    whole, parts = both(tmp_path, history)
    assert parts == whole


def test_an_unanswered_part_forbids_to_say_ok(tmp_path):
    made = MadeHistory()
    made.txn("t-0@0 a", client="w#1")
    made.finals("t-0", "0 a")
    made.txn("u-0@0 b", client="x#1", ending=Ending.COMMIT, outcome=Outcome.OK)
    made.finals("u-0", end=1, complete=False)
    whole, parts = both(tmp_path, made.history)
    assert parts["lost-write"][0] is Answer.UNKNOWN
    assert parts == whole


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no facts of a history"),
        ('{"operation": "Poll"}\n', "no facts of a history"),
        ('{"facts": {}}\n{"operation":"Poll","client":"c"}\n', "no operation of a history"),
        ('{"facts": {}}\nnonsense\n', "no operation of a history"),
    ],
)
def test_a_file_that_is_no_history_is_refused(tmp_path, content, words):
    path = tmp_path / "history.jsonl"
    path.write_text(content)
    with pytest.raises(OncelogError, match=words):
        judge_file(path)
