"""Transactions as four unmodified clients live them: three speak TV1, the Java client TV2 (KIP-98, KIP-890)."""

import pytest
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import ClientFailed, Fenced, commit, values

SENTINEL = b"the end"


@pytest.fixture
def committed_sentinel(make_producer):
    """Write a committed last record: a reader that has it has everything decided before it."""

    def write(topic, partition=0):
        producer = make_producer(Confluent(), f"sentinel-{topic}-{partition}")
        producer.begin()
        producer.send(topic, SENTINEL, partition=partition)
        producer.commit()

    return write


def test_committed_records_are_read_in_order(client, server, topic, producer):
    for transaction in range(3):
        producer.begin()
        for number in range(3):
            producer.send(topic, b"%d-%d" % (transaction, number))
        producer.commit()
    expected = [b"%d-%d" % (transaction, number) for transaction in range(3) for number in range(3)]
    assert values(client.read(server.bootstrap, topic, until=b"2-2")) == expected


def test_aborted_records_are_never_seen_at_read_committed(
    client, server, topic, producer, committed_sentinel
):
    for number in range(4):
        producer.begin()
        producer.send(topic, b"%d" % number)
        producer.commit() if number % 2 else producer.abort()
    committed_sentinel(topic)
    assert values(client.read(server.bootstrap, topic, until=SENTINEL)) == [b"1", b"3", SENTINEL]


def test_read_uncommitted_sees_aborted_and_open_records(client, server, topic, producer):
    producer.begin()
    producer.send(topic, b"aborted")
    producer.abort()
    producer.begin()
    producer.send(topic, b"open")
    seen = client.read(server.bootstrap, topic, isolation="read_uncommitted", until=b"open")
    assert values(seen) == [b"aborted", b"open"]
    producer.abort()


def test_an_open_transaction_holds_back_later_commits(
    client, server, topic, producer, committed_sentinel
):
    commit(producer, topic, b"before")
    producer.begin()
    producer.send(topic, b"open")
    committed_sentinel(topic)
    # All that may be read comes with the same answer.
    assert values(client.read(server.bootstrap, topic, until=b"before")) == [b"before"]
    producer.commit()
    found = values(client.read(server.bootstrap, topic, until=SENTINEL))
    assert found == [b"before", b"open", SENTINEL]


def test_a_transaction_over_partitions_is_all_or_nothing(
    client, server, new_topic, transactional_id, make_producer, committed_sentinel
):
    topic = new_topic(3)
    producer = make_producer(client, transactional_id)
    for end in (producer.abort, producer.commit):
        producer.begin()
        for partition in range(3):
            producer.send(topic, end.__name__.encode(), partition=partition)
        end()
    for partition in range(3):
        committed_sentinel(topic, partition)
        seen = client.read(server.bootstrap, topic, partition=partition, until=SENTINEL)
        assert values(seen) == [b"commit", SENTINEL]


def test_an_empty_transaction_ends_either_way(client, server, topic, producer):
    for end in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        end()
    commit(producer, topic, b"after")
    assert values(client.read(server.bootstrap, topic, until=b"after")) == [b"after"]


def test_a_second_instance_fences_the_first(client, server, topic, transactional_id, make_producer):
    first = make_producer(client, transactional_id)
    first.begin()
    first.send(topic, b"of the first")
    second = make_producer(client, transactional_id)
    with pytest.raises(Fenced):
        first.commit()
    commit(second, topic, b"of the second")
    seen = client.read(server.bootstrap, topic, until=b"of the second")
    assert values(seen) == [b"of the second"]


def test_a_fenced_instance_cannot_append(client, server, topic, transactional_id, make_producer):
    first = make_producer(client, transactional_id)
    first.begin()
    first.send(topic, b"before")
    second = make_producer(client, transactional_id)
    with pytest.raises(ClientFailed):
        first.send(topic, b"of a zombie")
    commit(second, topic, b"after")
    raw = client.read(server.bootstrap, topic, isolation="read_uncommitted", until=b"after")
    assert b"of a zombie" not in values(raw)


def test_an_idle_first_instance_is_fenced_too(
    client, server, topic, transactional_id, make_producer, committed_sentinel
):
    first = make_producer(client, transactional_id)
    make_producer(client, transactional_id)
    with pytest.raises(ClientFailed):
        commit(first, topic, b"of a zombie")
    committed_sentinel(topic)
    assert values(client.read(server.bootstrap, topic, until=SENTINEL)) == [SENTINEL]


def test_other_transactional_ids_are_left_alone(
    client, server, topic, producer, transactional_id, make_producer
):
    other = make_producer(client, transactional_id + "-other")
    producer.begin()
    other.begin()
    producer.send(topic, b"mine")
    other.send(topic, b"other")
    producer.commit()
    other.abort()
    assert values(client.read(server.bootstrap, topic, until=b"mine")) == [b"mine"]


def test_a_transaction_past_its_timeout_is_aborted_and_fenced(
    client, server, topic, transactional_id, make_producer, committed_sentinel
):
    producer = make_producer(client, transactional_id, timeout_ms=1_000)
    producer.begin()
    producer.send(topic, b"too slow")
    committed_sentinel(topic)
    assert values(client.read(server.bootstrap, topic, until=SENTINEL)) == [SENTINEL]
    with pytest.raises(ClientFailed):
        producer.commit()


def test_a_timeout_above_the_maximum_is_refused(client, transactional_id, make_producer):
    with pytest.raises(ClientFailed):
        make_producer(client, transactional_id, timeout_ms=1_000_000_000)


def test_every_transaction_of_the_java_client_bumps_its_epoch(
    java, topic, transactional_id, make_producer
):
    """KIP-890: with transaction version 2, a transaction's end is a new producer epoch."""
    producer = make_producer(java, transactional_id)
    epochs = [producer.epoch()["epoch"]]
    for end in (producer.commit, producer.abort, producer.commit):
        producer.begin()
        producer.send(topic, b"x")
        end()
        epochs.append(producer.epoch()["epoch"])
    assert epochs == list(range(epochs[0], epochs[0] + 4))
