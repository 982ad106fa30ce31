"""`import oncelog`: a log for as long as a block runs, a pytest fixture, `python -m oncelog`."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from confluent_kafka import Consumer, Producer

import oncelog
from oncelog.errors import OncelogError
from oncelog.record.check import IS_WALK_COMPILED

ROOT = Path(__file__).resolve().parents[3]
WAIT_S = 60


def written_and_read(bootstrap_servers):
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    producer.commit_transaction(WAIT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["orders"])
        message = consumer.poll(WAIT_S)
        return None if message is None else message.value()
    finally:
        consumer.close()


def test_a_log_runs_while_the_block_does_and_leaves_nothing():
    with oncelog.running() as log:
        assert written_and_read(log.bootstrap_servers) == b"one"
        with urlopen(f"{log.rest_url}/v1/topics", timeout=WAIT_S) as answer:
            assert b"orders" in answer.read()
        assert log.data.exists()
    assert not psutil.pid_exists(log.pid)
    assert not log.data.exists()


@pytest.mark.skipif(not IS_WALK_COMPILED, reason="nothing was compiled here")
def test_a_log_with_compiled_checks_loads_no_client_library():
    """aiokafka's reader is for batches that are not sound, and for compaction: 60 ms and 7 MB of a start."""
    with oncelog.running() as log:
        assert written_and_read(log.bootstrap_servers) == b"one"
        assert "aiokafka" not in Path(f"/proc/{log.pid}/maps").read_text()


def test_settings_are_given_and_those_of_the_caller_do_not_count(monkeypatch, tmp_path):
    monkeypatch.setenv("ONCELOG_DATA", "/proc/nowhere")
    with oncelog.running(
        data=tmp_path / "kept", environment={"ONCELOG_LISTENER_NUM_PARTITIONS": "3"}
    ) as log:
        producer = Producer({"bootstrap.servers": log.bootstrap_servers})
        producer.produce("orders", b"one")
        assert producer.flush(WAIT_S) == 0
        assert len(producer.list_topics("orders").topics["orders"].partitions) == 3
    assert (tmp_path / "kept").exists()


def test_a_log_that_does_not_start_says_why():
    with (
        pytest.raises(OncelogError, match="did you mean ONCELOG_STORAGE_FLUSH_POLICY") as caught,
        oncelog.running(environment={"ONCELOG_STORAGE_FLUSH_POLICYY": "always"}),
    ):
        pass
    assert "ended with code 1: " in str(caught.value)
    assert "Fatal" not in str(caught.value), "the child may not abort"


def test_the_time_that_was_given_is_told():
    with (
        pytest.raises(OncelogError, match=r"was not ready in 0\.001 s"),
        oncelog.running(timeout_s=0.001),
    ):
        pass


def test_it_ends_when_its_caller_is_killed():
    script = (
        "import oncelog, sys, time\n"
        "with oncelog.running() as log:\n"
        "    print(log.pid, log.data, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as caller:
        pid, data = caller.stdout.readline().split()
        child = psutil.Process(int(pid))
        caller.send_signal(signal.SIGKILL)
        psutil.wait_procs([child], timeout=WAIT_S)
    assert not psutil.pid_exists(int(pid))
    for path in sorted(Path(data).parent.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    Path(data).parent.rmdir()


@pytest.mark.timeout(300)
def test_the_fixture_gives_each_worker_a_log(tmp_path):
    (tmp_path / "test_orders.py").write_text(
        "import pytest\n"
        "from confluent_kafka import Producer\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_a_record_is_taken(oncelog_broker, number):\n"
        "    producer = Producer({'bootstrap.servers': oncelog_broker.bootstrap_servers})\n"
        "    producer.produce(f'orders-{number}', b'x')\n"
        "    assert producer.flush(30) == 0\n"
    )
    # By its module, and not as the entry point: an older editable install of this clone does not have that. And no
    # other one than is needed: three processes load them.
    plugin = ["-p", "xdist", "-p", "oncelog.pytest_plugin", "-p", "no:cacheprovider"]
    # Its own: a session takes back the rights of the shared one, which a Postgres that starts meanwhile needs.
    folder = f"--basetemp={tmp_path / 'base'}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugin, folder, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        timeout=WAIT_S * 4,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert 'oncelog = "oncelog.pytest_plugin"' in (ROOT / "pyproject.toml").read_text()


def test_importing_is_light():
    script = (
        "import sys, oncelog, oncelog.pytest_plugin\n"
        "heavy = {'pydantic', 'asyncio', 'aiokafka', 'confluent_kafka', 'oncelog.embedded', 'oncelog_server'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    # pytest itself may bring asyncio's kind along; nothing of ours does.
    assert done.stdout.strip() == "[]"


def test_the_package_has_a_version_and_is_the_command():
    assert oncelog.__version__ == version("oncelog")
    assert {"running", "__version__"} <= set(oncelog.__all__)
    with pytest.raises(AttributeError, match="no attribute 'runing'"):
        _ = oncelog.runing
    done = subprocess.run(
        [sys.executable, "-m", "oncelog", "--version"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    how = "records are checked by compiled code" if IS_WALK_COMPILED else "nothing is compiled"
    assert (done.returncode, done.stdout) == (0, f"oncelog {oncelog.__version__} ({how})\n")
