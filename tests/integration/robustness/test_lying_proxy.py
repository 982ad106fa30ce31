"""A proxy plants a bug in a real log, and a checker names it, shown by few operations; an honest proxy is acquitted."""

import json
import subprocess
import sys

import pytest
from oncelog_robustness.checkers.all import ALL, judge
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.checkers.witness import witness
from oncelog_robustness.history import History
from oncelog_robustness.lying.catalog import BUGS, HONEST
from oncelog_robustness.observations import Observations
from tests.integration.robustness.chaos_command import chaos
from tests.integration.robustness.lying_proxy import (
    FOUND_BY,
    PROOF_OPERATIONS_MAX,
    SCENARIO,
    history_behind,
    lying,
)

SECONDS = 4
IN_THE_GATE = {
    "drop-batch": ("plain",),
    "show-aborted": ("transactions",),
    "fence-wrong": ("transactions",),
}
"""Two bugs of a log and one of a coordinator, each with what it takes to notice it."""


def broken_in(history):
    verdicts = judge(history, Observations(is_healed=True))
    return {one.checker: one.proof for one in verdicts if one.answer is Answer.BROKEN}


def shown_by(history, checker, sentence):
    observations = Observations(is_healed=True)
    check = next(one for one in ALL if one(History(), observations).checker == checker)
    return witness(check, history, observations, sentence)


def test_an_honest_proxy_is_acquitted(target):
    with lying(HONEST, target.bootstrap) as proxy:
        history = history_behind(proxy, "honest", ("transactions", "plain", "zombies"), SECONDS)
        assert proxy.strikes == []
    assert broken_in(history) == {}
    verdicts = judge(history, Observations(is_healed=True))
    judged = {one.checker: one.judged for one in verdicts if one.answer is Answer.OK}
    assert judged["lost-write"] > 20
    assert judged["aborted-read"] > 0


@pytest.mark.parametrize("bug", IN_THE_GATE)
def test_a_bug_of_the_log_is_named(target, bug):
    with lying(bug, target.bootstrap) as proxy:
        history = history_behind(proxy, bug, IN_THE_GATE[bug], SECONDS)
        assert proxy.strikes
    found = broken_in(history)
    assert FOUND_BY[bug] in found
    shown = shown_by(history, FOUND_BY[bug], found[FOUND_BY[bug]][0])
    assert len(shown) <= PROOF_OPERATIONS_MAX


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("bug", [HONEST, *BUGS])
def test_chaos_names_each_bug_of_any_kafka(target, tmp_path, bug):
    folder = tmp_path / "run"
    with lying(bug, target.bootstrap) as proxy:
        code, output = chaos(
            *("--minutes", "0.3", "--seed", "7", "--bootstrap", proxy.bootstrap),
            *("--scenario", str(SCENARIO), "--folder", str(folder)),
        )
        assert bool(proxy.strikes) is (bug != HONEST)
    assert code == (0 if bug == HONEST else 1), output
    report = json.loads((folder / "report.json").read_text())
    found = {
        one["checker"]: one["proof"] for one in report["verdicts"] if one["answer"] == "broken"
    }
    if bug == HONEST:
        assert found == {}
        return
    assert FOUND_BY[bug] in found
    with (folder / "history.jsonl").open() as lines:
        history = History.from_lines(lines)
    shown = shown_by(history, FOUND_BY[bug], found[FOUND_BY[bug]][0])
    assert len(shown) <= PROOF_OPERATIONS_MAX
    print(f"{bug}: {', '.join(found)}; {len(shown)} operations; {report['wall_s']} s")


def test_each_bug_has_a_checker_that_is_to_name_it():
    names = {one(History(), Observations()).checker for one in ALL}
    assert FOUND_BY.keys() == BUGS.keys()
    assert set(FOUND_BY.values()) <= names


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bug", "unheard-of", "--to", "127.0.0.1:9092"), "invalid choice: 'unheard-of'"),
        (("--to", "nonsense"), "'nonsense' is no host:port"),
        (("--to", "127.0.0.1:9092", "--listen", "192.0.2.1:1"), "cannot listen at 192.0.2.1:1"),
    ],
)
def test_what_cannot_begin_says_why(arguments, words):
    ended = subprocess.run(
        [sys.executable, "-m", "oncelog_robustness.lying", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
