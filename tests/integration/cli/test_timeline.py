"""What an operator reads of a transaction that was taken over or timed out: by REST, live and in the terminal."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.targets import open_target

from oncelog_server.cli import run
from oncelog_server.cli.rest import Rest

WAIT_S = 90
STREAMS_MAX = 2


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ONCELOG_GATEWAY_EVENT_STREAMS_MAX", str(STREAMS_MAX))
        with open_target(tmp_path_factory.mktemp("oncelog")) as running:
            yield running


@pytest.fixture(scope="module")
def topic(server):
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    for created in admin.create_topics([NewTopic("orders", 2, 1)]).values():
        created.result(WAIT_S)
    return "orders"


def producer(server, transactional_id, client_id, timeout_ms=60_000):
    opened = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": transactional_id,
            "client.id": client_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    opened.init_transactions(WAIT_S)
    return opened


def begin(opened, topic, *partitions):
    opened.begin_transaction()
    for partition in partitions:
        opened.produce(topic, b"x", partition=partition)
    assert opened.flush(WAIT_S) == 0


def eventually(found):
    deadline = time.monotonic() + WAIT_S
    while not (answer := found()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return answer


def timeline(server, name):
    return Rest(server.gateway).get(f"/v1/transactions/{name}/timeline")["events"]


def states(events):
    return [event["fields"]["state"] for event in events if event["kind"] == "transaction"]


def test_a_commit_is_told_from_first_request_to_last_marker(server, topic):
    opened = producer(server, "commits", "app-1")
    begin(opened, topic, 0, 1)
    opened.commit_transaction(WAIT_S)
    events = eventually(
        lambda: "CompleteCommit" in states(entries := timeline(server, "commits")) and entries
    )
    assert list(dict.fromkeys(states(events))) == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]
    first = events[0]["fields"]
    assert first["client_id"] == "app-1"
    assert first["client_host"].startswith("127.0.0.1:")
    for kind in ("opened", "marker"):
        places = {e["fields"]["partition"] for e in events if e["kind"] == kind}
        assert places == {0, 1}, kind
    kinds = [event["kind"] for event in events]
    assert kinds.index("marker_queued") < kinds.index("marker_sent") < kinds.index("marker")


def test_a_takeover_names_who_took_over_and_who_was_refused(server, topic):
    first = producer(server, "taken", "app-1")
    begin(first, topic, 0)
    producer(server, "taken", "app-2")
    with pytest.raises(confluent_kafka.KafkaException):
        first.commit_transaction(WAIT_S)
    events = eventually(
        lambda: (
            [e for e in timeline(server, "taken") if e["kind"] == "refused"]
            and timeline(server, "taken")
        )
    )
    bumped = [e["fields"] for e in events if e["fields"].get("bump") == "takeover"]
    assert {one["client_id"] for one in bumped} == {"app-2"}
    assert all(one["producer_epoch"] > one["previous_producer_epoch"] for one in bumped)
    refused = [e["fields"] for e in events if e["kind"] == "refused"]
    assert {(one["client_id"], one["error"]) for one in refused} == {("app-1", "PRODUCER_FENCED")}


def test_a_timeout_is_the_cause_of_its_bump(server, topic):
    opened = producer(server, "slow", "app-1", timeout_ms=1_000)
    begin(opened, topic, 0)
    events = eventually(
        lambda: "CompleteAbort" in states(entries := timeline(server, "slow")) and entries
    )
    (bumped,) = (e for e in events if e["fields"].get("bump") == "timeout")
    assert bumped["fields"]["request"] == "TxnTimedOut"
    assert "the transaction timeout of 1 s passed" in bumped["text"]


@contextmanager
def stream(server, query="", last_id=""):
    request = urllib.request.Request(
        f"{server.gateway}/v1/events{query}", headers={"Accept": "text/event-stream"}
    )
    if last_id:
        request.add_header("Last-Event-ID", last_id)
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield answer


def events_of(answer, count):
    found = []
    while len(found) < count:
        line = answer.readline()
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


def test_live_events_go_on_where_they_were_left(server, topic):
    opened = producer(server, "live", "app-1")
    with stream(server, "?transactional_id=live&kind=transaction&limit=1") as answer:
        assert events_of(answer, 1)[0]["fields"]["state"] == "Empty"
        begin(opened, topic, 0)
        (ongoing,) = events_of(answer, 1)
        assert ongoing["fields"]["state"] == "Ongoing"
    opened.commit_transaction(WAIT_S)
    query = "?transactional_id=live&kind=transaction"
    with stream(server, query, ongoing["id"]) as answer:
        assert states(events_of(answer, 2)) == ["PrepareCommit", "CompleteCommit"]


def test_a_stream_too_many_is_refused_until_one_ends(server):
    with stream(server), stream(server):
        with pytest.raises(urllib.error.HTTPError) as refused, stream(server):
            pass
        with refused.value as error:
            assert error.code == 503
            assert b"ONCELOG_GATEWAY_EVENT_STREAMS_MAX" in error.read()

    def is_free():
        try:
            with stream(server):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return False

    eventually(is_free)


def test_the_terminal_shows_it_and_follows(server, topic, capfd):
    opened = producer(server, "shown", "app-1")
    begin(opened, topic, 0)
    arguments = ["--gateway", server.gateway, "transactions", "timeline", "shown"]
    assert run(arguments) == 0
    out, notes = capfd.readouterr()
    assert "the transaction begins with orders-0" in out
    assert "shown: Ongoing, producer" in out + notes
    command = [sys.executable, "-m", "oncelog_server", *arguments, "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        lines = iter(following.stdout.readline, "")
        assert next(line for line in lines if "begins with" in line)
        opened.commit_transaction(WAIT_S)
        assert next(line for line in lines if "is committed" in line)
        following.terminate()
    assert run([*arguments, "-o", "json"]) == 0
    output = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {event["role"] for event in output} == {"coordinator", "storage", "marker-sender"}


def test_an_id_that_nobody_knows_is_told(server, capfd):
    assert run(["--gateway", server.gateway, "transactions", "timeline", "nobody"]) == 1
    assert "'nobody' is not known" in capfd.readouterr().err
