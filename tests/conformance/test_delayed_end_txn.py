"""An EndTxn that is held up on an old connection must not end its producer's next transaction (ADR 0018).

The old transaction protocol (TV1) keeps the epoch from one transaction to the next, so the late request looks like the
new transaction's own. With the check off this is what happens, as in Kafka; with it on the request is told to come
again, which nobody reads. The producers are unmodified; a proxy holds the request, cuts the client off, and lets the
request arrive in the middle of the next transaction.
"""

import struct

import pytest
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import commit, values
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.cutting_proxy import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    CuttingProxy,
    open_behind,
)

ARRIVES_WITHIN_S = 60
CONCURRENT_TRANSACTIONS = 51
TV1_CLIENTS = [Confluent, Aiokafka, KafkaPython]
PROTECTED = {"ONCELOG_COORDINATOR_ORIGIN_CHECK_ENABLED": "true"}
UNPROTECTED = {"ONCELOG_COORDINATOR_ORIGIN_CHECK_ENABLED": "false"}


@pytest.fixture(scope="module")
def proxy():
    with CuttingProxy() as running:
        yield running


@pytest.fixture(scope="module", params=[PROTECTED, UNPROTECTED], ids=["check-on", "check-off"])
def server(request, tmp_path_factory, proxy):
    folder = tmp_path_factory.mktemp("oncelog")
    with open_behind(proxy, folder, environment=request.param) as running:
        running.is_protected = request.param is PROTECTED
        yield running


def error_code(end_txn_reply):
    """Of EndTxn v0 to v2 (correlation id, throttle time, error code) or v3 (tags after the correlation id)."""
    body = end_txn_reply[8:]
    return struct.unpack_from(">h", body, 4 if len(body) == 6 else 5)[0]


@pytest.mark.parametrize("client", TV1_CLIENTS, ids=lambda client: client.name)
def test_a_delayed_commit_does_not_commit_half_of_the_next(
    client, server, proxy, topic, transactional_id, make_producer
):
    reader = Confluent()
    producer = make_producer(
        client(), transactional_id, bootstrap=f"127.0.0.1:{proxy.port}", timeout_ms=600_000
    )
    producer.begin()
    producer.send(topic, b"first")
    proxy.hold_next_request(END_TXN)
    producer.commit()
    producer.begin()
    producer.send(topic, b"half")

    code = error_code(proxy.release_held(ARRIVES_WITHIN_S))

    def committed():
        return values(reader.read(server.bootstrap, topic, until=b"half"))

    if not server.is_protected:
        assert code == 0, "the hazard: the old EndTxn is taken for the new transaction's"
        assert committed() == [b"first", b"half"], "half of a transaction became visible"
        return
    assert code == CONCURRENT_TRANSACTIONS
    producer.send(topic, b"other half")
    producer.abort()
    commit(producer, topic, b"last")
    assert values(reader.read(server.bootstrap, topic, until=b"last")) == [b"first", b"last"]


@pytest.mark.parametrize("client", TV1_CLIENTS, ids=lambda client: client.name)
def test_a_client_that_reconnects_within_a_transaction_goes_on(
    client, server, proxy, new_topic, transactional_id, make_producer
):
    topics = new_topic(), new_topic()
    producer = make_producer(client(), transactional_id, bootstrap=f"127.0.0.1:{proxy.port}")
    producer.begin()
    producer.send(topics[0], b"before")
    proxy.swallow_next_reply(ADD_PARTITIONS_TO_TXN)
    producer.send(topics[1], b"after")
    proxy.swallow_next_reply(END_TXN)
    producer.commit()
    for topic, value in zip(topics, (b"before", b"after"), strict=True):
        records = Confluent().read(server.bootstrap, topic, until=value)
        assert values(records) == [value]
