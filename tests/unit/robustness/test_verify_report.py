"""What verify says of a history: which promises were answered, what proves an anomaly, and how much was tried."""

import io
import json

import pytest
from oncelog_robustness.chaos.measures import Tried
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import Ending, Fault, FinalRead, Outcome, Poll, Transaction
from oncelog_robustness.observations import Observations
from oncelog_robustness.verify.judging import OPERATIONS_MAX, judged
from oncelog_robustness.verify.offline import measures_of
from oncelog_robustness.verify.promises import PROMISES
from oncelog_robustness.verify.report import (
    About,
    content_of,
    show,
    write_report,
)
from rich.console import Console
from tests.unit.robustness.checkers.made_history import RU, MadeHistory

NOT_OF_ANY_KAFKA = {"bank", "spark-batch", "half-payment"}
"""Checkers of workloads that no stranger's cluster has."""


def sound():
    made = MadeHistory()
    made.history.facts = {"pulse": "w", "records deleted from": ""}
    made.txn("t-0@0 a", "t-1@0 b", asked_ms=5)
    made.txn("t-0@2 c", ending=Ending.ABORT)
    made.txn("t-0@4 d", "t-1@2 e", asked_ms=25)
    made.poll("t-0@0 a", "t-0@4 d")
    for isolation in (RU, "read_committed"):
        more = ("2 c",) if isolation is RU else ()
        made.final("t-0", "0 a", *more, "4 d", end=6, isolation=type(RU)(isolation))
        made.final("t-1", "0 b", "2 e", end=4, isolation=type(RU)(isolation))
    return made


def lossy():
    made = sound()
    made.txn("t-0@7 gone", "t-1@5 <there>", asked_ms=made.now_ms + 5)
    made.final("t-0", "0 a", "4 d", end=9)
    made.final("t-1", "0 b", "2 e", "5 <there>", end=7)
    return made


def report_of(made, **more):
    judgement, measures = judged(made.history), measures_of(made.history)
    about = About("Kafka at x:1", "abc123", ("aiokafka",), ("one limit",), "again", **more)
    return content_of(judgement, Tried.of(made.history), measures, about), measures


def test_each_promise_is_answered_by_checkers_that_there_are():
    names = [name for one in PROMISES for name in one.checkers]
    assert len(names) == len(set(names))
    verdicts = judge(MadeHistory().history, Observations())
    of_clients = [one.checker for one in verdicts][: len(names) + len(NOT_OF_ANY_KAFKA)]
    assert set(of_clients) == set(names) | NOT_OF_ANY_KAFKA


def test_a_sound_history_has_an_answer_and_says_what_was_tried():
    content, _ = report_of(sound())
    assert content["answer"] == "ok"
    assert content["headline"] == "Nothing found"
    assert "3 transactions, 5 sends" in content["means"]
    assert "That is no proof" in content["means"]
    assert "No broker was broken" in content["means"]
    by_name = {one["name"]: one for one in content["promises"]}
    assert by_name["what was aborted is not seen"]["answer"] == "ok"
    assert by_name["who was replaced writes nothing more"]["answer"] == "unknown"
    assert by_name["who was replaced writes nothing more"]["checkers"][0]["why"]


def test_without_last_reads_there_is_no_verdict():
    made = MadeHistory()
    made.txn("t-0@0 a", asked_ms=5)
    made.poll("t-0@0 a")
    judgement = judged(made.history)
    assert judgement.answer is Answer.UNKNOWN
    assert "nothing acknowledged is lost" in judgement.unanswered
    content, _ = report_of(made)
    assert content["headline"].startswith("No verdict")
    assert "could not be judged: nothing acknowledged is lost" in content["means"]


def test_an_anomaly_comes_with_the_operations_that_prove_it():
    judgement = judged(lossy().history)
    assert judgement.answer is Answer.BROKEN
    lost = next(one for one in judgement.anomalies if one.checker == "lost-write")
    assert "'gone'" in lost.sentence
    writer, *finals = lost.operations
    assert isinstance(writer, Transaction)
    assert writer.outcome is Outcome.OK
    assert all(isinstance(one, FinalRead) for one in finals)
    assert finals[-1].end_offset == 9
    assert [one.value for one in finals[-1].reads] == ["d"]
    assert {one.promise for one in judgement.anomalies} >= {
        "nothing acknowledged is lost",
        "a transaction is there whole, or not at all",
    }


def test_of_many_operations_the_few_that_matter_are_shown():
    made = sound()
    for number in range(40):
        made.poll(
            "t-0@0 a",
            f"t-0@{number + 10} a",
            f"t-0@{number + 90} other{number}",
            client=f"c{number}",
        )
    twice = next(one for one in judged(made.history).anomalies if one.checker == "duplicate")
    assert 1 < len(twice.operations) <= OPERATIONS_MAX
    assert isinstance(twice.operations[0], Transaction)
    for one in twice.operations[1:]:
        assert isinstance(one, Poll | FinalRead)
        assert "a" in {read.value for read in one.reads}
        assert len(one.reads) <= 5


def test_the_report_is_one_page_and_one_json(tmp_path):
    made = lossy()
    made.history.add(
        Fault(
            client="fault-plan",
            invoked_ms=12,
            completed_ms=15,
            kind="operate",
            target="command-1",
            facts="<rm>",
        )
    )
    content, measures = report_of(made, is_stopped=True, cleaned="removed 2 topics")
    page = write_report(tmp_path, content, measures)
    assert json.loads((tmp_path / "verify.json").read_text()) == json.loads(json.dumps(content))
    (fault,) = content["fault_list"]
    assert (fault["kind"], fault["what"], fault["next_commit_ms"]) == ("command", "<rm>", 17)
    text = page.read_text()
    for shown in (
        "Broken: nothing acknowledged is lost",
        "&lt;rm&gt;",
        "stopped by Ctrl-C",
        "one limit",
    ):
        assert shown in text
    assert "<rm>" not in text
    assert "<there>" not in text
    assert "http://" not in text
    assert "under 1 fault of brokers and 0 deaths" in content["means"]
    said = io.StringIO()
    show(Console(file=said, width=120), content, page)
    assert "lost-write: w#1 in a transaction" in said.getvalue()
    assert "BROKEN" in said.getvalue()


@pytest.mark.parametrize("name", ["text", "source", "name"])
def test_a_promise_is_told_in_words(name):
    assert all(getattr(one, name) for one in PROMISES)
