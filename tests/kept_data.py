"""What must outlast a backup or a version: every fate of transactions, offsets, idempotence, compaction."""

import time
from contextlib import closing

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60
TOPIC = "payments"
COMPACTED = "balances"
GROUP = "ledger"
COMMITTED = [f"committed-{number}" for number in range(10)]
IDEMPOTENT = [f"idempotent-{number}" for number in range(10)]
ABORTED = [f"aborted-{number}" for number in range(10)]
OPEN = [f"open-{number}" for number in range(10)]
BALANCES = {"alice": "3", "bob": "7"}
OFFSETS = {(TOPIC, 0): 4, (COMPACTED, 0): 1}
MEMBERS = {"classic-members": "classic", "consumer-members": "consumer"}
"""Groups whose members subscribe, and the protocol of each."""
MEMBERS_OFFSET = 2


def transactional(bootstrap, transactional_id):
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


def commit(producer, *values, topic=TOPIC):
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.commit_transaction(WAIT_S)


def write(bootstrap, *, replicas=1):
    """Returns the producer of the open transaction, for it to be kept until the log is down."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    configs = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
    topics = [NewTopic(TOPIC, 1, replicas), NewTopic(COMPACTED, 1, replicas, config=configs)]
    for made in admin.create_topics(topics).values():
        made.result(WAIT_S)
    first = transactional(bootstrap, "pay")
    commit(first, *COMMITTED)
    first.begin_transaction()
    for value in ABORTED:
        first.produce(TOPIC, value, partition=0)
    first.flush(WAIT_S)
    first.abort_transaction(WAIT_S)
    plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for value in IDEMPOTENT:
        plain.produce(TOPIC, value, partition=0)
    for name, balance in BALANCES.items():
        for value in (*map(str, range(int(balance))), balance):
            plain.produce(COMPACTED, value, name, partition=0)
            # A batch, and so a segment, of its own.
            assert plain.flush(WAIT_S) == 0
    assert plain.flush(WAIT_S) == 0
    _commit_offsets(bootstrap, first)
    left = transactional(bootstrap, "open")
    left.begin_transaction()
    for value in OPEN:
        left.produce(TOPIC, value, partition=0)
    assert left.flush(WAIT_S) == 0
    return left


def _commit_offsets(bootstrap, producer):
    with closing(_consumer(bootstrap, GROUP)) as consumer:
        (outside, inside) = (TopicPartition(*key, offset) for key, offset in OFFSETS.items())
        consumer.commit(offsets=[outside], asynchronous=False)
        producer.begin_transaction()
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([inside], metadata, WAIT_S)
        producer.commit_transaction(WAIT_S)


def consume_in_groups(bootstrap):
    """A member of each protocol is given the partition, commits an offset and leaves."""
    for name, protocol in MEMBERS.items():
        with closing(_consumer(bootstrap, name, {"group.protocol": protocol})) as consumer:
            consumer.subscribe([COMPACTED])
            deadline = time.monotonic() + WAIT_S
            while not consumer.assignment():
                assert time.monotonic() < deadline, f"{name} is given nothing"
                consumer.poll(0.1)
            offset = TopicPartition(COMPACTED, 0, MEMBERS_OFFSET)
            consumer.commit(offsets=[offset], asynchronous=False)


def check(bootstrap, *, more=()):
    """Everything is there once, nothing that was aborted, and every producer goes on. `more` was committed later."""
    assert offsets(bootstrap, GROUP, OFFSETS) == OFFSETS
    again = transactional(bootstrap, "open")  # Ends what was open.
    commit(again, "after")
    commit(transactional(bootstrap, "pay"), "after too")
    plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    plain.produce(TOPIC, "after all", partition=0)
    assert plain.flush(WAIT_S) == 0
    expected = [*COMMITTED, *IDEMPOTENT, *more, "after", "after too", "after all"]
    assert read(bootstrap) == expected
    last = dict(pair.split("=") for pair in read(bootstrap, COMPACTED))
    assert last == BALANCES


def offsets(bootstrap, group, keys):
    with closing(_consumer(bootstrap, group)) as consumer:
        partitions = [TopicPartition(*key) for key in keys]
        found = consumer.committed(partitions, WAIT_S)
        return {(one.topic, one.partition): one.offset for one in found}


def read(bootstrap, topic=TOPIC):
    """Every committed value up to the end, in order; with its key where it has one."""
    values = []
    with closing(_consumer(bootstrap, "reader")) as consumer:
        partition = TopicPartition(topic, 0, 0)
        consumer.assign([partition])
        _, end = consumer.get_watermark_offsets(partition, WAIT_S)
        while consumer.position([partition])[0].offset < end:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"{topic} stands still at {values[-3:]}"
            if message.error():
                continue
            key = "" if message.key() is None else f"{message.key().decode()}="
            values.append(f"{key}{message.value().decode()}")
    return values


def _consumer(bootstrap, group, more=None):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **(more or {}),
        }
    )
