"""A producer's first record makes its topic, where the broker makes topics by itself, as with every client of Kafka."""

import asyncio
import uuid

import pytest
from confluent_kafka.admin import AdminClient

from oncelog.client import ClientError, Partition, Producer, TimedOutError

WAIT_S = 90


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


async def test_the_first_record_makes_its_topic(bootstrap):
    async with Producer(bootstrap, transactional_id=f"pay-{uuid.uuid4().hex}") as producer:
        async with asyncio.timeout(WAIT_S), producer.transaction() as tx:
            sent = tx.send(f"payments-{uuid.uuid4().hex}", b"42")
        assert (await sent).offset == 0


async def test_a_deleted_topic_is_not_brought_back(bootstrap):
    topic = f"payments-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    limits = {"delivery_timeout_ms": 10_000, "request_timeout_ms": 5_000}
    async with Producer(bootstrap, **limits) as producer:
        await producer.send(topic, b"42")
        await asyncio.to_thread(admin.delete_topics([topic])[topic].result, WAIT_S)
        with pytest.raises(ClientError):
            await producer.send(topic, b"43")
    assert topic not in admin.list_topics(timeout=WAIT_S).topics


async def test_offsets_of_a_topic_that_is_none_are_told(bootstrap):
    identity = f"pay-{uuid.uuid4().hex}"
    async with Producer(bootstrap, transactional_id=identity, max_block_ms=5_000) as producer:
        with pytest.raises(TimedOutError, match="the last answer was UNKNOWN_TOPIC_OR_PARTITION"):
            async with producer.transaction() as tx:
                await tx.send_offsets({Partition(f"orders-{uuid.uuid4().hex}", 0): 1}, "payers")
