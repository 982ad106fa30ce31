"""Groups that an open transaction holds back: over REST, on their pages and on `/metrics`."""

import re
import time

import pytest

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
"""What is told in hours is the same for a minute: the tests may take so long."""


def ago(milliseconds):
    return int(time.time() * 1000) - milliseconds


def words_of(page):
    """Without tags and with single blanks."""
    return " ".join(re.sub(r"<[^>]*>", " ", page.body.decode()).split())


@pytest.fixture
async def blocked(cluster):
    """`pay` holds orders-0 from offset 60 and orders-1 from 40 for two hours; nothing holds orders-2."""
    await cluster.create_topic("orders", 3)
    held = [("orders", 0), ("orders", 1)]
    cluster.coordinator.put(
        "pay", producer_id=4, partitions=held, start_time_ms=ago(2 * HOUR_MS + 1)
    )
    for (topic, partition), start in zip(held, (60, 40), strict=True):
        cluster.storage.open_transaction(
            topic, partition, producer_id=4, start_offset=start, timestamp_ms=ago(HOUR_MS + 1)
        )
    cluster.groups.put("billing")
    cluster.groups.offsets["billing"] = {("orders", 0): 50, ("orders", 1): 40, ("orders", 2): 90}
    return cluster


async def test_lag_is_split_at_the_last_stable_offset(blocked):
    found = (await blocked.get("/v1/groups/billing/offsets")).json
    rows = found["offsets"]
    assert [(one["lag"], one["readable"], one["held_back"]) for one in rows] == [
        (50, 10, 40),
        (60, 0, 60),
        (10, 10, 0),
    ]
    totals = [found[f"total_{name}"] for name in ("lag", "readable", "held_back")]
    assert totals == [120, 20, 100]
    holder = rows[1]["held_by"]
    assert (holder["transactional_id"], holder["producer_id"], holder["hanging"]) == (
        "pay",
        4,
        False,
    )
    assert (
        holder["start_time_ms"] == blocked.coordinator.transactions["pay"].transaction_start_time_ms
    )
    assert 2 * HOUR_MS < holder["age_ms"] < 2 * HOUR_MS + MINUTE_MS
    assert HOUR_MS < holder["idle_ms"] < HOUR_MS + MINUTE_MS
    assert rows[2]["held_by"] is None


async def test_a_dry_run_tells_what_the_end_would_do(blocked):
    ended = (await blocked.post("/v1/transactions/pay/terminate", {"dry_run": True})).json
    assert ended["detail"] == (
        "its producer 4, epoch 0, would be fenced, 2 partitions would get an abort marker "
        "(orders-0, orders-1), group 'billing' would read on"
    )
    blocked.coordinator.put("pay", producer_id=4, state="CompleteCommit")
    nothing = (await blocked.post("/v1/transactions/pay/terminate", {"dry_run": True})).json
    assert nothing["detail"].startswith("'pay' is CompleteCommit: no transaction is open")


async def test_a_group_is_blocked_by_a_transaction_in_words(blocked):
    found = (await blocked.get("/v1/groups/billing/offsets")).json
    assert found["blocked_by"]["transactional_id"] == "pay"
    assert found["stands"] == "blocked by pay for 2 h"
    assert "blocked by pay for 2 h" in words_of(await blocked.get("/groups"))
    page = await blocked.get("/group?id=billing")
    shown = words_of(page)
    assert (
        "Blocked by pay for 2 h. Of its lag of 120, 20 can be read now, markers included; 100"
        in shown
    )
    assert (
        b'blocked</span> by <span class="standing"><a href="/transaction?id=pay">pay</a> for 2 h'
        in page.body
    )
    blocked.groups.offsets["billing"] = {("orders", 2): 90}
    assert "behind by 10" in words_of(await blocked.get("/groups"))
    blocked.groups.offsets["billing"] = {("orders", 2): 100}
    assert "has read everything" in words_of(await blocked.get("/groups"))
    blocked.groups.offsets["billing"] = {}
    assert "has committed nothing" in words_of(await blocked.get("/groups"))


async def test_a_holder_is_looked_up_once_and_a_leader_asked_once(blocked):
    lookups = []
    blocked.coordinator.meanwhile = lambda: lookups.append(1)
    blocked.storage.described.clear()
    await blocked.get("/v1/groups/billing/offsets")
    assert len(lookups) == 1
    assert sorted(blocked.storage.described) == [("orders", 0), ("orders", 1), ("orders", 2)]
    # Only of the partition where it is not plain whether a record is left.
    assert blocked.storage.fetched == [("orders", 0, 50)]


async def test_markers_before_a_transaction_are_nothing_to_read(blocked):
    """Many clients commit the offset after their last record, which is before its marker."""
    blocked.groups.offsets["billing"] = {("orders", 0): 59}
    (row,) = (await blocked.get("/v1/groups/billing/offsets")).json["offsets"]
    assert (row["readable"], row["held_back"], row["is_blocked"]) == (1, 40, True)
    # Of a transaction that has just begun nobody needs to know.
    blocked.coordinator.put("pay", producer_id=4, partitions=[("orders", 0)], start_time_ms=ago(10))
    (row,) = (await blocked.get("/v1/groups/billing/offsets")).json["offsets"]
    assert (row["held_back"], row["is_blocked"]) == (40, False)


async def test_a_group_that_reads_uncommitted_is_not_blocked(blocked):
    blocked.groups.offsets["billing"] = {("orders", 0): 99, ("orders", 1): 100}
    found = (await blocked.get("/v1/groups/billing/offsets")).json
    assert [(one["held_back"], one["is_blocked"]) for one in found["offsets"]] == [
        (1, False),
        (0, False),
    ]
    assert (found["blocked_by"], found["stands"]) == (None, "behind by 1")


async def test_a_hanging_transaction_that_blocks_says_so(cluster):
    await cluster.create_topic("orders")
    cluster.storage.open_transaction(
        "orders", 0, producer_id=77, start_offset=40, timestamp_ms=ago(2 * HOUR_MS + 1)
    )
    cluster.groups.put("billing")
    cluster.groups.offsets["billing"] = {("orders", 0): 40}
    found = (await cluster.get("/v1/groups/billing/offsets")).json
    assert (found["blocked_by"]["hanging"], found["blocked_by"]["transactional_id"]) == (True, None)
    words = "blocked by a hanging transaction of producer 77 for at least 2 h"
    assert found["stands"] == words
    page = await cluster.get("/groups")
    assert words in words_of(page)
    assert b"/partition?topic=orders&amp;partition=0" in page.body
    explained = (await cluster.get("/v1/explain?subject=billing&kind=group")).json
    assert explained["incident"] == "hanging-transaction"
    assert "60 held back by a hanging transaction of producer 77" in explained["findings"][0]


async def test_a_silent_coordinator_leaves_the_producer_id(blocked):
    blocked.coordinator.error_code = 14
    row = (await blocked.get("/v1/groups/billing/offsets")).json["offsets"][1]
    holder = row["held_by"]
    assert (row["is_blocked"], holder["producer_id"], holder["hanging"]) == (True, 4, None)


async def test_metrics_tell_what_is_readable_and_what_is_held_back(blocked):
    def value(text, name, labels='group="billing",topic="orders"'):
        (found,) = re.findall(rf"^oncelog_{name}{{{labels}}} (\S+)$", text, re.M)
        return float(found)

    text = (await blocked.get("/metrics")).body.decode()
    names = ("group_lag", "group_readable_records", "group_held_back_records")
    assert [value(text, name) for name in names] == [120, 20, 100]
    assert 7_200 < value(text, "group_blocked_seconds") < 7_260
    first, last = ('partition="0",topic="orders"', 'partition="2",topic="orders"')
    age, idle = (f"partition_oldest_open_transaction_{one}_seconds" for one in ("age", "idle"))
    assert 7_200 < value(text, age, first) < 7_260
    assert 3_600 < value(text, idle, first) < 3_660
    assert (value(text, age, last), value(text, idle, last)) == (0, 0)
    blocked.groups.offsets["billing"] = {("orders", 2): 90}
    assert value((await blocked.get("/metrics")).body.decode(), "group_blocked_seconds") == 0


async def test_a_partition_shows_its_oldest_transaction_and_its_age(blocked):
    page = words_of(await blocked.get("/partition?topic=orders&partition=0"))
    assert "Oldest open transaction of pay open for 2 h last sign of life 1 h ago" in page
    shown = words_of(await blocked.get("/partitions"))
    assert "pay Ongoing for 2 h, since offset 60, last record 1 h ago" in shown, shown
    blocked.coordinator.transactions.clear()
    page = words_of(await blocked.get("/partition?topic=orders&partition=0"))
    assert "of producer 4 open for at least 1 h last sign of life 1 h ago" in page
    assert "at its coordinator hanging" in page
