"""Twenty-five seconds of chaos on a whole cluster, the very command: every role is hit, nothing is broken."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from oncelog_server.demo.processes import OncelogServer

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 240


@pytest.fixture
def folder():
    """Not one of pytest's: under root Postgres runs as another user, who may not look into those."""
    found = Path(tempfile.mkdtemp(prefix="oncelog-chaos-"))
    yield found
    shutil.rmtree(found, ignore_errors=True)


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "oncelog_robustness.chaos", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def chaos(*arguments):
    process = start(*arguments)
    try:
        told, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # As Ctrl-C: it takes its cluster down before it goes.
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
    return process.returncode, told


@pytest.mark.robustness
@pytest.mark.timeout(TIMEOUT_S + 120)
@pytest.mark.parametrize("kind", [[], ["--secure"]], ids=["plain", "secured"])
def test_a_short_chaos(folder, kind):
    code, told = chaos("--minutes", "0.42", "--seed", "7", "--folder", str(folder), *kind)
    assert code == 0, told
    report = json.loads((folder / "report.json").read_text())
    assert report["is_sound"]
    assert {one["role"]: one["hits"] for one in report["roles"]} == dict.fromkeys(
        (
            "controller",
            "storage",
            "coordinator",
            "marker-sender",
            "listener",
            "gateway",
            "postgres",
            "redis",
            "clients",
        ),
        1,
    )
    answers = {one["checker"]: one for one in report["verdicts"]}
    for checker in ("lost-write", "duplicate", "torn-transaction", "replicas-differ"):
        assert answers[checker]["answer"] == "ok", answers[checker]
        assert answers[checker]["judged"] > 0
    assert report["pulse"]["commits"] > 0
    assert (folder / "report.html").stat().st_size > 10_000
    assert "nothing is broken" in (folder / "report.md").read_text()
    assert (folder / "history.jsonl").stat().st_size > 10_000
    assert f"report: {folder / 'report.html'}" in told


@pytest.mark.robustness
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_any_kafka_by_its_address(folder):
    """Here it is `oncelog up`. Nothing of it is broken but our own clients."""
    with OncelogServer(folder / "data") as server:
        code, told = chaos(
            *("--minutes", "0.1", "--seed", "7", "--folder", str(folder)),
            *("--bootstrap", server.bootstrap),
        )
    assert code == 0, told
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
        told = "".join(iter(process.stdout.readline, "storm\n"))
        children = psutil.Process(process.pid).children(recursive=True)
        assert children, told
        process.send_signal(ended_by)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 130, told + rest
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
        told, _ = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert of_the_run() == []


@pytest.mark.parametrize(
    ("arguments", "told"),
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
def test_what_cannot_begin_says_why_in_one_line(arguments, told, tmp_path):
    cannot_begin(told, *arguments, "--folder", str(tmp_path))


def test_a_folder_of_an_earlier_run_is_refused(tmp_path):
    """The same seed writes the same values: those of the earlier run would be taken for duplicates."""
    (tmp_path / "cluster").mkdir()
    cannot_begin("holds an earlier run", "--folder", str(tmp_path))
    (tmp_path / "file").touch()
    cannot_begin("cannot make", "--folder", str(tmp_path / "file" / "below"))


def cannot_begin(told, *arguments):
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
    assert told in process.stderr
    assert "Traceback" not in process.stderr
