"""Whether the cluster is well, over REST and on the overview: what is wrong, since when, and what to do."""

import asyncio

import pytest
from tests.integration.gateway.test_blocked_groups import HOUR_MS, MINUTE_MS, ago, words_of

from oncelog.record.records import Record, encode_batch


@pytest.fixture
async def blocked(cluster):
    """`pay` holds orders-0 for an hour and blocks `billing`. What holds orders-1 hangs and blocks `mail`."""
    await cluster.create_topic("orders", 3)
    cluster.coordinator.put(
        "pay", producer_id=4, partitions=[("orders", 0)], start_time_ms=ago(HOUR_MS + 1)
    )
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=60)
    cluster.storage.open_transaction(
        "orders", 1, producer_id=77, start_offset=40, timestamp_ms=ago(MINUTE_MS)
    )
    for group, offsets in (
        ("billing", {("orders", 0): 60}),
        ("mail", {("orders", 1): 40}),
        ("well", {("orders", 2): 90}),
    ):
        cluster.groups.put(group)
        cluster.groups.offsets[group] = offsets
    return cluster


async def health(cluster):
    return (await cluster.get("/v1/cluster/health")).json


async def test_what_is_wrong_is_one_list_with_the_worst_first(blocked):
    found = await health(blocked)
    assert not found["healthy"]
    hanging, late = found["troubles"]
    assert (hanging["severity"], hanging["subject"], hanging["groups"]) == (
        "act",
        "orders-1",
        ["mail"],
    )
    assert "60 offsets held back; it blocks group mail" in hanging["what"]
    assert hanging["is_at_least"]
    assert MINUTE_MS <= hanging["age_ms"] < 2 * MINUTE_MS
    assert hanging["command"].startswith("oncelog transactions abort --topic orders --partition 1")
    assert (late["severity"], late["subject"], late["groups"]) == ("look", "pay", ["billing"])
    assert (
        "40 offsets of orders-0 held back; it is open for longer than its timeout" in late["what"]
    )
    assert HOUR_MS < late["age_ms"] < HOUR_MS + MINUTE_MS
    assert late["page"] == "/transaction?id=pay"
    page = words_of(await blocked.get("/"))
    assert "1 to act on, 1 to look at." in page
    assert page.index("orders-1 is held by") < page.index("pay blocks group billing")


@pytest.mark.parametrize("is_older", [False, True])
async def test_nodes_of_two_versions_give_one_overview(blocked, is_older):
    """In a rolling upgrade: an older coordinator sends neither a count nor only what is most urgent."""
    blocked.coordinator.is_older = is_older
    for number in range(120):
        blocked.coordinator.put(
            f"done-{number}", producer_id=1_000 + number, state="CompleteCommit"
        )
    found = await health(blocked)
    assert [(one["severity"], one["subject"], one["groups"]) for one in found["troubles"]] == [
        ("act", "orders-1", ["mail"]),
        ("look", "pay", ["billing"]),
    ]
    page = words_of(await blocked.get("/"))
    assert "1 to act on, 1 to look at." in page
    assert page.index("orders-1 is held by") < page.index("pay blocks group billing")
    assert "1 open transaction, the oldest 1 h" in page
    listed = words_of(await blocked.get("/transactions"))
    assert listed.index("pay Ongoing, late") < listed.index("done-0 CompleteCommit")
    assert "1 to 100 of 121" in listed


async def test_a_hanging_one_began_with_its_first_record(blocked):
    began = ago(2 * HOUR_MS)
    batch = encode_batch(
        [Record(b"k", b"v", began)], base_offset=40, producer_id=77, producer_epoch=0
    )
    blocked.storage.batches["orders", 1, 40] = bytes(batch)
    hanging = (await health(blocked))["troubles"][0]
    assert (hanging["since_ms"], hanging["is_at_least"]) == (pytest.approx(began, abs=5_000), False)
    (found,) = (await blocked.get("/v1/hanging-transactions")).json["hanging"]
    assert found["first_timestamp_ms"] == began
    assert "hanging transaction of producer 77 for 2 h" in words_of(
        await blocked.get("/group?id=mail")
    )
    fetches = len(blocked.storage.fetched)
    await health(blocked)
    assert len(blocked.storage.fetched) == fetches, "a first record does not change"


async def test_a_cluster_without_trouble_says_what_it_looked_at(cluster):
    await cluster.create_topic("orders", 3)
    found = await health(cluster)
    assert (found["healthy"], found["troubles"]) == (True, []), found
    assert "have a leader; every replica is in sync" in found["verdict"]
    assert set(found["looked_at"]) == {
        *("nodes", "coordinators", "leaders", "partitions", "transactions", "groups", "markers")
    }
    assert "All is well:" in words_of(await cluster.get("/"))


async def test_groups_are_not_asked_while_nothing_is_held_for_long(cluster):
    await cluster.create_topic("orders", 1)
    cluster.groups.put("billing")
    cluster.groups.offsets["billing"] = {("orders", 0): 60}
    cluster.coordinator.put("pay", producer_id=4, partitions=[("orders", 0)], start_time_ms=ago(0))
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=60)
    assert (await health(cluster))["healthy"]
    assert not cluster.groups.offset_fetches


async def test_a_silent_coordinator_is_a_trouble_and_no_error(blocked):
    blocked.coordinator.is_silent = True
    async with asyncio.timeout(10):
        found = await health(blocked)
    assert not found["healthy"]
    assert any("whether a transaction hangs" in one["what"] for one in found["troubles"])
    assert not any("abort" in one["command"] for one in found["troubles"])


async def test_a_list_of_transactions_asks_for_what_it_shows(cluster):
    for number in range(150):
        cluster.coordinator.put(f"id-{number}", producer_id=number, state="CompleteCommit")
    shown = words_of(await cluster.get("/transactions?page=2"))
    assert cluster.coordinator.listed[-1].most_urgent == 200
    assert "101 to 150 of 150" in shown
    await cluster.get("/transactions?late=1")
    assert cluster.coordinator.listed[-1].most_urgent == 0, "the gateway tells which are late"


async def test_groups_are_named_in_order(blocked):
    for number in range(9):
        blocked.groups.put(f"a-{number}")
        blocked.groups.offsets[f"a-{number}"] = {("orders", 0): 60}
    late = (await health(blocked))["troubles"][1]
    assert late["what"].startswith("blocks groups a-0, a-1, a-2 and 7 more:")
    assert late["groups"] == ["a-0", "a-1", "a-2"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/hanging-transactions",
        "/v1/groups/mail/offsets?count_records=true",
        "/v1/topics/orders/records",
        "/records?topic=orders",
        "/topic?name=orders",
    ],
)
async def test_what_a_gateway_looks_at_is_not_consumed(blocked, path):
    assert (await blocked.get(path)).status == 200
    assert blocked.storage.fetched
    assert not blocked.storage.consumed


async def test_what_is_open_for_a_moment_is_no_row_of_the_overview(blocked):
    """Transactions of milliseconds would come and go with each look, and the page would jump."""
    await blocked.create_topic("clicks", 1)
    blocked.coordinator.put(
        "brief", producer_id=9, partitions=[("clicks", 0)], start_time_ms=ago(0)
    )
    blocked.storage.open_transaction("clicks", 0, producer_id=9, start_offset=60)
    page = words_of(await blocked.get("/"))
    assert "brief" not in page
    assert "clicks-0" not in page
    assert "2 open transactions" in page
    assert "3 held back" in page
    assert "orders-0" in page
