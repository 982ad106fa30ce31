"""`POST /v1/topics/{name}/records`: one record by an operator, alone or in a transaction of its own."""

import json
import urllib.error
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.integration.gateway.test_gateway_access import bearer, secured
from tests.integration.gateway.test_gateway_records import WAIT_S, made, page
from tests.integration.gateway.test_record_access import allow, prepared

import oncelog
from oncelog.client.core.key_hash import positive_murmur2
from oncelog.security.acl import Operation


@pytest.fixture(scope="module")
def log():
    with oncelog.running() as running:
        yield running


def write(log, topic, **body):
    """Status and JSON."""
    request = Request(
        f"{log.rest_url}/v1/topics/{topic}/records",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Oncelog-Reason": "ticket%207"},
        method="POST",
    )
    try:
        with urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def read_committed(log, topic, count):
    settings = {"bootstrap.servers": log.bootstrap_servers, "group.id": "g", "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, WAIT_S)
    consumer.close()
    return [(one.key(), one.value(), one.headers()) for one in found]


def test_a_record_is_written_as_it_was_given(log):
    topic = made(log, "given")
    headers = [{"name": "h", "value": "1"}, {"name": "n"}, {"name": "b", "value_base64": "/w=="}]
    status, told = write(log, topic, key="k", value="ž", headers=headers)
    assert (status, told["partition"], told["offset"]) == (201, 0, 0)
    assert told["transactional_id"] is None
    assert write(log, topic, value_base64="AP8=", partition=0)[1]["offset"] == 1
    assert write(log, topic, key="k")[1]["offset"] == 2
    assert read_committed(log, topic, 3) == [
        (b"k", "ž".encode(), [("h", b"1"), ("n", None), ("b", b"\xff")]),
        (None, b"\x00\xff", None),
        (b"k", None, None),
    ]
    assert [one["outcome"] for one in page(log, topic)["records"]] == ["plain"] * 3


def test_a_transaction_of_its_own_commits_or_aborts(log):
    topic = made(log, "decided")
    names = set()
    for outcome in ("commit", "abort", "commit", "abort"):
        status, told = write(log, topic, value=outcome, transaction=outcome)
        assert status == 201, told
        names.add(told["transactional_id"])
    assert len(names) == 1
    records = page(log, topic, from_="oldest", markers="false")["records"]
    assert [(one["value"], one["outcome"], one["transactional_id"]) for one in records] == [
        ("commit", "committed", *names),
        ("abort", "aborted", *names),
        ("commit", "committed", *names),
        ("abort", "aborted", *names),
    ]
    assert [value for _, value, _ in read_committed(log, topic, 2)] == [b"commit", b"commit"]


def test_a_key_goes_where_a_java_producer_sends_it(log):
    topic = made(log, "spread", partitions=7)
    for key in ("a", "b", "order-12"):
        told = write(log, topic, key=key, value="x")[1]
        assert told["partition"] == positive_murmur2(key.encode()) % 7


def test_each_write_is_in_the_audit_log_without_its_content(log):
    topic = made(log, "audited")
    told = write(log, topic, key="secret-key", value="secret-value", transaction="commit")[1]
    with urlopen(f"{log.rest_url}/v1/audit", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    act = next(one for one in json.loads(text)["acts"] if one["audit_id"] == told["audit_id"])
    assert (act["action"], act["reason"], act["outcome"]) == ("produce", "ticket 7", "done")
    assert act["target"] == {
        "topic": topic,
        "partition": None,
        "transaction": "commit",
        "key_bytes": 10,
        "value_bytes": 12,
    }
    assert act["detail"] == "offset 0 of audited-0, in a transaction that committed"
    assert "secret" not in text


@pytest.mark.parametrize(
    ("topic", "body", "status", "words"),
    [
        ("nowhere", {"value": "x"}, 404, "there is no topic 'nowhere'"),
        ("refused", {"value": "x", "partition": 9}, 404, "partition 9"),
        ("__consumer_offsets", {"value": "x"}, 409, "by coordinators only"),
        ("refused", {"value": "x", "value_base64": "eA=="}, 422, "not both"),
        ("refused", {"key_base64": "?"}, 422, "key_base64"),
        ("refused", {"headers": [{"name": "\ud800"}]}, 422, "headers.0.name"),
        ("refused", {"value": "\ud800"}, 422, "half of a character"),
        ("refused", {"value": 7}, 422, "value"),
        ("refused", {"transaction": "maybe"}, 422, "transaction"),
        ("small", {"value": "x" * 5_000}, 422, "max.message.bytes=1000"),
    ],
)
def test_what_cannot_be_written_names_the_value(log, topic, body, status, words):
    if topic in ("refused", "small"):
        made_once(log, topic, **({"max.message.bytes": "1000"} if topic == "small" else {}))
    found = write(log, topic, **body)
    assert found[0] == status, found
    assert words in found[1]["detail"], found


def made_once(log, topic, **config):
    with urlopen(f"{log.rest_url}/v1/topics?limit=100", timeout=WAIT_S) as answer:
        names = [one["name"] for one in json.loads(answer.read())["topics"]]
    if topic not in names:
        made(log, topic, **config)


async def test_who_may_write_is_asked_like_who_may_read(tmp_path):
    async with secured(tmp_path) as (cluster, client):
        tokens = await prepared(client)

        async def status(role):
            path = "/v1/topics/orders/records"
            return (await client.ask("POST", path, bearer(tokens[role]), {"value": "x"})).status

        assert await status("viewer") == 403
        assert await status("operator") == 403
        audit = await client.ask("GET", "/v1/audit", bearer(tokens["admin"]))
        acts = json.loads(audit.text)["acts"]
        assert [one["outcome"] for one in acts[:2]] == ["refused", "refused"]
        assert acts[0]["target"] == {"action": "produce", "topic": "orders"}
        await allow(cluster, "User:token:viewer", operation=Operation.WRITE)
        await allow(cluster, "User:token:operator", operation=Operation.WRITE)
        # The role comes first: a viewer changes nothing.
        assert await status("viewer") == 403
        assert await status("operator") != 403
