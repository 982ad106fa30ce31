"""The feed against a real Redis: in order, with a hole where events are missing, and never in anybody's way."""

import asyncio
import json
import sys

import pytest
from redis.asyncio import Redis
from tests.integration.coordinator.whole_log import NODE, whole_log

from oncelog.errors import OncelogError
from oncelog.telemetry.feed import EVENT_FIELD, STREAM, EventFeed, build_feed

DEADLINE_S = 60


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def stream(server):
    redis = Redis.from_url(server.url, decode_responses=True)
    try:
        return [json.loads(fields[EVENT_FIELD]) for _, fields in await redis.xrange(STREAM)]
    finally:
        await redis.aclose()


async def drained(feed):
    async def is_empty():
        return feed.queued == 0

    await until(is_empty)


async def test_events_arrive_in_order(redis_server):
    feed = EventFeed(redis_server.url, "coordinator", 3)
    feed.start()
    for number in range(1_200):
        feed.publish("transaction", transactional_id=f"pay-{number}", state="Ongoing")
    await drained(feed)
    events = await stream(redis_server)
    assert [event["transactional_id"] for event in events] == [f"pay-{n}" for n in range(1_200)]
    assert [int(event["number"]) for event in events] == list(range(1_200))
    assert {(event["role"], event["node"], event["kind"]) for event in events} == {
        ("coordinator", 3, "transaction")
    }
    assert len({event["origin"] for event in events}) == 1
    await feed.stop()


async def test_a_killed_redis_leaves_a_hole_and_the_feed_resumes(redis_server):
    feed = EventFeed(redis_server.url, "coordinator", 3, queue_events_max=10)
    feed.start()
    feed.publish("transaction", transactional_id="before")
    await drained(feed)
    redis_server.kill()
    for number in range(100):
        feed.publish("transaction", transactional_id=f"during-{number}")
    await asyncio.sleep(0)
    assert feed.queued == 11, "ten events and one hole"
    redis_server.start()
    await drained(feed)
    feed.publish("transaction", transactional_id="after")
    await drained(feed)
    events = await stream(redis_server)
    kept, (hole,), after = events[:10], events[10:11], events[11:]
    assert [event["transactional_id"] for event in kept] == [f"during-{n}" for n in range(10)]
    assert (hole["kind"], hole["count"], hole["number"]) == ("hole", 90, 11)
    assert [(event["transactional_id"], event["number"]) for event in after] == [("after", 101)]
    assert feed.dropped == 90
    await feed.stop()


async def test_without_a_redis_nothing_waits_and_memory_is_bounded(redis_server):
    redis_server.kill()
    feed = EventFeed(redis_server.url, "storage", 1, queue_events_max=100)
    feed.start()
    for _ in range(10_000):
        feed.publish("marker", topic="t" * 100_000)
    assert feed.queued == 101
    assert feed.dropped == 9_900
    held = sum(sys.getsizeof(one["topic"]) for one in feed._queue if isinstance(one, dict))
    assert held < 100 * 1_000
    async with asyncio.timeout(DEADLINE_S):
        await feed.stop()


async def test_transactions_and_their_markers_are_told(redis_server, tmp_path, monkeypatch):
    monkeypatch.setenv("ONCELOG_COORDINATOR_REDIS_URL", redis_server.url)
    monkeypatch.setenv("ONCELOG_STORAGE_REDIS_URL", redis_server.url)
    async with whole_log(tmp_path) as log:
        started = await log.init("pay")
        identity = started.producer_id, started.producer_epoch
        await log.add("pay", identity, ("orders", 0))
        assert await log.produce("pay", identity, 0, b"one") == 0
        assert (await log.end("pay", identity, True)).error_code == 0
        assert (await log.end("pay", (identity[0], 9), True)).error_code == 90
        events = []

        async def is_told():
            events[:] = await stream(redis_server)
            # Two roles, two feeds: neither waits for the other.
            is_complete = any(event.get("state") == "CompleteCommit" for event in events)
            return is_complete and any(event["kind"] == "marker" for event in events)

        await until(is_told)
    states = [event["state"] for event in events if event["kind"] == "transaction"]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    causes = [event["cause"] for event in events if event["kind"] == "transaction"]
    assert causes == ["initialised", "transaction_started", "commit_prepared", "completed"]
    found = [event for event in events if event["kind"] == "transaction"]
    assert {event["transactional_id"] for event in found} == {"pay"}
    (refused,) = (event for event in events if event["kind"] == "refused")
    assert (refused["transactional_id"], refused["cause"]) == ("pay", "fenced")
    assert (refused["producer_epoch"], refused["node"]) == (9, NODE)
    (marker,) = (event for event in events if event["kind"] == "marker")
    assert (marker["outcome"], marker["error_code"]) == ("commit", 0)


@pytest.mark.parametrize("url", ["localhost:6379", "http://redis"])
def test_a_url_that_is_none_is_refused_with_the_way_out(url):
    with pytest.raises(OncelogError, match="redis://"):
        build_feed(url, "storage", 1)


def test_no_url_is_no_feed():
    assert build_feed("", "storage", 1) is None
