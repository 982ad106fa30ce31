"""The command of chaos: against any Kafka, interrupted, and what it refuses (`failover/test_short_chaos.py`: a run)."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from tests.integration.robustness.chaos_command import ROOT, TIMEOUT_S, chaos, start
from tests.targets import cluster_folder

from oncelog_server.demo.processes import OncelogServer


@pytest.fixture
def folder():
    with cluster_folder() as found:
        yield found


@pytest.mark.robustness
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_any_kafka_by_its_address(folder):
    """Here it is `oncelog up`. Nothing of it is broken but our own clients."""
    with OncelogServer(folder / "data") as server:
        code, output = chaos(
            *("--minutes", "0.1", "--seed", "7", "--folder", str(folder)),
            *("--bootstrap", server.bootstrap),
        )
    assert code == 0, output
    report = json.loads((folder / "report.json").read_text())
    assert [one["role"] for one in report["roles"]] == ["clients"]
    assert set(report["faults"]["by_kind"]) == {"client-kill"}
    answers = {one["checker"]: one["answer"] for one in report["verdicts"]}
    assert answers["lost-write"] == answers["torn-transaction"] == "ok"
    assert answers["replicas-differ"] == answers["process-lost"] == "unknown"
    assert server.bootstrap in report["replay"]


@pytest.mark.robustness
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_leaves_nothing_behind(folder, ended_by):
    with OncelogServer(folder / "data") as server:
        process = start(
            "--minutes", "5", "--folder", str(folder / "run"), "--bootstrap", server.bootstrap
        )
        assert process.stdout is not None
        output = "".join(iter(process.stdout.readline, "storm\n"))
        children = psutil.Process(process.pid).children(recursive=True)
        assert children, output
        process.send_signal(ended_by)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 130, output + rest
        assert "Traceback" not in rest
        gone, alive = psutil.wait_procs(children, timeout=30)
        assert not alive
        assert len(gone) == len(children)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_a_run_interrupted_at_its_start_leaves_no_cluster(folder):
    def of_the_run():
        return [one for one in psutil.process_iter(["cmdline"]) if str(folder) in str(one.info)]

    process = start("--minutes", "5", "--folder", str(folder))
    try:
        deadline = time.monotonic() + 60
        # Its Postgres runs: there is something to leave behind, and more is about to be started.
        while not any("postgres" in str(one.info) for one in of_the_run()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert of_the_run() == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--bootstrap", "127.0.0.1:1"], "nobody listens at 127.0.0.1:1"),
        (["--bootstrap", "nonsense"], "is no host:port"),
        (["--bootstrap", "a:b,c"], "is no host:port"),
        (["--scenario", "no-such"], "there is no scenario 'no-such'"),
        (["--config", "client.properties"], "--config says how to log in at --bootstrap"),
        (["--secure", "--bootstrap", "127.0.0.1:1"], "--secure is for a cluster of processes"),
        (["--library", "java"], "no client library 'java'; there are aiokafka"),
    ],
)
def test_what_cannot_begin_says_why_in_one_line(arguments, expected, tmp_path):
    cannot_begin(expected, *arguments, "--folder", str(tmp_path))


def test_a_folder_of_an_earlier_run_is_refused(tmp_path):
    """The same seed writes the same values: those of the earlier run would be taken for duplicates."""
    (tmp_path / "cluster").mkdir()
    cannot_begin("holds an earlier run", "--folder", str(tmp_path))
    (tmp_path / "file").touch()
    cannot_begin("cannot make", "--folder", str(tmp_path / "file" / "below"))


def cannot_begin(message, *arguments):
    process = subprocess.run(
        [sys.executable, "-m", "oncelog_robustness.chaos", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "80"},
        check=False,
    )
    assert process.returncode == 2
    assert message in process.stderr
    assert "Traceback" not in process.stderr
