"""The feed and its reader through a real Redis: what was, what comes, and what a dead Redis leaves."""

import asyncio

import pytest
from redis.asyncio import Redis

from oncelog.errors import OncelogError
from oncelog.rpc.metadata import MetadataFollower
from oncelog.telemetry.feed import EVENT_FIELD, STREAM, EventFeed
from oncelog.telemetry.history import History
from oncelog.telemetry.stream_reader import StreamReader, build_reader
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.wiring import build_gateway
from oncelog_server.cli.rest import Rest

DEADLINE_S = 60


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 (what it looks at sets no event)
            await asyncio.sleep(0.01)


def ids(history):
    return [event.fields.get("transactional_id", event.kind) for event in history.newest(10_000)]


async def test_what_was_told_before_and_what_comes_is_read_in_order(redis_server):
    feed = EventFeed(redis_server.url, "coordinator", 21)
    feed.start()
    for number in range(1_300):
        feed.publish("transaction", transactional_id=f"pay-{number}", producer_id=number)
    await until(lambda: not feed.queued)
    history = History(1_200)
    reader = StreamReader(redis_server.url, history, 1_200)
    assert history.away_reason
    reader.start()
    await until(lambda: len(history) == 1_200)
    assert ids(history) == [f"pay-{number}" for number in range(100, 1_300)]
    assert [event.role for event in history.of_producer(1_299)] == ["coordinator"]
    feed.publish("transaction", transactional_id="next")
    await until(lambda: ids(history)[-1] == "next")
    assert history.away_reason == ""
    await reader.stop()
    await feed.stop()


async def test_an_entry_that_no_role_wrote_is_passed_over(redis_server):
    redis = Redis.from_url(redis_server.url)
    for entry in ({"kind": "marker"}, {EVENT_FIELD: "{"}, {EVENT_FIELD: "7"}):
        await redis.xadd(STREAM, entry)
    await redis.aclose()
    feed = EventFeed(redis_server.url, "coordinator", 21)
    feed.start()
    feed.publish("transaction", transactional_id="pay \ud83d", producer_id=7)
    history = History()
    reader = StreamReader(redis_server.url, history, 100)
    reader.start()
    await until(lambda: len(history))
    assert ids(history) == ["pay \ud83d"]
    assert [event.node for event in history.of_producer(7)] == [21]
    await reader.stop()
    await feed.stop()


async def test_an_event_of_the_version_before_is_read(redis_server):
    """While a cluster is upgraded, both write into one stream."""
    redis = Redis.from_url(redis_server.url)
    await redis.xadd(
        STREAM,
        {
            "kind": "opened",
            "role": "storage",
            "node": "11",
            "time_ms": "1700000000000",
            "origin": "7",
            "number": "0",
            "transactional_id": "42",
            "producer_id": "-1",
            "topic": "orders",
            "partition": "3",
        },
    )
    await redis.aclose()
    history = History()
    reader = StreamReader(redis_server.url, history, 100)
    reader.start()
    await until(lambda: len(history))
    (event,) = history.of_transaction("42")
    assert (event.role, event.node, event.time_ms) == ("storage", 11, 1_700_000_000_000)
    assert (event.text("topic"), event.number("partition")) == ("orders", 3)
    assert event.number("producer_id") == -1
    await reader.stop()


async def events_of(gateway):
    rest = Rest(f"http://127.0.0.1:{gateway.port}")
    return (await asyncio.to_thread(rest.get, "/v1/events"))["events"]


async def test_a_gateway_that_starts_first_shows_what_happens_then(redis_server):
    gateway = build_gateway(
        GatewaySettings(port=0, redis_url=redis_server.url), MetadataFollower(1, None), None
    )
    await gateway.start()
    # It answers, so it is whole, and there was nothing to read yet.
    assert await events_of(gateway) == []
    feed = EventFeed(redis_server.url, "coordinator", 21)
    feed.start()
    feed.publish("transaction", transactional_id="first")
    async with asyncio.timeout(DEADLINE_S):
        while not (found := await events_of(gateway)):  # noqa: ASYNC110 (REST has no event to wait for)
            await asyncio.sleep(0.05)
    assert [one["fields"]["transactional_id"] for one in found] == ["first"]
    await feed.stop()
    await gateway.stop()


async def test_a_redis_that_dies_loses_history_only(redis_server):
    feed = EventFeed(redis_server.url, "coordinator", 21, queue_events_max=10)
    feed.start()
    history = History()
    reader = StreamReader(redis_server.url, history, 1_000)
    reader.start()
    feed.publish("transaction", transactional_id="before")
    await until(lambda: ids(history) == ["before"])
    redis_server.kill()
    await until(lambda: history.away_reason)
    for number in range(100):
        feed.publish("transaction", transactional_id=f"during-{number}")
    assert ids(history) == ["before"], "what is known stays"
    redis_server.start()
    feed.publish("transaction", transactional_id="lost too")
    await until(lambda: len(history) >= 12 and not history.away_reason)
    feed.publish("transaction", transactional_id="after")
    await until(lambda: ids(history)[-1] == "after")
    assert ids(history)[1:11] == [f"during-{number}" for number in range(10)]
    assert sum(hole.fields["count"] for hole in history.holes()) == 91
    await reader.stop()
    await feed.stop()


def test_a_reader_without_a_redis_says_so():
    history = History()
    assert build_reader("", history, 100) is None
    assert "ONCELOG_GATEWAY_REDIS_URL" in history.away_reason
    with pytest.raises(OncelogError, match="redis://"):
        build_reader("localhost:6379", history, 100)
