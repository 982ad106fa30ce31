"""Many seeds find nothing, and a seed is the same run whatever Python makes of hashes (ADR 0021)."""

import re
import signal
import subprocess
import sys

import pytest
from oncelog_robustness.planted.hunt import SCENARIOS as PLANTED
from oncelog_robustness.simulator.forks import STANDS_STILL_AFTER
from tests.simulation.simulator_command import IS_FULL, digests, output_of_sound, simulate

DIGESTS = 50 if IS_FULL else 2
SEEDS = 2000 if IS_FULL else 10 - DIGESTS
"""Behind those of the digests, which find nothing either: ten scenarios, a seed each."""
TIMEOUT_S = 20_000 if IS_FULL else 900
HUNTS = sorted(path.stem for path in PLANTED.glob("*.toml")) if IS_FULL else ["frozen"]


def sound(*arguments):
    return output_of_sound(*arguments, "--jobs", "2", timeout_s=TIMEOUT_S)


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_seeds_find_nothing():
    first = 1_001 if IS_FULL else DIGESTS + 1
    assert f"{SEEDS} seeds" in sound("--seeds", str(SEEDS), "--first-seed", str(first))


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_partitions_move_under_load_and_nothing_is_lost():
    """A scenario that is played when asked for."""
    count = 60 if IS_FULL else 2
    output = sound("--scenario", "asked/moves", "--seeds", str(count))
    assert re.search(r"replicas-moved\s+\d", output), output


@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize(
    "scenario",
    ["groups", "admin", "prepared", pytest.param("late-offsets", marks=pytest.mark.slow)],
)
def test_what_clients_and_operators_seldom_do_breaks_nothing(scenario):
    """Scenarios that are played when asked for, too."""
    count = 60 if IS_FULL else 2
    assert f"{count} seeds" in sound("--scenario", f"asked/{scenario}", "--seeds", str(count))


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 30)
@pytest.mark.parametrize("scenario", HUNTS)
def test_a_hunt_finds_nothing_where_no_bug_is_planted(scenario):
    """These storms aim at one thing each, far harder than those of the many seeds."""
    count = 12 if IS_FULL else 2
    path = str(PLANTED / f"{scenario}.toml")
    assert f"{count} seeds" in sound("--scenario", path, "--seeds", str(count))


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_a_seed_is_one_run_under_two_hash_seeds():
    given = ("--seeds", str(DIGESTS), "--jobs", "2")
    one, other = (digests(*given, timeout_s=TIMEOUT_S, hash_seed=seed) for seed in ("1", "2"))
    assert len(one) == DIGESTS, one
    assert one == other


@pytest.mark.slow
def test_another_seed_is_another_run():
    lines = digests("--seeds", "3", "--scenario", "storm", "--jobs", "2", timeout_s=TIMEOUT_S)
    assert len({line.split()[-1] for line in lines}) == 3, lines


@pytest.mark.timeout(2 * TIMEOUT_S + 30)
@pytest.mark.slow
def test_a_seed_alone_runs_in_its_scenario_among_many():
    (line,) = digests("--seeds", "1", "--first-seed", "3", timeout_s=TIMEOUT_S)
    many = line.split()
    alone = simulate("--seed", "3", timeout_s=TIMEOUT_S).stdout
    assert f"seed 3 of {many[1]}, " in alone
    assert f"digest {many[2]}\n" in alone


def test_what_broke_comes_with_the_line_that_replays_it():
    scenario = str(PLANTED / "readers.toml")
    bug = "fetch-begins-where-the-last-one-ended"
    many = ("--seeds", "5", "--until-broken", "--jobs", "1", "--scenario", scenario)
    done = simulate(*many, "--planted", bug, columns="60", timeout_s=TIMEOUT_S)
    assert done.returncode == 1, done.stdout
    (line,) = {line.strip() for line in done.stdout.splitlines() if line.startswith("  replay: ")}
    seed = int(line.split("SEED=")[1].split()[0])
    assert line == f'replay: make sim SEED={seed} SCENARIO={scenario} ARGS="--planted {bug}"'


def test_a_run_killed_by_its_clock_is_unfinished_never_broken():
    many = ("--seeds", "2", "--scenario", "storm", "--jobs", "2")
    for which, lines in ((many, 2), (("--seed", "1", "--scenario", "storm"), 1)):
        done = simulate(*which, "--run-timeout-s", "1", timeout_s=TIMEOUT_S)
        assert done.returncode == 3, done.stdout + done.stderr
        assert done.stdout.count("is unfinished: killed by its clock after") == lines
        assert "is broken" not in done.stdout
        assert "replay: make sim SEED=1 SCENARIO=storm" in done.stdout
        if lines == 2:
            assert "0 broken, 2 unfinished" in done.stdout


BUSY_MACHINE = """
import os, signal
from oncelog_robustness.scenario import load_scenario
from oncelog_robustness.simulator.forks import Job, run_all

def loops(folder):
    while True:
        pass

def stands_still(folder):
    os.kill(os.getpid(), signal.SIGSTOP)

for number, options in enumerate((loops, stands_still)):
    for result in run_all([Job(load_scenario("storm"), number, options)], 1, 1):
        print(result.unfinished)
"""


def test_the_clock_of_a_run_is_that_of_its_processor():
    """On a busy machine a sound run had used a tenth of its time when the wall's clock killed it."""
    done = subprocess.run(
        [sys.executable, "-c", BUSY_MACHINE], capture_output=True, check=True, text=True
    )
    text = r"killed by its clock after (\d+) s of a processor and (\d+) s of the wall"
    (of_loop, _), (of_still, wall) = re.findall(text, done.stdout)
    assert (int(of_loop), int(of_still)) == (1, 0)
    assert int(wall) >= STANDS_STILL_AFTER


def many_short_runs():
    """Each has its line, and is killed by its clock after a second of a processor."""
    command = ("-m", "oncelog_robustness.simulator", "--seeds", "500", "--digests", "--jobs", "1")
    return subprocess.Popen(
        (sys.executable, *command, "--run-timeout-s", "1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_whoever_reads_one_line_only_gets_no_complaint():
    with many_short_runs() as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 141


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_an_end_from_outside_tells_what_was_found(ended_by):
    with many_short_runs() as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        running.send_signal(ended_by)
        _, output = running.communicate(timeout=60)
    assert running.returncode == 130
    assert output.startswith("stopped after ")
    assert "Traceback" not in output
