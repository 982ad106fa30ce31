"""Two-phase transactions over REST (KIP-939): listed with what they hold, committed or aborted by their identity."""

import time

import pytest
from tests.integration.gateway.test_blocked_groups import words_of

TWO_PHASE = 2**31 - 1
OWNER_8_1 = {"owner_producer_id": 8, "owner_producer_epoch": 1}


@pytest.fixture
async def pay(cluster):
    """`pay`, which is 42:7 and holds back 58 records of orders-0, and is second in orders-1."""
    await cluster.create_topic("orders", 2)
    cluster.coordinator.put("other", producer_id=5, partitions=[("orders", 1)])
    cluster.storage.open_transaction("orders", 1, producer_id=5, start_offset=10)
    put_two_phase(cluster, "pay", partitions=[("orders", 0), ("orders", 1)])
    cluster.storage.open_transaction("orders", 0, producer_id=42, start_offset=42)
    cluster.storage.open_transaction("orders", 1, producer_id=42, start_offset=20)
    return cluster


def put_two_phase(cluster, name, **more):
    given = {"producer_id": 42, "producer_epoch": 7, "timeout_ms": TWO_PHASE}
    cluster.coordinator.put(name, **(given | more))


async def complete(cluster, prepared="42:7", outcome="commit", name="pay", **more):
    body = {"prepared": prepared, "outcome": outcome, **more}
    return await cluster.post(f"/v1/transactions/{name}/complete", body)


def identity(row):
    owner = row["owner_producer_id"], row["owner_producer_epoch"]
    return row["prepared"], row["is_two_phase"], row["is_kept"], owner


async def test_open_two_phase_ones_are_listed_with_what_they_hold(pay):
    put_two_phase(pay, "older", producer_id=9, start_time_ms=500)
    put_two_phase(pay, "idle", producer_id=10, state="Empty")
    put_two_phase(pay, "decided", producer_id=11, state="PrepareCommit")
    found = (await pay.get("/v1/prepared-transactions")).json
    assert [one["transactional_id"] for one in found["transactions"]] == ["older", "pay"]
    assert (found["total"], found["incomplete"]) == (2, [])
    row = found["transactions"][1]
    assert identity(row) == ("42:7", True, False, (42, 7))
    held = {(one["partition"], one["start_offset"], one["held_back"]) for one in row["partitions"]}
    assert held == {(0, 42, 58), (1, 20, 0)}
    assert row["held_back"] == 58
    assert row["age_ms"] > 0
    first = (await pay.get("/v1/prepared-transactions?limit=1")).json
    second = await pay.get(f"/v1/prepared-transactions?limit=1&cursor={first['next_cursor']}")
    assert [one["transactional_id"] for one in second.json["transactions"]] == ["pay"]


async def test_a_leader_that_does_not_answer_is_told(pay):
    put_two_phase(pay, "gone", partitions=[("nowhere", 0)])
    found = (await pay.get("/v1/prepared-transactions")).json
    (failure,) = found["incomplete"]
    assert "nowhere" in failure["detail"]
    rows = {one["transactional_id"]: one for one in found["transactions"]}
    assert rows["gone"]["partitions"][0]["held_back"] is None
    assert rows["gone"]["held_back"] is None
    assert "Not known: the offsets held back." in words_of(await pay.get("/transaction?id=gone"))
    assert rows["pay"]["held_back"] == 58


async def test_a_kept_one_is_two_phase_whatever_its_timeout(pay):
    """Its new producer asked for a time-out; it has none, so it is never late."""
    put_two_phase(pay, "pay", timeout_ms=60_000, partitions=[("orders", 0)], **OWNER_8_1)
    row = (await pay.get("/v1/transactions/pay")).json
    assert identity(row) == ("42:7", True, True, (8, 1))
    assert row["is_late"] is False
    assert row["partitions"][0]["held_back"] == row["held_back"] == 58
    (listed,) = (await pay.get("/v1/prepared-transactions")).json["transactions"]
    assert identity(listed) == identity(row)


async def test_what_is_not_open_has_no_text_to_compare(pay):
    put_two_phase(pay, "pay", state="CompleteCommit")
    assert identity((await pay.get("/v1/transactions/pay")).json) == (
        None,
        True,
        False,
        (None, None),
    )
    row = (await pay.get("/v1/transactions/other")).json
    assert identity(row) == (None, False, False, (5, 0))


@pytest.mark.parametrize("outcome", ["commit", "abort"])
async def test_it_is_completed_by_its_identity_and_audited(pay, outcome):
    shown = await complete(pay, outcome=outcome)
    assert (shown.status, shown.json["dry_run"], shown.json["completed"]) == (200, True, False)
    ended = {"commit": "committed", "abort": "aborted"}[outcome]
    detail = f"transaction 42:7 of 'pay', in 2 partitions, would be {ended}"
    assert shown.json["detail"].startswith(detail)
    assert pay.coordinator.completed == []
    done = await complete(pay, outcome=outcome, dry_run=False)
    assert done.json["completed"] is True
    assert pay.coordinator.completed == [(42, 7, outcome == "commit")]
    attempted, ended = pay.audit()[-2:]
    assert attempted["action"] == "complete"
    assert attempted["target"] == {
        "transactional_id": "pay",
        "prepared": "42:7",
        "outcome": outcome,
        "dry_run": False,
    }
    assert (ended["outcome"], ended["detail"]) == ("done", done.json["detail"])
    again = await complete(pay, outcome=outcome, dry_run=False)
    assert (again.status, "nothing is left to decide" in again.json["detail"]) == (409, True)


@pytest.mark.parametrize(
    ("name", "prepared", "status", "words"),
    [
        ("pay", "42:6", 409, "42:6 is not the open transaction of 'pay': that is 42:7"),
        ("pay", "042:7", 409, "abort 42:7"),
        ("other", "5:0", 409, "not two-phase"),
        ("other", "5:0", 409, "oncelog transactions terminate other"),
        ("nobody", "42:7", 404, "'nobody' is not known"),
        ("pay", "42", 422, "body.prepared"),
    ],
)
async def test_another_one_is_refused_with_the_way_out(pay, name, prepared, status, words):
    answer = await complete(pay, prepared, name=name, dry_run=False)
    assert (answer.status, words in str(answer.json)) == (status, True), answer.json
    assert pay.coordinator.completed == []


async def test_an_outcome_is_asked_for(pay):
    answer = await pay.post("/v1/transactions/pay/complete", {"prepared": "42:7"})
    assert (answer.status, "body.outcome" in str(answer.json)) == (422, True)
    answer = await pay.get("/v1/transactions/pay/complete")
    assert (answer.status, "POST it" in answer.json["detail"]) == (405, True)


async def test_an_older_coordinator_is_named_with_the_way_out(pay):
    pay.coordinator.is_older = True
    answer = await complete(pay, dry_run=False)
    assert (answer.status, answer.json["kafka_error_name"]) == (501, "UNSUPPORTED_VERSION")
    assert "older version" in answer.json["detail"]
    assert "upgrade" in answer.json["detail"]
    assert pay.audit()[-1]["outcome"] == "refused"


async def test_metrics_tell_two_phase_ones_from_late_ones(pay):
    now = time.time_ns() // 1_000_000
    six_minutes = {"start_time_ms": now - 360_000, "partitions": [("orders", 0), ("orders", 1)]}
    put_two_phase(pay, "pay", **six_minutes)
    put_two_phase(pay, "young", producer_id=9, start_time_ms=now, partitions=[("orders", 0)])
    put_two_phase(pay, "idle", producer_id=10, state="Empty", start_time_ms=1)
    pay.coordinator.put("other", producer_id=5, state="CompleteCommit")
    found = dict(
        line.split()
        for line in (await pay.get("/metrics")).body.decode().splitlines()
        if line.startswith("oncelog_") and "{" not in line
    )
    assert 360 <= float(found["oncelog_oldest_two_phase_transaction_age_seconds"]) < 420
    assert found["oncelog_old_two_phase_transaction_partitions"] == "2.0"
    assert found["oncelog_late_transactions"] == "0.0"


async def test_nothing_is_completed_that_cannot_be_audited(pay):
    pay.audit_path.unlink()
    pay.audit_path.mkdir()
    answer = await complete(pay, dry_run=False)
    assert (answer.status, pay.coordinator.completed) == (503, [])


async def test_a_partition_that_one_holds_points_to_explain(pay):
    row = (await pay.get("/v1/partitions/orders/0")).json
    assert row["lso_holder"]["advice"].endswith("oncelog transactions explain pay")
    assert "no time-out ends it" in row["lso_holder"]["advice"]
