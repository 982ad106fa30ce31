"""The commands against a running `oncelog up`."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer
from tests.integration.cli.commands import ONCELOG, calling

DEADLINE_S = 90


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    data = tmp_path_factory.mktemp("server") / "data"
    command = [*ONCELOG, "up", "--data", str(data), "--port", "0", "--gateway-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        addresses = {}
        for line in process.stdout:
            words = line.split()
            if line.startswith("  Kafka clients"):
                addresses["bootstrap"] = words[-1]
            elif line.startswith("  REST"):
                addresses["gateway"] = words[-1]
            elif line.startswith("Ctrl-C"):
                break
        assert set(addresses) == {"bootstrap", "gateway"}, "it ended instead of starting"
        yield addresses
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0


@pytest.fixture(scope="module")
def oncelog(server):
    with calling(server["bootstrap"], server["gateway"]) as call:
        yield call


@pytest.fixture
def topic(oncelog, request):
    name = request.node.name.removeprefix("test_")[:60]
    oncelog("topics", "create", name, "--partitions", "2")
    yield name
    oncelog("topics", "delete", name, "--yes")


def records(oncelog, topic, *options):
    lines = oncelog("consume", topic, "--output", "json", *options).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "command", [["topics", "list"], ["users", "list"], ["health"], ["smoke-test"]]
)
def test_a_command_runs_where_no_other_client_is_installed(server, command):
    script = (
        "import sys; sys.modules['confluent_kafka'] = None; from oncelog_server.cli import run; "
        f"sys.exit(run({[*command, '--bootstrap', server['bootstrap']]!r}))"
    )
    environment = {**os.environ, "ONCELOG_GATEWAY": server["gateway"]}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_topics_live_through_every_command(oncelog):
    oncelog("topics", "create", "cycle", "--config", "retention.ms=1000")
    assert "exists already" in oncelog("topics", "create", "cycle", code=1)
    oncelog("topics", "create", "cycle", "--if-not-exists")
    assert "cycle" in oncelog("topics", "list")
    assert {
        "name": "cycle",
        "partitions": 1,
        "internal": False,
    } in json.loads(oncelog("topics", "list", "--output", "json"))
    oncelog("topics", "add-partitions", "cycle", "3")
    described = json.loads(oncelog("--output", "json", "topics", "describe", "cycle"))
    assert described["configs"] == {"retention.ms": "1000"}
    assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
    oncelog(
        "topics", "configs", "cycle", "--set", "cleanup.policy=compact", "--unset", "retention.ms"
    )
    described = json.loads(oncelog("topics", "describe", "cycle", "-o", "json"))
    assert described["configs"] == {"cleanup.policy": "compact"}
    assert "retention.ms" in oncelog(
        "topics", "configs", "cycle", "--set", "retention.ms=soon", code=1
    )
    assert "Nothing was changed." in oncelog("topics", "delete", "cycle", code=1)
    oncelog("topics", "delete", "cycle", "--yes")
    for command in (
        ["describe", "cycle"],
        ["delete", "cycle", "-y"],
        ["configs", "cycle"],
        ["add-partitions", "cycle", "9"],
    ):
        assert "oncelog topics create cycle" in oncelog("topics", *command, code=1)


def test_an_unknown_topic_ends_at_once_and_is_not_made(oncelog):
    for command in (["consume", "ghost"], ["produce", "ghost"], ["consume", "ghost", "--follow"]):
        assert "there is no topic 'ghost'" in oncelog(*command, code=1)
    assert "no topic 'ghost'" in oncelog("partitions", "ghost", code=1)
    assert "ghost" not in oncelog("topics", "list")


def test_lines_come_back_with_keys_headers_and_offsets(oncelog, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes("a=1\nb=x=y\r\n=ü\n".encode())
    oncelog(
        "produce",
        topic,
        "--file",
        str(file),
        "--key-separator",
        "=",
        "--header",
        "from=file",
        "--partition",
        "1",
    )
    found = records(oncelog, topic)
    assert [(one["key"], one["value"], one["offset"]) for one in found] == [
        ("a", "1", 0),
        ("b", "x=y", 1),
        ("", "ü", 2),
    ]
    assert found[0]["headers"] == [{"name": "from", "value": "file"}]
    assert found[0]["partition"] == 1
    assert [
        one["value"] for one in records(oncelog, topic, "--offset", "2", "--partition", "1")
    ] == ["ü"]
    assert len(records(oncelog, topic, "--max-messages", "2")) == 2
    assert oncelog("consume", topic, "--values-only").splitlines() == ["1", "x=y", "ü"]
    assert oncelog("consume", topic, "-n", "1") == f"{topic}-1@0\ta\t1\n"
    assert "line 1 has no key separator" in oncelog(
        "produce", topic, "--key-separator", ":", stdin="no\n", code=1
    )
    assert "partitions are 0 to 1" in oncelog("consume", topic, "--partition", "7", code=1)


def test_a_file_is_one_transaction_or_several(oncelog, topic):
    lines = "".join(f"{number}\n" for number in range(10))
    output = oncelog(
        "produce", topic, "--transactional-id", "batches", "--batch", "4", stdin=lines, code=0
    )
    assert "in 3 transactions" in output
    output = json.loads(
        oncelog("produce", topic, "--transactional-id", "batches", "-o", "json", stdin=lines)
    )
    assert output == {"topic": topic, "records": 10, "transactions_committed": 1}
    assert len(records(oncelog, topic)) == 20


def test_a_bad_line_aborts_its_transaction_and_none_before(oncelog, topic):
    lines = "a=1\nb=2\nc=3\nbad\n"
    error = oncelog(
        "produce",
        topic,
        "--transactional-id",
        "bad",
        "--batch",
        "2",
        "--key-separator",
        "=",
        stdin=lines,
        code=1,
    )
    assert "transaction aborted; 2 records were committed before" in error
    assert sorted(one["value"] for one in records(oncelog, topic)) == ["1", "2"]


def test_an_open_transaction_is_seen_protected_and_ended(oncelog, topic, server):
    producer = Producer(
        {"bootstrap.servers": server["bootstrap"], "transactional.id": "stuck/one", "log_level": 0}
    )
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"pending", partition=0)
    assert producer.flush(10) == 0
    listed = json.loads(
        oncelog(
            "transactions", "list", "--state", "Ongoing", "--id-pattern", "stuck/*", "-o", "json"
        )
    )
    assert [one["transactional_id"] for one in listed] == ["stuck/one"]
    assert "there is no node 77" in oncelog("transactions", "list", "--coordinator", "77", code=1)
    node = str(listed[0]["coordinator"])
    of_one = oncelog("transactions", "list", "--coordinator", node, "--state", "Ongoing")
    assert {"transactional", "coordinator", "stuck/one", "begin", "change"} <= set(of_one.split())
    told = oncelog("transactions", "describe", "stuck/one").split()
    assert {"begin", "change"} <= set(told)
    assert re.search("producer epoch (the same for many transactions|a new one)", " ".join(told))
    described = json.loads(oncelog("transactions", "describe", "stuck/one", "-o", "json"))
    assert described["partitions"] == [
        {"topic": topic, "partition": 0, "start_offset": 0, "held_back": 1}
    ]
    holder = json.loads(oncelog("partitions", topic, "-o", "json"))[0]["lso_holder"]
    assert (holder["transactional_id"], holder["hanging"]) == ("stuck/one", False)
    assert "stuck/one, Ongoing" in " ".join(oncelog("partitions", topic).split())
    record = json.loads(oncelog("records", "status", topic, "0", "0", "-o", "json"))
    assert (record["status"], record["transactional_id"]) == ("open", "stuck/one")
    said = " ".join(oncelog("records", "status", topic, "0", "0").split())
    assert "transactional id stuck/one" in said
    assert "terminate stuck/one" in said
    output = oncelog("transactions", "find-hanging")
    assert "Nothing hangs: 1 open transaction in " in output
    where = ["--topic", topic, "--partition", "0", "--start-offset", "0"]
    assert "transactions terminate" in oncelog("transactions", "abort", *where, "--execute", code=1)
    producers = json.loads(oncelog("transactions", "describe-producers", *where[:4], "-o", "json"))
    assert producers[0]["current_txn_start_offset"] == 0
    assert records(oncelog, topic) == []
    shown = oncelog("transactions", "terminate", "stuck/one")
    assert "would be fenced, 1 partition would get an abort marker" in " ".join(shown.split())
    assert "nothing was ended; add --execute" in shown
    described = json.loads(oncelog("transactions", "describe", "stuck/one", "-o", "json"))
    assert described["state"] == "Ongoing"
    assert "audit" in oncelog("transactions", "terminate", "stuck/one", "--execute")
    deadline = time.monotonic() + DEADLINE_S
    while json.loads(oncelog("partitions", topic, "-o", "json"))[0]["lso_lag"]:
        assert time.monotonic() < deadline
    assert "aborted by the marker at" in oncelog("records", "status", topic, "0", "0")
    assert "abort marker" in oncelog("records", "status", topic, "0", "1")
    assert "not written" in oncelog("records", "status", topic, "0", "7")
    assert "no transaction is open" in oncelog("transactions", "abort", *where, code=1)
    state = json.loads(oncelog("transactions", "describe", "stuck/one", "-o", "json"))["state"]
    assert state in ("PrepareAbort", "CompleteAbort")


def test_following_shows_what_comes_and_ctrl_c_is_clean(oncelog, topic):
    command = [*ONCELOG, "consume", topic, "--follow", "--from-beginning", "--values-only"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=oncelog.environment
    ) as process:
        oncelog("produce", topic, stdin="first\n")
        assert process.stdout.readline() == "first\n"
        oncelog("produce", topic, stdin="second\n")
        assert process.stdout.readline() == "second\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
        assert process.stderr.read() == ""


def test_a_reader_that_leaves_early_is_no_error(oncelog, topic):
    oncelog("produce", topic, stdin="line\n" * 20_000)
    command = [*ONCELOG, "consume", topic]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=oncelog.environment
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        process.wait(DEADLINE_S)
        assert process.stderr.read() == b""


def test_ctrl_c_aborts_what_is_being_produced(oncelog, topic):
    command = [*ONCELOG, "produce", topic, "--transactional-id", "interrupted"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=oncelog.environment,
    ) as process:
        process.stdin.write("one\n")
        process.stdin.flush()
        deadline = time.monotonic() + DEADLINE_S
        while not records(oncelog, topic, "--isolation", "read_uncommitted"):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130
        assert "transaction aborted" in process.stderr.read()
    assert records(oncelog, topic) == []


def test_the_only_node_can_be_looked_at_and_not_sent_away(oncelog):
    assert "controller 1, epoch" in oncelog("nodes", "list")
    (node,) = json.loads(oncelog("nodes", "list", "-o", "json"))["nodes"]
    assert node["leader_count"] == node["replica_count"] > 0
    assert "start another one first" in oncelog("nodes", "drain", "1", code=1)
    assert "node 1 is in service again" in oncelog("nodes", "undrain", "1")
    assert "has replicas of" in oncelog("nodes", "remove", "1", "--yes", code=1)
    assert "too few storage nodes" in oncelog("nodes", "evacuate", "1", code=1)
    selection = ("--role", "storage", "--from-id", "104")
    for command in ("evacuate", "remove"):
        shown = oncelog("nodes", command, *selection)
        assert "no storage node has an id of 104 or more; nothing to do" in shown
    assert "Nothing is to be moved" in oncelog("nodes", "balance", "--dry-run")
    assert "nothing was to be moved" in oncelog("nodes", "balance")
    done = json.loads(oncelog("nodes", "balance", "-o", "json"))
    assert (done["partitions"], done["replicas_copied"], done["left"]) == (0, 0, 0)
    assert "still running after 0.3 s: 1" in oncelog(
        *("nodes", "remove", "--role", "storage", "--from-id", "1", "--timeout", "0.3", "--yes"),
        code=1,
    )
    oncelog("topics", "create", "movable-7", "--partitions", "2")
    assert "movable-7-1" in oncelog("partitions", "reassign", "movable-7-1", "--replicas", "1")
    shown = oncelog("partitions", "reassign", "movable-7", "--replicas", "1")
    assert "movable-7-0" in shown
    assert "known are [1]" in oncelog(
        "partitions", "reassign", "movable-7", "--replicas", "1,2", code=1
    )
    assert "No reassignment is under way" in oncelog("partitions", "reassignments")
    assert "is neither a topic nor" in oncelog(
        "partitions", "reassign", "other-7", "--cancel", code=1
    )


def test_markers_that_wait_are_shown(server, oncelog):
    assert "No marker waits" in oncelog("transactions", "markers")
    assert json.loads(oncelog("transactions", "markers", "--output", "json")) == []
