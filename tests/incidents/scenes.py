"""What makes an incident: real clients that do what clients do when something goes wrong, and raw requests for what no
client does by itself."""

import asyncio
import html
import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from urllib.parse import urlencode
from urllib.request import urlopen

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from tests.worlds.listener.listener_requests import produce_request
from tests.worlds.listener.wire_client import WireClient

from oncelog.record.records import Record, encode_batch
from oncelog_server.cli.rest import Rest

WAIT_S = 90
ANSWER_MAX_S = 2.0
TRIES = 5
END_TXN, INIT_PRODUCER_ID, ADD_PARTITIONS, PRODUCE = 26, 22, 24, 0


def eventually(found, what="it did not happen", wait_s=WAIT_S):
    deadline = time.monotonic() + wait_s
    while not (answer := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return answer


def soon(ask, at_most_s=ANSWER_MAX_S):
    """Its answer, which comes soon: at the first try, or on a busy machine at one of the next."""
    for _ in range(TRIES):
        before = time.monotonic()
        found = ask()
        if (took_s := time.monotonic() - before) <= at_most_s:
            return found
    raise AssertionError(f"{took_s:.2f} s: {found}")


def explained(gateway, subject, **more):
    """What one command tells."""
    found = soon(lambda: Rest(gateway).get("/v1/explain", {"subject": subject, **more}))
    assert found["verdict"], found
    return found


def answered(gateway, subject, *more):
    """What the command prints, and how long it takes longer than its own help: the quickest of some. A busy machine
    starts any command slowly, and is not what is measured."""
    command = [sys.executable, "-m", "oncelog", "--gateway", gateway, "transactions", "explain"]
    tries = []
    while len(tries) < TRIES and (not tries or tries[-1][0] > ANSWER_MAX_S):
        start_s, _ = timed([*command, "--help"])
        took_s, done = timed([*command, *more, "--", subject])
        tries.append((took_s - start_s, done))
    return min(tries, key=lambda one: one[0])


def timed(command):
    before = time.monotonic()
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        timeout=WAIT_S,
        text=True,
        env=os.environ | {"COLUMNS": "100"},
    )
    return time.monotonic() - before, done


def shown(gateway, subject, incident, *words):
    """What somebody sees two seconds after the start of one command, or on the page of that name, and reads no
    documentation."""
    took_s, done = answered(gateway, subject)
    assert done.returncode == 0, done.stderr
    assert took_s <= ANSWER_MAX_S, f"{took_s:.2f} s"
    printed = " ".join(done.stdout.split())
    with urlopen(f"{gateway}/explain?{urlencode({'subject': subject})}", timeout=WAIT_S) as page:
        drawn = " ".join(html.unescape(re.sub(r"<[^>]*>", "", page.read().decode())).split())
    for one in (incident, *words):
        assert one in printed, printed
        assert one in drawn, drawn
    return printed


def text_of(found):
    return " ".join([found["verdict"], *found["findings"]])


def new_topic(bootstrap, name, partitions=1, replicas=1):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(name, partitions, replicas)]).values()
    created.result(WAIT_S)
    return name


def producer(bootstrap, transactional_id, client_id="app-1", timeout_ms=60_000):
    opened = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "client.id": client_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    opened.init_transactions(WAIT_S)
    return opened


def write(opened, topic, *values):
    """In a transaction that stays open."""
    opened.begin_transaction()
    for value in values or (b"x",):
        opened.produce(topic, value, partition=0)
    assert opened.flush(WAIT_S) == 0


def consumer(bootstrap, group, topic=None):
    opened = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    if topic is not None:
        opened.subscribe([topic])
    return opened


def raw(bootstrap, scenario):
    """Runs `scenario(client)` on a connection of its own."""
    host, port = bootstrap.split(",")[0].rsplit(":", 1)

    async def run():
        client = await WireClient.connect(int(port), host)
        try:
            return await scenario(client)
        finally:
            client.close()

    return asyncio.run(run())


async def raw_init(client, transactional_id, timeout_ms, producer_id=-1, producer_epoch=-1):
    while True:
        answer = await client.call(
            INIT_PRODUCER_ID,
            3,
            transactional_id=transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        if answer.error_code == 0:
            return answer.producer_id, answer.producer_epoch
        await asyncio.sleep(0.05)


async def raw_produce(client, topic, transactional_id, producer_id, producer_epoch):
    """Version 10: a TV1 client's."""
    records = encode_batch(
        [Record(None, b"behind the back", timestamp=int(time.time() * 1000))],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=0,
        is_transactional=True,
    )
    request = produce_request(
        10, name=topic, records=(bytes(records),), transactional_id=transactional_id
    )
    answer = await client.call(PRODUCE, 10, request=request)
    return answer.responses[0].partition_responses[0].error_code
