"""The demo's parts as programs of their own, as the chart runs them: each killed and run again, and the proof."""

import os
import subprocess
import sys
import time

import pytest

import oncelog

PODS = [sys.executable, "-m", "oncelog_server.demo.pods"]
ROWS = ("--rows", "3000", "--seed", "5")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    with oncelog.running(data=tmp_path_factory.mktemp("pods") / "data") as running:
        yield running


@pytest.fixture
def part(log):
    """Runs one of the parts to its end."""

    def run(name, *arguments):
        command = [*PODS, name, "--bootstrap", log.bootstrap_servers, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    return run


@pytest.fixture
def pipeline(log, tmp_path):
    """Starts a driver; its settings of Spark are those of the chart's local form."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.master local[2]\nspark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
        f"spark.ui.enabled false\nspark.local.dir {tmp_path}\nspark.log.level WARN\n"
    )
    started = []

    def start():
        command = [*PODS, "pipeline", "--bootstrap", log.bootstrap_servers]
        options = ["--checkpoint", str(tmp_path / "checkpoint"), "--offsets-per-trigger", "300"]
        environment = {"SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": sys.executable}
        started.append(
            subprocess.Popen(
                [*command, *options],
                env={**os.environ, **environment},
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for one in started:
        subprocess.run(["pkill", "-KILL", "-s", str(one.pid)], check=False)
        one.wait(30)


def test_topics_are_made_once_and_payments_sent_once(part):
    assert "topic ledger is made" in part("topics").stdout
    again = part("topics")
    assert (again.returncode, again.stdout) == (0, "")
    for _ in range(2):
        sent = part("send", *ROWS)
        assert (sent.returncode, sent.stderr) == (0, "")
    # All of them are there once, and nobody has booked any.
    failed = part("prove", *ROWS, "--timeout", "0")
    assert failed.returncode == 1
    assert "payments sent" not in failed.stderr
    assert "payments booked on the ledger: missing" in failed.stderr


@pytest.mark.slow
def test_a_driver_that_is_killed_books_each_payment_once(part, pipeline, log):
    part("topics")
    part("send", *ROWS)
    first = pipeline()
    while "payments booked on the ledger: 0," in part("prove", *ROWS, "--timeout", "0").stderr:
        assert first.poll() is None
        time.sleep(0.2)
    subprocess.run(["pkill", "-KILL", "-s", str(first.pid)], check=True)
    second = pipeline()
    proof = part("prove", *ROWS, "--timeout", "90")
    assert proof.returncode == 0, proof.stderr
    assert "Exactly once" in proof.stdout
    second.terminate()
    assert second.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["send", "--rows", "0"], "0 is not 1 or more"),
        (["prove"], "--rows"),
        (["pipeline"], "--checkpoint"),
        (["nothing"], "invalid choice"),
    ],
)
def test_wrong_use_is_told(arguments, message):
    done = subprocess.run([*PODS, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
