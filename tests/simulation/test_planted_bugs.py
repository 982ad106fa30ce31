"""Each planted bug is caught, from its recorded seed on and within its budget, by a checker that is meant to notice.

A few of them every day, one a service; all of them at night (ONCELOG_SIMULATION_FULL=1), with a table of what it took.
"""

import os
import signal
import subprocess
import sys

import pytest
from oncelog_robustness.planted.catalog import BUGS

EVERY_DAY = (
    "hw-without-followers",
    "older-producer-epoch-may-end",
    "narrowed-marker-forgets-its-outcome",
    "offsets-committed-outside-the-transaction",
)
IS_FULL = os.environ.get("ONCELOG_SIMULATION_FULL") == "1"
TIMEOUT_S = 900
WHOLE_TIMEOUT_S = 3600


@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize("name", EVERY_DAY)
def test_planted_bug_is_caught(name):
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_robustness.planted", name, "--jobs", "1"],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{name}: caught by seed" in done.stdout


@pytest.mark.skipif(not IS_FULL, reason="at night: ONCELOG_SIMULATION_FULL=1")
@pytest.mark.timeout(WHOLE_TIMEOUT_S + 30)
def test_every_planted_bug_is_caught():
    # Its table and its progress bar belong on the screen.
    done = subprocess.run(
        [sys.executable, "-m", "oncelog_robustness.planted", "--all"],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
        timeout=WHOLE_TIMEOUT_S,
    )
    print(done.stdout)
    assert done.returncode == 0
    assert f"{len(BUGS)} of {len(BUGS)} planted bugs caught" in done.stdout


@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize(
    ("arguments", "ended_by", "first", "last"),
    [
        (("--all", "--seeds", "1"), signal.SIGTERM, "1 of ", "not decided: "),
        (("hw-without-followers", "--every"), signal.SIGINT, "seed ", "hw-without-followers: "),
    ],
)
def test_an_end_from_outside_tells_what_was_decided(arguments, ended_by, first, last):
    command = (sys.executable, "-m", "oncelog_robustness.planted", *arguments, "--jobs", "1")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(first)
        running.send_signal(ended_by)
        # Its end is that of every process which it started: they have its output.
        output, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert output.splitlines()[-1].startswith(last)
    assert "Traceback" not in output


def test_those_of_every_day_exist():
    assert {bug.name for bug in BUGS}.issuperset(EVERY_DAY)
