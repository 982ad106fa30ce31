"""What the commands say of a partition whose log is damaged: that it is offline, and where to look."""

import os
import subprocess
import sys

import pytest

import oncelog


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """The environment of commands, beside a log of which orders-0 is offline."""
    data = tmp_path_factory.mktemp("damaged") / "data"
    with oncelog.running(data=data) as log:
        environment = environment_of(log)
        assert called(environment, "topics", "create", "orders").returncode == 0
        assert called(environment, "produce", "orders", stdin="one\ntwo\n").returncode == 0
    (segment,) = (data / "logs" / "orders-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    # Nothing vouches for what stands in the file before it is read.
    (data / "logs" / "recovery-point-offset-checkpoint").unlink()
    with oncelog.running(data=data) as log:
        yield environment_of(log)


def environment_of(log):
    ours = {"ONCELOG_BOOTSTRAP": log.bootstrap_servers, "ONCELOG_GATEWAY": log.rest_url}
    return {**os.environ, **ours}


def called(environment, *arguments, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "oncelog_server", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment,
        timeout=90,
        check=False,
    )


def test_health_and_partitions_name_the_repair(damaged):
    done = called(damaged, "health")
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert "orders-0 is offline: files are damaged or missing" in said
    assert "oncelog storage repair" in said
    assert "1 topic at " in said
    assert "oncelog storage repair" in called(damaged, "partitions").stdout


def test_a_reader_is_told_of_it_while_it_waits(damaged):
    command = [sys.executable, "-m", "oncelog_server", "consume", "orders"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=damaged) as reading:
        assert reading.stderr.readline() == "orders-0 is offline; see: oncelog health\n"
        reading.kill()


@pytest.mark.slow
def test_a_reader_gives_up_and_is_sent_to_health(damaged):
    done = called(damaged, "consume", "orders")
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert first == "orders-0 is offline; see: oncelog health"
    assert last.endswith("; see: oncelog health")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--transactional-id", "t"]])
def test_a_writer_is_sent_to_health(damaged, options):
    done = called(damaged, "produce", "orders", *options, stdin="three\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("; see: oncelog health")
