"""Members of a group by KIP-848, against a running log: they share, hand over, are fenced, and come back."""

import asyncio
import contextlib

import pytest
from tests.integration.client.writers import fresh, new_topic, write

from oncelog.client import (
    Admin,
    Consumer,
    FencedError,
    NewTopic,
    Partition,
    Producer,
    RefusedError,
)
from oncelog.client.core.addresses import parse_addresses
from oncelog.client.core.membership import LEAVE_EPOCH, Heartbeat
from oncelog.client.network.brokers import GROUP, Brokers, NetworkSettings
from oncelog.client.network.consumer_messages import heartbeat_answer, heartbeat_request
from oncelog.errors import ErrorCode
from oncelog.protocol import versions

WAIT_S = 40


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


def member(bootstrap, group, **settings):
    given = {"auto_offset_reset": "earliest", "group_id": group, **settings}
    return Consumer(bootstrap, **given)


async def until(consumer, is_so):
    """Poll until it is so; what was read."""
    found = []
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            found += await consumer.poll(0.1)
    return found


async def test_two_members_share_and_each_record_is_read_once(bootstrap):
    topic, group = new_topic(bootstrap, 4), fresh("g")
    for partition in range(4):
        write(bootstrap, topic, [b"%d" % number for number in range(50)], partition)
    told, read = [], []

    async def assigned(partitions):
        told.append(("assigned", partitions))

    async def revoked(partitions):
        told.append(("revoked", partitions))

    async with member(bootstrap, group) as first, member(bootstrap, group) as second:
        first.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
        read += await until(first, lambda: len(read) + len(first.assignment) >= 4)
        assert len(first.assignment) == 4
        read += await first.poll(WAIT_S, 10)
        second.subscribe([topic])

        async def go_on(consumer):
            while len(first.assignment) != 2 or len(second.assignment) != 2 or len(read) < 200:
                read.extend(await consumer.poll(0.1, 20))

        async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(go_on(first))
            tasks.create_task(go_on(second))
        assert not first.assignment & second.assignment
    offsets = sorted((record.partition, record.offset) for record in read)
    assert offsets == [(partition, offset) for partition in range(4) for offset in range(50)]
    assert told[0] == ("assigned", frozenset(Partition(topic, number) for number in range(4)))
    assert ("revoked", second_half(told)) in told


def second_half(told):
    return next(partitions for what, partitions in told if what == "revoked")


async def test_offsets_are_committed_before_partitions_are_given_up(bootstrap):
    topic, group = new_topic(bootstrap, 2), fresh("g")
    for partition in range(2):
        write(bootstrap, topic, [b"v"] * 10, partition)
    given_up = {}
    async with Admin(bootstrap) as admin, member(bootstrap, group) as first:

        async def revoked(partitions):
            given_up.update(await admin.list_group_offsets(group, partitions))

        first.subscribe([topic], on_revoked=revoked)
        read = []
        while len(read) < 20:
            read += await first.poll(WAIT_S)
        async with member(bootstrap, group) as second:
            second.subscribe([topic])
            async with asyncio.timeout(WAIT_S):
                while not second.assignment:
                    await asyncio.gather(first.poll(0.1), second.poll(0.1))
            assert [at.offset for at in given_up.values()] == [10]
            assert await second.poll(0.3) == []


async def test_a_fenced_member_is_told_and_joins_again(bootstrap):
    """Another program says farewell in its name, so the group goes on without it."""
    topic, group = new_topic(bootstrap), fresh("g")
    lost = []

    async def on_lost(partitions):
        lost.append(partitions)

    async with member(bootstrap, group) as consumer:
        consumer.subscribe([topic], on_lost=on_lost)
        await until(consumer, lambda: bool(consumer.assignment))
        before = consumer.group_metadata()
        await remove(bootstrap, before)
        with pytest.raises(RefusedError, match="no member"):
            await consumer.commit({Partition(topic, 0): 1})
        await until(consumer, lambda: bool(lost) and bool(consumer.assignment))
        assert lost == [frozenset({Partition(topic, 0)})]
        write(bootstrap, topic, [b"0"])
        assert (await consumer.poll(WAIT_S))[0].offset == 0
        assert consumer.group_metadata().generation > before.generation


async def remove(bootstrap, gone):
    brokers = Brokers(NetworkSettings(parse_addresses(bootstrap)))
    try:
        response = await brokers.call_coordinator(
            GROUP,
            gone.group_id,
            versions.CONSUMER_GROUP_HEARTBEAT,
            lambda types: heartbeat_request(
                types, gone.group_id, gone.member_id, Heartbeat(LEAVE_EPOCH)
            ),
        )
        assert heartbeat_answer(response).error is ErrorCode.NONE
    finally:
        await brokers.close()


async def test_a_late_program_leaves_and_comes_back(bootstrap):
    topic, group = new_topic(bootstrap), fresh("g")
    write(bootstrap, topic, [b"0", b"1"])
    lost = []

    async def on_lost(partitions):
        lost.append(partitions)

    async with (
        Admin(bootstrap) as admin,
        member(bootstrap, group, max_poll_interval_ms=700, enable_auto_commit=False) as consumer,
    ):
        consumer.subscribe([topic], on_lost=on_lost)
        first = await consumer.poll(WAIT_S, 1)
        assert first
        async with asyncio.timeout(WAIT_S):
            while (await admin.describe_group(group)).members:
                pass
        with pytest.raises(RefusedError, match="poll on to join again"):
            await consumer.commit()
        again = await until(consumer, lambda: bool(lost) and bool(consumer.assignment))
        again += await consumer.poll(WAIT_S) if not again else []
        assert lost == [frozenset({Partition(topic, 0)})]
        assert again[0].offset == 0, "nothing was committed"


async def test_a_static_member_finds_its_partitions_again(bootstrap):
    topic, group = new_topic(bootstrap, 2), fresh("g")
    async with member(bootstrap, group) as other:
        other.subscribe([topic])
        kept = set()
        for _ in range(2):
            async with member(bootstrap, group, group_instance_id="one") as consumer:
                consumer.subscribe([topic])
                async with asyncio.timeout(WAIT_S):
                    while len(consumer.assignment) != 1 or len(other.assignment) != 1:
                        await asyncio.gather(consumer.poll(0.1), other.poll(0.1))
                kept.add(consumer.assignment)
            await other.poll(0.3)
            assert len(other.assignment) == 1, "its partition waits for it"
        assert len(kept) == 1


async def test_a_second_member_of_one_name_is_refused(bootstrap):
    topic, group = new_topic(bootstrap), fresh("g")
    async with member(bootstrap, group, group_instance_id="one") as first:
        first.subscribe([topic])
        await until(first, lambda: bool(first.assignment))
        async with member(bootstrap, group, group_instance_id="one") as second:
            second.subscribe([topic])
            with pytest.raises(FencedError, match=r"group\.instance\.id 'one'"):
                await second.poll(WAIT_S)


async def test_a_pattern_finds_topics_as_they_come(bootstrap):
    word = fresh("p")
    async with (
        Admin(bootstrap) as admin,
        Producer(bootstrap) as producer,
        member(bootstrap, fresh("g"), metadata_max_age_ms=500) as consumer,
    ):
        consumer.subscribe(pattern=f"{word}.*")
        await consumer.poll(0.5)
        await admin.create_topic(NewTopic(f"{word}-a"))
        await producer.send(f"{word}-a", b"v")
        await until(consumer, lambda: bool(consumer.assignment))
        assert consumer.assignment == {Partition(f"{word}-a", 0)}


async def test_offsets_go_with_a_transaction_of_our_producer(bootstrap):
    source, sink, group = new_topic(bootstrap), new_topic(bootstrap), fresh("g")
    write(bootstrap, source, [b"%d" % number for number in range(6)])
    at = Partition(source, 0)
    async with (
        member(bootstrap, group, enable_auto_commit=False) as consumer,
        Producer(bootstrap, transactional_id=fresh("t")) as producer,
    ):
        consumer.subscribe([source])
        for is_commit in (True, False):
            batch = await consumer.poll(WAIT_S, 3)
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction() as tx:
                    for record in batch:
                        tx.send(sink, record.value)
                    await tx.send_offsets({at: batch[-1].offset + 1}, consumer.group_metadata())
                    assert is_commit or 1 / 0
        assert (await consumer.committed([at]))[at].offset == 3
