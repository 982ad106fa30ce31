"""The consumer against a running log: assigned partitions, transactions of another client, positions, offsets."""

import asyncio

import pytest
from tests.integration.client.writers import Writer, fresh, new_topic, write

import oncelog
from oncelog.client import (
    Consumer,
    IllegalStateError,
    NoOffsetError,
    OffsetToCommit,
    Partition,
    Producer,
    TimedOutError,
)

WAIT_S = 90


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


def reader(bootstrap, **settings):
    return Consumer(bootstrap, **{"auto_offset_reset": "earliest", **settings})


async def values(consumer, count):
    """So many, and no more within half a second."""
    found = []
    async with asyncio.timeout(WAIT_S):
        while len(found) < count:
            found += await consumer.poll()
    found += await consumer.poll(0.5)
    return [record.value for record in found]


async def test_a_record_is_what_was_sent(bootstrap):
    topic = new_topic(bootstrap, **{"retention.ms": "-1"})
    async with Producer(bootstrap) as producer:
        sent = await producer.send(
            topic, b"v", b"k", timestamp_ms=1234, headers=[("h", b"x"), ("n", None)]
        )
    async with reader(bootstrap) as consumer:
        consumer.assign([Partition(topic, 0)])
        record = await anext(consumer)
    assert record == (topic, 0, sent.offset, 1234, 0, b"k", b"v", (("h", b"x"), ("n", None)), 0)
    assert record.topic_partition == Partition(topic, 0)


async def test_what_was_aborted_is_not_seen_among_open_transactions(bootstrap):
    topic = new_topic(bootstrap)
    one, two, three = (Writer(bootstrap, topic) for _ in range(3))
    for writer in (one, two, three):
        writer.begin()
    for number in range(5):
        for name, writer in ((b"three", three), (b"one", one), (b"two", two)):
            writer.write(b"%s-%d" % (name, number))
    two.end(is_commit=False)
    one.end(is_commit=True)
    async with reader(bootstrap) as consumer:
        consumer.assign([Partition(topic, 0)])
        assert await consumer.poll(1) == [], "the third is open, and began before the ends"
        three.end(is_commit=True)
        found = await values(consumer, 10)
        assert found == [b"%s-%d" % (who, n) for n in range(5) for who in (b"three", b"one")]
        end = (await consumer.end_offsets([Partition(topic, 0)]))[Partition(topic, 0)]
        assert await consumer.position(Partition(topic, 0)) == end == 18, "behind three markers"


async def test_read_uncommitted_shows_what_was_aborted(bootstrap):
    topic = new_topic(bootstrap)
    Writer(bootstrap, topic).transaction(b"gone", is_commit=False)
    async with reader(bootstrap, isolation_level="read_uncommitted") as consumer:
        consumer.assign([Partition(topic, 0)])
        assert await values(consumer, 1) == [b"gone"]


async def test_records_one_by_one_leave_the_position_behind_each(bootstrap):
    topic = new_topic(bootstrap)
    write(bootstrap, topic, [b"%d" % number for number in range(10)])
    at = Partition(topic, 0)
    async with reader(bootstrap, group_id=fresh("g"), enable_auto_commit=False) as consumer:
        consumer.assign([at])
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            assert await consumer.position(at) == record.offset + 1
            if record.offset == 3:
                await consumer.commit()
                break
        assert (await consumer.committed([at]))[at] == OffsetToCommit(4, 0)
        assert [record.offset for record in await consumer.poll(WAIT_S, 2)] == [4, 5]
        async for record in consumer:
            assert record.offset == 6
            consumer.pause(at)
            break
        assert await consumer.poll(0.3) == []
        assert await consumer.position(at) == 7
        consumer.resume(at)
        async for batch in consumer.batches(2):
            assert [record.offset for record in batch] == [7, 8]
            break


async def test_a_consumer_goes_on_from_what_its_group_committed(bootstrap):
    topic, group = new_topic(bootstrap), fresh("g")
    write(bootstrap, topic, [b"%d" % number for number in range(10)])
    for expected in (0, 6):
        async with reader(bootstrap, group_id=group) as consumer:
            consumer.assign([Partition(topic, 0)])
            found = await consumer.poll(WAIT_S, 6)
            assert found[0].offset == expected


async def test_after_an_exception_nothing_is_committed(bootstrap):
    topic, group = new_topic(bootstrap), fresh("g")
    write(bootstrap, topic, [b"0"])

    async def fail():
        async with reader(bootstrap, group_id=group) as consumer:
            consumer.assign([Partition(topic, 0)])
            async for record in consumer:
                assert record.offset / 0

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with reader(bootstrap, group_id=group) as consumer:
        consumer.assign([Partition(topic, 0)])
        assert [record.offset for record in await consumer.poll(WAIT_S)] == [0]


async def test_seeking_goes_where_it_says(bootstrap):
    topic = new_topic(bootstrap, **{"retention.ms": "-1"})
    at = Partition(topic, 0)
    async with Producer(bootstrap) as producer:
        for number in range(10):
            await producer.send(topic, b"v", timestamp_ms=1000 + number)
    async with reader(bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([at])
        assert await consumer.position(at) == 10
        consumer.seek(at, 7)
        assert [record.offset for record in await consumer.poll(WAIT_S)] == [7, 8, 9]
        consumer.seek_to_beginning(at)
        assert (await consumer.poll(WAIT_S))[0].offset == 0
        consumer.seek_to_end(at)
        assert await consumer.position(at) == 10
        found = await consumer.offsets_for_times({at: 1004})
        assert found[at][:2] == (4, 1004)
        assert await consumer.offsets_for_times({at: 9999}) == {at: None}
        assert await consumer.beginning_offsets([at]) == {at: 0}


async def test_an_offset_out_of_the_log_says_the_way_out(bootstrap):
    topic = new_topic(bootstrap)
    write(bootstrap, topic, [b"v"])
    at = Partition(topic, 0)
    async with reader(bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([at])
        consumer.seek(at, 99)
        with pytest.raises(NoOffsetError, match="seek to another one") as caught:
            await consumer.poll(WAIT_S)
        assert (caught.value.partition, caught.value.offset) == (at, 99)
        consumer.seek(at, 0)
        assert [record.offset for record in await consumer.poll(WAIT_S)] == [0]


async def test_a_restore_waits_until_the_end_of_then_is_decided(bootstrap):
    topic = new_topic(bootstrap)
    at, writer = Partition(topic, 0), Writer(bootstrap, topic)
    writer.transaction(b"a")
    writer.begin()
    writer.write(b"b")
    async with reader(bootstrap) as consumer:
        consumer.assign([at])
        with pytest.raises(TimedOutError, match=f"{topic}-0 is not decided up to offset 3"):
            async for _ in consumer.read_until_decided(timeout_s=0.5):
                pass
        consumer.seek_to_beginning(at)
        restored = []
        async for batch in consumer.read_until_decided([at], WAIT_S):
            restored += [record.value for record in batch]
            if restored == [b"a"]:
                await asyncio.to_thread(writer.end, is_commit=True)
                await asyncio.to_thread(writer.transaction, b"later")
        assert restored == [b"a", b"b"]
        assert await consumer.position(at) in (3, 4), "before or behind the marker"
        assert await values(consumer, 1) == [b"later"]


async def test_a_cancelled_poll_loses_nothing(bootstrap):
    topic = new_topic(bootstrap)
    async with reader(bootstrap) as consumer:
        consumer.assign([Partition(topic, 0)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await consumer.poll()
        write(bootstrap, topic, [b"0", b"1"])
        assert await values(consumer, 2) == [b"0", b"1"]


async def test_two_tasks_may_not_read_from_one_consumer(bootstrap):
    topic = new_topic(bootstrap)
    async with reader(bootstrap) as consumer:
        consumer.assign([Partition(topic, 0)])
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(consumer.poll(1))
            await asyncio.sleep(0)
            with pytest.raises(IllegalStateError, match="another task"):
                await consumer.poll(1)
        assert first.result() == []


async def test_a_broker_that_restarts_is_read_on(tmp_path):
    topic, at = "orders", Partition("orders", 0)
    with oncelog.running(data=tmp_path / "data") as log:
        bootstrap = log.bootstrap_servers
        write(bootstrap, topic, [b"%d" % number for number in range(5)])
        consumer = await reader(bootstrap, reconnect_backoff_ms=10).start()
        consumer.assign([at])
        assert len(await values(consumer, 5)) == 5
    try:
        port = int(bootstrap.rpartition(":")[2])
        with oncelog.running(data=tmp_path / "data", port=port) as log:
            write(log.bootstrap_servers, topic, [b"more"])
            assert await values(consumer, 1) == [b"more"]
    finally:
        await consumer.close()


async def test_a_server_that_is_not_there_is_told_of():
    with pytest.raises(TimedOutError, match=r"127\.0\.0\.1:1"):
        await Consumer("127.0.0.1:1", default_api_timeout_ms=300).start()
