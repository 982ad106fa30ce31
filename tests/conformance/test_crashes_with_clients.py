"""Answers that get lost and servers that die: what was acknowledged stays, what was not happens once or not at all."""

import pytest
from tests.conformance.cutting_proxy import ADD_PARTITIONS_TO_TXN, END_TXN, PRODUCE, CuttingProxy
from tests.targets import open_target

SENTINEL = b"the end"


def values(records):
    return [record.value for record in records]


@pytest.fixture(scope="module")
def proxy():
    with CuttingProxy() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory, proxy):
    """A server whose clients are told the proxy's port, so that every connection of theirs goes through it."""
    with open_target(tmp_path_factory.mktemp("oncelog"), advertised_port=proxy.port) as running:
        proxy.target_port = int(running.bootstrap.rpartition(":")[2])
        yield running


@pytest.fixture
def through_proxy(proxy):
    return f"127.0.0.1:{proxy.port}"


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


def test_a_produce_whose_answer_was_lost_is_written_once(
    client, server, proxy, through_proxy, topic, transactional_id, make_producer
):
    producer = make_producer(client, transactional_id, bootstrap=through_proxy)
    producer.begin()
    proxy.swallow_next_reply(PRODUCE)
    producer.send(topic, b"once")
    producer.send(topic, b"last")
    producer.commit()
    assert values(client.read(server.bootstrap, topic, until=b"last")) == [b"once", b"last"]


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_an_end_whose_answer_was_lost_is_repeated_and_ends_once(
    client, server, proxy, through_proxy, topic, transactional_id, make_producer, outcome
):
    producer = make_producer(client, transactional_id, bootstrap=through_proxy)
    producer.begin()
    producer.send(topic, outcome.encode())
    swallowed_before = proxy.swallowed.count(END_TXN)
    proxy.swallow_next_reply(END_TXN)
    getattr(producer, outcome)()
    assert proxy.swallowed.count(END_TXN) == swallowed_before + 1
    producer.begin()
    producer.send(topic, b"next")
    producer.commit()
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


def test_a_transaction_goes_on_after_a_kill_of_the_server(
    client, server, topic, transactional_id, make_producer
):
    """An Ongoing transaction is not aborted by a coordinator that comes back (docs/kafka-facts.md)."""
    producer = make_producer(client, transactional_id)
    producer.begin()
    producer.send(topic, b"before the kill")
    server.kill()
    server.start()
    producer.send(topic, b"after the kill")
    producer.commit()
    seen = client.read(server.bootstrap, topic, until=b"after the kill")
    assert values(seen) == [b"before the kill", b"after the kill"]


def test_committed_survives_a_kill_and_open_is_aborted(
    client, server, topic, transactional_id, make_producer
):
    producer = make_producer(client, transactional_id)
    producer.begin()
    producer.send(topic, b"committed")
    producer.commit()
    producer.begin()
    producer.send(topic, b"open")
    server.kill()
    server.start()
    successor = make_producer(client, transactional_id)
    successor.begin()
    successor.send(topic, b"of the successor")
    successor.commit()
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
