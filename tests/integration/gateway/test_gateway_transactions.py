"""Reading and ending transactions over REST."""

import time
import urllib.parse

import pytest
from tests.integration.gateway.gateway_cluster import gateway_cluster
from tests.integration.gateway.test_blocked_groups import words_of

from oncelog.api.v1 import controller_pb2, storage_pb2
from oncelog_gateway.core.held_back import HELD_BACK


async def test_transactions_are_paged_in_order_and_filtered(cluster):
    for number in range(5):
        state = "Ongoing" if number % 2 else "Empty"
        cluster.coordinator.put(f"pay-{number}", producer_id=number, state=state)
    first = (await cluster.get("/v1/transactions?limit=2")).json
    assert [one["transactional_id"] for one in first["transactions"]] == ["pay-0", "pay-1"]
    assert first["total"] == 5
    cluster.coordinator.put("pay-00", producer_id=9)
    second = (await cluster.get(f"/v1/transactions?limit=4&cursor={first['next_cursor']}")).json
    assert [one["transactional_id"] for one in second["transactions"]] == [
        "pay-2",
        "pay-3",
        "pay-4",
    ]
    assert second["next_cursor"] is None
    some = (await cluster.get("/v1/transactions?state=Ongoing&producer_id=1&producer_id=2")).json
    assert [one["transactional_id"] for one in some["transactions"]] == ["pay-1"]
    late = (await cluster.get("/v1/transactions?min_duration_ms=0&id_pattern=pay-*")).json
    assert [one["transactional_id"] for one in late["transactions"]] == [
        "pay-00",
        "pay-1",
        "pay-3",
    ]
    assert late["transactions"][1]["is_late"] is True


async def test_a_refused_filter_names_the_value(cluster):
    answer = await cluster.get("/v1/transactions?id_pattern=a*b*c*d*")
    assert answer.status == 422
    assert "id_pattern" in answer.json["detail"]
    answer = await cluster.get("/v1/transactions?state=Sleeping")
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Ongoing" in answer.json["detail"]


async def test_any_transactional_id_can_be_described(cluster):
    await cluster.create_topic("orders", 2)
    for name in (
        "plain",
        "a/b/3",
        "with space",
        "ä🙂",
        "x?y#z%25",
        "terminate",
        "odd/terminate",
        "abort",
    ):
        cluster.coordinator.put(name, producer_id=4, partitions=[("orders", 1), ("orders", 0)])
        answer = await cluster.get("/v1/transactions/" + urllib.parse.quote(name, safe=""))
        assert (answer.status, answer.json["transactional_id"]) == (200, name)
    answer = await cluster.get("/v1/transactions/a/b/3")
    assert answer.json["transactional_id"] == "a/b/3"


async def test_description_has_start_offsets(cluster):
    await cluster.create_topic("orders", 2)
    cluster.coordinator.put("pay", producer_id=4, partitions=[("orders", 0), ("orders", 1)])
    cluster.storage.open_transaction("orders", 1, producer_id=4, start_offset=42)
    detail = (await cluster.get("/v1/transactions/pay")).json
    assert detail["partitions"] == [
        {"topic": "orders", "partition": 0, "start_offset": None, "held_back": 0},
        {"topic": "orders", "partition": 1, "start_offset": 42, "held_back": 58},
    ]


async def test_what_is_held_back_is_said_once_and_in_one_way(cluster):
    await cluster.create_topic("orders", 2)
    cluster.coordinator.put("pay", producer_id=4, partitions=[("orders", 0), ("orders", 1)])
    cluster.storage.open_transaction("orders", 1, producer_id=4, start_offset=42)
    for path in ("/transaction?id=pay", "/partition?topic=orders&partition=1"):
        page = words_of(await cluster.get(path))
        assert page.count("58 offsets") == 1, page
        assert "holds back 58 offsets in orders-1." in page
        assert "records held back" not in page
        assert "before the high watermark" not in page
    fields = (await cluster.get("/openapi.json")).json["components"]["schemas"]
    said = [
        fields[name]["properties"]["held_back"]["description"]
        for name in ("TransactionPartition", "TransactionDetail", "PreparedTransaction")
    ]
    said.append(fields["GroupOffset"]["properties"]["held_back"]["description"])
    assert all(HELD_BACK in one for one in said), said


@pytest.mark.parametrize(
    ("state", "version", "says"),
    [
        ("Ongoing", 0, True),
        ("CompleteCommit", 1, True),
        ("Ongoing", 2, False),
        ("Empty", 0, False),
    ],
)
async def test_a_page_says_what_to_do_about_a_shared_epoch(cluster, state, version, says):
    cluster.coordinator.put("pay", producer_id=4, state=state, client_transaction_version=version)
    page = words_of(await cluster.get("/transaction?id=pay"))
    assert "TV1" not in page
    assert ("late request of an ended transaction" in page) == says


async def test_the_digits_of_a_producer_id_stay_together(cluster):
    cluster.coordinator.put("pay", producer_id=12_345)
    page = words_of(await cluster.get("/transaction?id=pay"))
    assert "producer 12345, epoch 0 (coordinator on node 1)" in page
    assert "12 345" not in page


class EndsOnceSeen(dict):
    """Each transaction ends right after somebody looked at it."""

    def get(self, name):
        found = super().get(name)
        if found is not None:
            self[name] = type(found)()
            self[name].CopyFrom(found)
            self[name].state = "CompleteCommit"
        return found


async def test_a_page_is_of_one_reading(cluster):
    await cluster.create_topic("orders")
    cluster.coordinator.put("pay", producer_id=4, partitions=[("orders", 0)])
    cluster.coordinator.transactions = EndsOnceSeen(cluster.coordinator.transactions)
    page = (await cluster.get("/transaction?id=pay")).body.decode()
    assert "The transaction is open for" in page
    assert '<b class="word">Ongoing</b>' in page
    again = (await cluster.get("/transaction?id=pay")).body.decode()
    assert "no transaction is open" in again
    assert '<b class="word">CompleteCommit</b>' in again
    assert "data-step" not in again, "nothing is left to end"


async def test_unknown_transaction_is_a_problem(cluster):
    answer = await cluster.get("/v1/transactions/nobody")
    assert answer.status == 404
    assert answer.json["kafka_error_code"] == 105
    assert "'nobody'" in answer.json["detail"]
    answer = await cluster.get("/v1/transactions/abort")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_abort_is_a_dry_run_unless_told_otherwise(cluster):
    await cluster.create_topic("orders")
    cluster.storage.open_transaction(
        "orders", 0, producer_id=4, start_offset=42, coordinator_epoch=3
    )
    target = {"topic": "orders", "partition": 0, "start_offset": 42, "producer_epoch": 0}
    shown = await cluster.post("/v1/transactions/abort", target)
    assert shown.status == 200, shown.body
    assert shown.json["dry_run"] is True
    assert shown.json["aborted"] is False
    assert cluster.storage.markers == []
    done = await cluster.post("/v1/transactions/abort", {**target, "dry_run": False})
    assert done.json["aborted"] is True
    (marker,) = cluster.storage.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (4, 0, 3)
    assert not marker.commit
    again = await cluster.post("/v1/transactions/abort", {**target, "dry_run": False})
    assert again.status == 404
    assert [line.get("outcome") for line in cluster.audit()] == [
        None,
        "dry_run",
        None,
        "done",
        None,
        "refused",
    ]


async def test_abort_needs_the_exact_offset_and_epoch(cluster):
    await cluster.create_topic("orders")
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42, producer_epoch=5)
    target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
    answer = await cluster.post("/v1/transactions/abort", {**target, "start_offset": 41})
    assert answer.status == 404
    assert "42" in answer.json["detail"]
    answer = await cluster.post("/v1/transactions/abort", {**target, "producer_epoch": 4})
    assert (answer.status, answer.json["kafka_error_name"]) == (409, "INVALID_PRODUCER_EPOCH")
    answer = await cluster.post("/v1/transactions/abort", {**target, "topic": "order"})
    assert (answer.status, answer.json["kafka_error_code"]) == (404, 3)
    assert cluster.storage.markers == []


async def test_a_transaction_with_an_owner_is_not_aborted(cluster):
    await cluster.create_topic("orders")
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)
    target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
    for state, advice in (("Ongoing", "terminate"), ("PrepareCommit", "wait")):
        cluster.coordinator.put("pay", producer_id=4, state=state, partitions=[("orders", 0)])
        answer = await cluster.post("/v1/transactions/abort", target)
        assert answer.status == 409
        assert "'pay'" in answer.json["detail"]
        assert advice in answer.json["detail"]
    cluster.coordinator.put("pay", producer_id=4, state="CompleteCommit")
    answer = await cluster.post("/v1/transactions/abort", target)
    assert answer.json["coordinator_state"] == "CompleteCommit"
    assert len(cluster.storage.markers) == 1


async def test_nothing_is_aborted_while_a_coordinator_is_silent(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await cluster.create_topic("orders")
        cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)
        cluster.coordinator.is_silent = True
        target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
        answer = await cluster.post("/v1/transactions/abort", target)
        assert (answer.status, answer.json["kafka_error_name"]) == (
            503,
            "COORDINATOR_NOT_AVAILABLE",
        )
        assert cluster.storage.markers == []
        row = (await cluster.get("/v1/partitions/orders/0")).json
        assert row["lso_holder"]["hanging"] is None
        found = (await cluster.get("/v1/hanging-transactions")).json
        assert found["hanging"] == []
        assert found["incomplete"]


async def test_nothing_is_aborted_while_transaction_shards_move(cluster):
    """Neither the old owner of a shard nor the new one may have listed what is in it."""
    await cluster.create_topic("orders")
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)

    def move():
        coordinator_epoch = cluster.metadata.image.metadata_offset + 1
        moved = controller_pb2.Shard(
            shard=7, coordinator=1 + coordinator_epoch, coordinator_epoch=coordinator_epoch
        )
        cluster.metadata.apply_update(
            controller_pb2.MetadataUpdate(
                metadata_offset=coordinator_epoch,
                delta=controller_pb2.MetadataDelta(shards=[moved]),
            )
        )

    cluster.coordinator.meanwhile = move
    target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
    answer = await cluster.post("/v1/transactions/abort", target)
    assert answer.status == 503
    assert cluster.storage.markers == []


async def test_an_abort_is_refused_where_another_one_is_open(cluster):
    """The transaction ends after the last reading, and its producer begins the next one."""
    await cluster.create_topic("orders")
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42, last_offset=50)

    def begin_another():
        cluster.storage.end("orders", 0, 4)
        cluster.storage.open_transaction(
            "orders", 0, producer_id=4, start_offset=52, last_offset=52
        )

    cluster.storage.before_mark = begin_another
    target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
    answer = await cluster.post("/v1/transactions/abort", target)
    assert (answer.status, answer.json["kafka_error_name"]) == (409, "INVALID_TXN_STATE")
    assert "has ended meanwhile" in answer.json["detail"]
    assert cluster.audit()[-1]["outcome"] == "refused"
    assert (await cluster.get("/v1/partitions/orders/0")).json["lso_holder"]["start_offset"] == 52


async def test_an_abort_without_an_answer_is_unknown_in_the_audit(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await cluster.create_topic("orders")
        cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)

        def silence():
            cluster.storage.is_silent = True

        cluster.storage.before_describe = [lambda: None, silence]
        target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
        answer = await cluster.post("/v1/transactions/abort", target)
        assert answer.status == 504
        assert cluster.audit()[-1]["outcome"] == "unknown"


async def test_nothing_is_done_that_the_audit_log_cannot_record(cluster):
    await cluster.create_topic("orders")
    cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)
    cluster.audit_path.unlink()
    cluster.audit_path.mkdir()
    target = {"topic": "orders", "partition": 0, "start_offset": 42, "dry_run": False}
    answer = await cluster.post("/v1/transactions/abort", target)
    assert (answer.status, answer.json["kafka_error_name"]) == (503, "KAFKA_STORAGE_ERROR")
    assert cluster.storage.markers == []


async def test_terminate_goes_through_the_coordinator_and_is_audited(tmp_path):
    async with gateway_cluster(tmp_path, trusted_proxies="127.0.0.0/8") as cluster:
        await cluster.create_topic("orders")
        cluster.coordinator.put("a/b", producer_id=4, partitions=[("orders", 0)])
        cluster.storage.open_transaction("orders", 0, producer_id=4, start_offset=42)
        shown = await cluster.post("/v1/transactions/a%2Fb/terminate")
        assert (shown.json["state_before"], shown.json["terminated"]) == ("Ongoing", False)
        assert cluster.coordinator.transactions["a/b"].state == "Ongoing"
        headers = {"X-Forwarded-User": "mira"}
        act = b'{"dry_run": false}'
        done = await cluster.request("POST", "/v1/transactions/a/b/terminate", act, headers)
        assert done.json["terminated"] is True
        assert (await cluster.get("/v1/partitions/orders/0")).json["lso_holder"] is None
        attempted = cluster.audit()[2]
        assert (attempted["user"], attempted["remote_address"]) == ("mira", "127.0.0.1")
        assert attempted["target"]["transactional_id"] == "a/b"
        assert shown.json["start_time_ms"] is not None
        other = {"start_time_ms": shown.json["start_time_ms"] - 1}
        refused = await cluster.post("/v1/transactions/a%2Fb/terminate", other)
        assert refused.status == 409
        assert "has ended meanwhile" in refused.json["detail"]
        assert cluster.coordinator.seen_start_ms is None, "no start was given"
        cluster.coordinator.put("a/b", producer_id=4)
        given = {"start_time_ms": shown.json["start_time_ms"], "dry_run": False}
        assert (await cluster.post("/v1/transactions/a%2Fb/terminate", given)).status == 200
        assert cluster.coordinator.seen_start_ms == given["start_time_ms"]
        missing = await cluster.post("/v1/transactions/nobody/terminate")
        assert missing.status == 404


async def test_hanging_is_told_from_open_and_from_just_ended(cluster):
    await cluster.create_topic("orders", 3)
    cluster.coordinator.put("owned", producer_id=1, partitions=[("orders", 0)])
    cluster.storage.open_transaction("orders", 0, producer_id=1, start_offset=10)
    cluster.coordinator.put("lost", producer_id=2, state="CompleteAbort")
    cluster.storage.open_transaction("orders", 1, producer_id=2, start_offset=20, producer_epoch=6)
    cluster.storage.open_transaction("orders", 2, producer_id=3, start_offset=30)
    # Producer 3 ends between the two readings of its partition.
    cluster.storage.before_describe = [
        lambda: None,
        lambda: cluster.storage.end("orders", 2, 3),
    ]
    found = (await cluster.get("/v1/hanging-transactions?topic=orders")).json
    (row,) = found["hanging"]
    assert (row["topic"], row["partition"], row["transactional_id"]) == ("orders", 1, "lost")
    assert row["coordinator"] == 1
    of_its_coordinator = await cluster.get("/v1/hanging-transactions?topic=orders&coordinator=1")
    assert [one["transactional_id"] for one in of_its_coordinator.json["hanging"]] == ["lost"]
    assert "--partition 1 --start-offset 20 --producer-epoch 6" in row["abort"]
    assert found["open_transactions"] == 3
    rows = (await cluster.get("/v1/topics/orders/partitions")).json["partitions"]
    holders = [row["lso_holder"] and row["lso_holder"]["hanging"] for row in rows]
    assert holders == [False, True, None]
    assert rows[0]["lso_holder"]["transactional_id"] == "owned"
    assert rows[1]["lso_lag"] == 80


async def test_the_search_for_hanging_counts_what_a_filter_hides(cluster):
    await cluster.create_topic("orders", 3)
    await cluster.create_topic("other")
    now = time.time_ns() // 1_000_000
    for topic, partition, offset, minutes in (
        ("orders", 0, 10, 1),
        ("orders", 1, 20, 30),
        ("other", 0, 30, 90),
    ):
        cluster.storage.open_transaction(
            topic,
            partition,
            producer_id=offset,
            start_offset=offset,
            coordinator_epoch=4,
            timestamp_ms=now - minutes * 60_000,
        )
    cluster.storage.open_transaction("orders", 2, producer_id=40, start_offset=40, timestamp_ms=-1)

    async def found(query):
        answer = (await cluster.get(f"/v1/hanging-transactions?{query}")).json
        return [row["start_offset"] for row in answer["hanging"]], answer["hidden_count"]

    assert await found("") == ([10, 20, 40, 30], 0)
    assert await found("topic=orders&partition=1") == ([20], 0)
    assert await found("broker=1&topic=other") == ([30], 0)
    # 40 has no timestamp: nobody can say that it is young.
    assert await found("max_transaction_timeout_ms=900000") == ([20, 40, 30], 1)
    assert await found("min_idle_ms=3600000&topic=orders") == ([40], 2)
    # Nobody knows the transactional.id of these producers.
    assert await found("coordinator=1") == ([], 4)
    row = (await cluster.get("/v1/hanging-transactions?topic=other")).json["hanging"][0]
    assert (row["coordinator_epoch"], row["last_timestamp_ms"]) == (4, now - 90 * 60_000)
    for query, status, message in (
        ("partition=1", 422, "give topic too"),
        ("topic=orders&partition=3", 404, "no partition 3 of 'orders'; it has 3"),
        ("topic=none", 404, "no topic 'none'"),
        ("broker=99", 404, "no node 99; the nodes are 1"),
        ("coordinator=99", 404, "no node 99; the nodes are 1"),
    ):
        refused = await cluster.get(f"/v1/hanging-transactions?{query}")
        assert (refused.status, message in refused.json["detail"]) == (status, True), refused.json


async def ends_by_its_command(cluster, hanging):
    """As the page of record 40 tells it: the command stands alone, and a link leads to the button."""
    assert hanging["hanging"] is True
    assert hanging["advice"].endswith(hanging["next_command"])
    page = (await cluster.get("/record?topic=orders&partition=0&offset=40")).body.decode()
    assert "Nobody will end it:</p>" in page
    assert f'<pre class="wrap"><code>{hanging["next_command"]}</code></pre>' in page
    assert 'href="/partition?topic=orders&amp;partition=0"' in page


async def test_what_became_of_a_record(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await cluster.create_topic("orders")
        cluster.coordinator.put("pay", producer_id=1, partitions=[("orders", 0)])
        cluster.coordinator.put("done", producer_id=2, state="CompleteAbort")
        cluster.storage.open_transaction("orders", 0, producer_id=1, start_offset=40)
        opened = cluster.storage.producers["orders", 0][0]
        fates = {
            10: {"fate": storage_pb2.IN_COMMITTED, "producer_id": 2},
            11: {"fate": storage_pb2.COMMIT_MARKER, "producer_id": 2},
            20: {
                "fate": storage_pb2.IN_ABORTED,
                "producer_id": 2,
                "txn_first_offset": 20,
                "txn_last_offset": 25,
            },
            30: {"fate": storage_pb2.COMPACTED},
            40: {
                "fate": storage_pb2.IN_OPEN,
                "producer_id": 1,
                "txn_first_offset": 40,
                "open_transaction": opened,
            },
            50: {"fate": storage_pb2.IN_COMMITTED, "producer_id": 7},
        }
        for offset, fields in fates.items():
            cluster.storage.records["orders", 0, offset] = storage_pb2.DescribeRecordResponse(
                **fields
            )

        async def found(offset):
            return (await cluster.get(f"/v1/partitions/orders/0/records/{offset}")).json

        shown = {offset: await found(offset) for offset in (*fates, 5, 60, 95)}
        assert {
            offset: (one["status"], one["read_committed"]) for offset, one in shown.items()
        } == {
            5: ("not_transactional", True),
            10: ("committed", True),
            11: ("control", False),
            20: ("aborted", False),
            30: ("compacted", False),
            40: ("open", False),
            50: ("committed", False),
            60: ("not_transactional", False),
            95: ("above_high_watermark", False),
        }
        assert (shown[11]["marker"], shown[11]["transactional_id"]) == ("commit", "done")
        assert (shown[20]["transaction_start_offset"], shown[20]["marker_offset"]) == (20, 25)
        holder = shown[40]["open_transaction"]
        assert (holder["transactional_id"], holder["hanging"]) == ("pay", False)
        assert "terminate pay" in holder["advice"]
        assert shown[50]["transactional_id"] is None
        assert "held by another transaction" in shown[50]["detail"]
        cluster.coordinator.put("pay", producer_id=1, state="CompleteCommit")
        await ends_by_its_command(cluster, (await found(40))["open_transaction"])
        cluster.coordinator.is_silent = True
        silent = await found(40)
        assert (silent["status"], silent["open_transaction"]["hanging"]) == ("open", None)


async def test_a_record_that_is_not_there_is_not_found(tmp_path):
    async with gateway_cluster(tmp_path) as cluster:
        await cluster.create_topic("orders")
        for path, status in (
            ("none/0/records/0", 404),
            ("orders/9/records/0", 404),
            ("orders/0/records/-1", 422),
        ):
            assert (await cluster.get(f"/v1/partitions/{path}")).status == status


async def test_a_silent_coordinator_is_a_gateway_timeout(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        cluster.coordinator.is_silent = True
        answer = await cluster.get("/v1/transactions")
        assert (answer.status, answer.json["kafka_error_name"]) == (504, "REQUEST_TIMED_OUT")
