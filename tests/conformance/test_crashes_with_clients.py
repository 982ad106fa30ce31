"""Answers that get lost and servers that die: what was acknowledged stays, what was not happens once or not at all."""

import pytest
from tests.conformance.clients.face import commit, values
from tests.conformance.cutting_proxy import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    PRODUCE,
    CuttingProxy,
    open_behind,
)

SENTINEL = b"the end"


@pytest.fixture(scope="module")
def proxy():
    with CuttingProxy() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory, proxy):
    with open_behind(proxy, tmp_path_factory.mktemp("oncelog")) as running:
        yield running


@pytest.fixture
def through_proxy(proxy):
    return f"127.0.0.1:{proxy.port}"


@pytest.fixture
def proxied(client, transactional_id, through_proxy, make_producer):
    """A producer whose answers may get lost."""
    return make_producer(client, transactional_id, bootstrap=through_proxy)


def test_a_produce_whose_answer_was_lost_is_not_written_twice(
    client, server, proxy, through_proxy, topic, make_producer
):
    producer = make_producer(client, bootstrap=through_proxy)
    producer.send(topic, b"first")
    swallowed_before = proxy.swallowed.count(PRODUCE)
    proxy.swallow_next_reply(PRODUCE)
    offset = producer.send(topic, b"once")
    producer.send(topic, b"last")
    assert proxy.swallowed.count(PRODUCE) == swallowed_before + 1
    assert offset == 1, "the retry is answered with the offset of the first append"
    assert values(client.read(server.bootstrap, topic, until=b"last")) == [
        b"first",
        b"once",
        b"last",
    ]


def test_a_produce_whose_answer_was_lost_is_written_once(client, server, proxy, topic, proxied):
    proxied.begin()
    proxy.swallow_next_reply(PRODUCE)
    proxied.send(topic, b"once")
    proxied.send(topic, b"last")
    proxied.commit()
    assert values(client.read(server.bootstrap, topic, until=b"last")) == [b"once", b"last"]


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_an_end_whose_answer_was_lost_is_repeated_and_ends_once(
    client, server, proxy, topic, proxied, outcome
):
    proxied.begin()
    proxied.send(topic, outcome.encode())
    swallowed_before = proxy.swallowed.count(END_TXN)
    proxy.swallow_next_reply(END_TXN)
    getattr(proxied, outcome)()
    assert proxy.swallowed.count(END_TXN) == swallowed_before + 1
    commit(proxied, topic, b"next")
    seen = values(client.read(server.bootstrap, topic, until=b"next"))
    assert seen == ([b"commit", b"next"] if outcome == "commit" else [b"next"])


def test_adding_a_partition_whose_answer_was_lost_adds_it_once(
    client, server, proxy, through_proxy, topic, transactional_id, make_producer
):
    if client.name == "java":
        pytest.skip("the Java client speaks TV2: partitions are added by the first produce")
    producer = make_producer(client, transactional_id, bootstrap=through_proxy)
    producer.begin()
    proxy.swallow_next_reply(ADD_PARTITIONS_TO_TXN)
    producer.send(topic, b"once")
    producer.commit()
    assert values(client.read(server.bootstrap, topic, until=b"once")) == [b"once"]


def test_a_transaction_goes_on_after_a_kill_of_the_server(client, server, topic, producer):
    """An Ongoing transaction is not aborted by a coordinator that comes back (docs/kafka-facts.md)."""
    producer.begin()
    producer.send(topic, b"before the kill")
    server.kill()
    server.start()
    producer.send(topic, b"after the kill")
    producer.commit()
    seen = client.read(server.bootstrap, topic, until=b"after the kill")
    assert values(seen) == [b"before the kill", b"after the kill"]


def test_committed_survives_a_kill_and_open_is_aborted(
    client, server, topic, producer, transactional_id, make_producer
):
    commit(producer, topic, b"committed")
    producer.begin()
    producer.send(topic, b"open")
    server.kill()
    server.start()
    successor = make_producer(client, transactional_id)
    commit(successor, topic, b"of the successor")
    seen = client.read(server.bootstrap, topic, until=b"of the successor")
    assert values(seen) == [b"committed", b"of the successor"]


def test_a_commit_acknowledged_before_a_kill_is_visible(
    client, server, new_topic, transactional_id, make_producer
):
    """The prepare record is the decision: markers that were not written yet are written after the restart."""
    topic = new_topic(3)
    producer = make_producer(client, transactional_id)
    producer.begin()
    for partition in range(3):
        producer.send(topic, b"committed", partition=partition)
    producer.commit()
    server.kill()
    server.start()
    for partition in range(3):
        seen = client.read(server.bootstrap, topic, partition=partition, until=b"committed")
        assert values(seen) == [b"committed"]


def test_kills_neither_lose_nor_double_acknowledged_records(client, server, topic, make_producer):
    producer = make_producer(client)
    expected = []
    for number in range(3):
        producer.send(topic, b"%d" % number)
        expected.append(b"%d" % number)
        server.kill()
        server.start()
    producer.send(topic, SENTINEL)
    assert values(client.read(server.bootstrap, topic, until=SENTINEL)) == [*expected, SENTINEL]
