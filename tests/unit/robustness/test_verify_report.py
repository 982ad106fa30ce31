"""What verify says of a history: which promises were answered, what proves an anomaly, and how much was tried."""

import io
import json

import pytest
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.history import FinalRead, Outcome, Poll, Transaction
from oncelog_robustness.observations import Observations
from oncelog_robustness.verify.judging import OPERATIONS_MAX, judged
from oncelog_robustness.verify.page import verify_page
from oncelog_robustness.verify.promises import PROMISES
from oncelog_robustness.verify.report import show, write_report
from rich.console import Console
from tests.unit.robustness.checkers.made_history import MadeHistory
from tests.unit.robustness.made_reports import lossy, report_of, sound, stormy, struck

NOT_OF_ANY_KAFKA = {"bank", "spark-batch", "half-payment"}
"""Checkers of workloads that no stranger's cluster has."""


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
    struck(made, "operate", "command-1", 12, 15, "<rm>")
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


def test_transactions_are_counted_by_client():
    content, _ = report_of(stormy(sound()))
    assert content["transactions_by_client"]["java"] == {"commit ok": 266}
    assert set(content["transactions_by_client"]) == {"java", "aiokafka"}


def test_a_fault_has_the_longest_time_without_a_commit():
    content, _ = report_of(stormy(sound()))
    by_kind = {one["kind"]: one for one in content["fault_list"]}
    kill, rolling = by_kind["kill"], by_kind["rolling-restart"]
    assert (kill["next_commit_ms"], kill["longest_gap_ms"]) == (3_025, 3_025)
    # The first process that it stopped was not the one that the client needed.
    assert (rolling["next_commit_ms"], rolling["longest_gap_ms"]) == (95, 2_600)
    assert rolling["is_watched"]


def test_partition_0_is_shown_in_a_proof():
    content, measures = report_of(lossy())
    shown = verify_page(content, measures)
    assert "&quot;partition&quot;: 0" in shown
    assert "is_complete" in shown
    assert "&quot;error&quot;" not in shown
