"""Incidents in `oncelog up`, each made by a script and explained by one command and by one page (docs/operations.md).

Real clients make them, except for two that no client of today makes: a write behind the coordinator's back, and an
EndTxn for a transaction that its timeout had ended. The client got a new epoch before that EndTxn.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import confluent_kafka
import pytest
from tests.incidents.scenes import (
    ADD_PARTITIONS,
    END_TXN,
    WAIT_S,
    consumer,
    eventually,
    explained,
    new_topic,
    producer,
    raw,
    raw_init,
    raw_produce,
    shown,
    text_of,
    write,
)
from tests.targets import open_target

from oncelog.errors import OncelogError
from oncelog.protocol.messages import schema_of
from oncelog_server.cli import run
from oncelog_server.cli.rest import Rest

ROOT = Path(__file__).resolve().parents[2]
START_OF_SPARK_S = 120
SINK = "dead-driver"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        # So that a write can go behind the coordinator's back, as with Kafka before 3.6.
        patched.setenv("ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE", "false")
        with open_target(tmp_path_factory.mktemp("oncelog")) as running:
            yield running


@pytest.fixture(scope="module")
def driver(server, tmp_path_factory):
    """Spark's, in the middle of a batch once it has started. That takes long, so it begins before the other tests."""
    if shutil.which("java") is None:
        yield None
        return
    source = new_topic(server.bootstrap, "from-spark")
    sink = new_topic(server.bootstrap, "to-spark")
    input_of_spark = producer(server.bootstrap, "input-of-spark")
    write(input_of_spark, source)
    input_of_spark.commit_transaction(WAIT_S)
    folder = tmp_path_factory.mktemp("spark")
    command = [sys.executable, "-m", "tests.incidents.slow_driver", server.bootstrap, source, sink]
    with (folder / "driver.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, str(folder / "checkpoint"), SINK],
            stdout=log,
            stderr=log,
            cwd=ROOT,
            start_new_session=True,
        )
    yield running
    kill_driver(running)


def kill_driver(running):
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(WAIT_S)


@pytest.fixture(autouse=True)
def _driver_starts_first(driver):
    pass


@pytest.fixture
def name(request):
    return request.node.name.removeprefix("test_")[:60]


@pytest.fixture
def topic(server, name):
    return new_topic(server.bootstrap, f"t-{name}")


@pytest.fixture
def explanation(server, name):
    """Of the transactional.id."""
    return lambda: explained(server.gateway, name)


@pytest.fixture
def told(server, name):
    return lambda incident, *words: shown(server.gateway, name, incident, *words)


def refused(opened):
    """Commits, in vain."""
    with pytest.raises(Exception, match=r"fenced|epoch|state"):
        opened.commit_transaction(WAIT_S)


def test_hung_then_fenced(server, topic, name, told, explanation):
    first = producer(server.bootstrap, name, "app-1")
    write(first, topic)
    written_at = time.monotonic()
    time.sleep(5.5)
    producer(server.bootstrap, name, "app-2")
    at_most_s = time.monotonic() - written_at + 0.5
    refused(first)
    found = explanation()
    assert found["incident"] == "hung-then-fenced"
    assert found["verdict"].startswith("Client 'app-1' at")
    silent_s = float(re.search(r"was silent for (\d+\.\d) s;", found["verdict"])[1])
    assert 5.0 <= silent_s <= at_most_s
    assert "client 'app-2'" in found["verdict"]
    told(
        "hung-then-fenced",
        "Client 'app-1' at 127.0.0.1:",
        "was silent for ",
        "client 'app-2' at 127.0.0.1:",
        f"its first record in {topic}-0",
        "EndTxn was refused with PRODUCER_FENCED",
    )


def test_fenced_by_takeover(server, topic, name, told, explanation):
    first = producer(server.bootstrap, name, "app-1")
    write(first, topic)
    producer(server.bootstrap, name, "app-2")
    refused(first)
    found = explanation()
    assert found["incident"] == "fenced-by-takeover"
    assert found["verdict"].startswith("Client 'app-1' at 127.0.0.1:")
    assert "client 'app-2' at 127.0.0.1:" in found["verdict"]
    told(
        "fenced-by-takeover",
        "client 'app-2' at 127.0.0.1:",
        "epoch went from 0 to 1",
        "give each a transactional.id of its own",
    )


def test_fenced_by_timeout(server, topic, name, told, explanation):
    first = producer(server.bootstrap, name, "app-1", timeout_ms=1_000)
    write(first, topic)
    eventually(lambda: explanation()["incident"] == "fenced-by-timeout")
    assert "has not come back" in text_of(explanation())
    refused(first)
    found = explanation()
    assert found["incident"] == "fenced-by-timeout"
    assert "longer than its timeout of 1.0 s" in found["verdict"]
    assert "transaction.timeout.ms" in found["next_commands"][0]["command"]
    told(
        "fenced-by-timeout",
        "Client 'app-1' at 127.0.0.1:",
        "longer than its timeout of 1.0 s",
        "make it longer than the longest pause",
    )


def test_fenced_by_operator(server, topic, name, told):
    first = producer(server.bootstrap, name, "app-1")
    write(first, topic)
    terminate = ["--gateway", server.gateway, "transactions", "terminate", name, "--execute"]
    assert run(terminate) == 0
    refused(first)
    told(
        "fenced-by-operator",
        "Client 'app-1' at 127.0.0.1:",
        "is fenced: an operator terminated the transaction",
    )


def test_a_slow_live_producer_holds_the_lso(server, topic, name):
    write(producer(server.bootstrap, name, "app-1"), topic, b"a", b"b", b"c")
    for subject in (f"{topic}-0", name):
        found = eventually(
            lambda subject=subject: (
                (one := explained(server.gateway, subject))["incident"] == "open-and-slow" and one
            )
        )
        assert name in text_of(found) + subject
        assert "3 offsets" in text_of(found)
        assert "by its timeout of 1 min" in text_of(found)
        assert any("terminate" in one["command"] for one in found["next_commands"])
        shown(
            server.gateway,
            subject,
            "open-and-slow",
            "client 'app-1' at 127.0.0.1:",
            "by its timeout of 1 min",
            f"oncelog transactions terminate {name}",
        )


def test_a_hanging_transaction_holds_the_lso(server, topic, name):
    assert raw(server.bootstrap, lambda client: raw_produce(client, topic, name, 999_999, 3)) == 0
    found = explained(server.gateway, f"{topic}-0")
    assert found["incident"] == "hanging-transaction"
    assert "nobody will end it" in found["verdict"]
    assert "behind the coordinator's back" in text_of(found)
    shown(
        server.gateway,
        f"{topic}-0",
        "hanging-transaction",
        "nobody will end it",
        f"oncelog transactions abort --topic {topic} --partition 0 --start-offset 0",
    )
    look, act = found["next_commands"]
    assert (look["is_safe"], act["is_safe"]) == (True, False)
    assert run(["--gateway", server.gateway, *act["command"].split()[1:]]) == 0
    eventually(lambda: explained(server.gateway, f"{topic}-0")["incident"] == "healthy")


def test_invalid_txn_state_after_a_timeout_abort(server, topic, name, told, explanation):
    """A client that recovers its epoch and commits what the server had aborted."""

    async def scenario(client):
        producer_id, epoch = await raw_init(client, name, 300)
        types = schema_of(ADD_PARTITIONS, 1).request_types
        await client.call(
            ADD_PARTITIONS,
            1,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=(types.AddPartitionsToTxnTopic(name=topic, partitions=(0,)),),
        )
        eventually(lambda: explanation()["incident"] == "fenced-by-timeout")
        again, epoch = await raw_init(client, name, 300, producer_id, epoch)
        answer = await client.call(
            END_TXN,
            1,
            transactional_id=name,
            producer_id=again,
            producer_epoch=epoch,
            committed=True,
        )
        return answer.error_code

    assert raw(server.bootstrap, scenario) == 48
    found = explanation()
    assert found["incident"] == "invalid-txn-state"
    assert "its timeout of 0.3 s passed" in found["verdict"]
    told("invalid-txn-state", "its timeout of 0.3 s passed", "INVALID_TXN_STATE")


def test_a_lag_of_markers_never_reaches_zero(server, topic, name):
    opened = producer(server.bootstrap, name)
    write(opened, topic, b"a", b"b")
    opened.commit_transaction(WAIT_S)
    reader = consumer(server.bootstrap, f"g-{name}", topic)
    seen = []
    while len(seen) < 2:
        seen += [m for m in reader.consume(10, 1) if not m.error()]
    reader.commit(message=seen[-1], asynchronous=False)
    reader.close()
    found = explained(server.gateway, f"g-{name}")
    assert found["incident"] == "lag-of-markers"
    shown(
        server.gateway,
        f"g-{name}",
        "lag-of-markers",
        "has read everything. Its lag of 1 is 1 transaction marker:",
    )


def test_an_unstable_offset_commit_waits_for_its_transaction(server, topic, name):
    opened = producer(server.bootstrap, name, "app-1")
    reader = consumer(server.bootstrap, f"g-{name}", topic)
    plain = producer(server.bootstrap, f"{name}-input")
    write(plain, topic)
    plain.commit_transaction(WAIT_S)
    eventually(lambda: [m for m in reader.consume(1, 1) if not m.error()])
    opened.begin_transaction()
    opened.send_offsets_to_transaction(
        reader.position(reader.assignment()), reader.consumer_group_metadata(), WAIT_S
    )
    waits = consumer(server.bootstrap, f"g-{name}")
    with pytest.raises(confluent_kafka.KafkaException, match="_TIMED_OUT"):
        waits.committed([confluent_kafka.TopicPartition(topic, 0)], 1)
    shown(
        server.gateway,
        f"g-{name}",
        "unstable-offset-commit",
        f"in {topic}-0 wait for the open transaction of {name}",
        "UNSTABLE_OFFSET_COMMIT",
        f"oncelog transactions terminate {name}",
    )
    opened.commit_transaction(WAIT_S)
    assert waits.committed([confluent_kafka.TopicPartition(topic, 0)], WAIT_S)[0].offset == 1
    waits.close()
    reader.close()


def test_what_is_well_is_told_and_what_is_unknown_is_refused(
    server, topic, name, capfd, explanation
):
    opened = producer(server.bootstrap, name)
    write(opened, topic)
    opened.commit_transaction(WAIT_S)
    assert eventually(lambda: explanation()["incident"] == "healthy")
    assert explained(server.gateway, f"{topic}-0")["incident"] == "healthy"
    arguments = ["--gateway", server.gateway, "transactions", "explain"]
    assert run([*arguments, name]) == 0
    assert "nothing waits for it" in " ".join(capfd.readouterr().out.split())
    assert run([*arguments, "nobody"]) == 1
    assert "'nobody' is no transactional.id" in capfd.readouterr().err
    assert run([*arguments, name, "--kind", "planet"]) == 2
    assert "--kind" in capfd.readouterr().err


@pytest.mark.timeout(START_OF_SPARK_S + WAIT_S)
@pytest.mark.skipif(shutil.which("java") is None, reason="`make java` installs Java for Spark")
def test_a_spark_attempt_of_a_dead_driver(server, driver):
    eventually(lambda: _is_at_work(server), "no task of Spark is at work", START_OF_SPARK_S)
    kill_driver(driver)
    shown(
        server.gateway,
        SINK,
        "spark-attempt-open",
        f"Sink '{SINK}' has batch 0 open since",
        "the driver has not decided it. If the driver is dead, the attempt is aborted in",
        "start the query again with the same checkpoint",
    )


def _is_at_work(server):
    try:
        found = Rest(server.gateway).get(f"/v1/sinks/{SINK}")
    except OncelogError:
        return False
    return any(one["branches"] for one in found["attempts"])
