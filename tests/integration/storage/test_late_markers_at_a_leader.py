"""A marker of TV1 that was held up, and a leader that does, or does not, know when the open transaction began."""

import asyncio

import pytest
from tests.integration.storage.storage_node import running, topic, txn_batch, until

from oncelog.api.v1 import coordinator_pb2
from oncelog.errors import ErrorCode
from oncelog_storage.core.verification import Verifications


async def test_a_late_marker_of_tv1_does_not_end_the_next_transaction(node):
    """A marker sender froze with it and woke when the producer, at the same epoch, had begun another transaction."""
    for sequence, start_ms in enumerate((1_000, 2_000)):
        node.coordinator.transaction_start_ms = start_ms
        answer = await node.produce(
            "orders", txn_batch(9, sequence), transactional_id="pay", mode=0
        )
        assert answer.error_code == 0
        if start_ms == 1_000:
            assert await node.mark("orders", (9, 0, True, 0, 0, start_ms)) == [0]
    before = await node.describe("orders")
    assert await node.mark("orders", (9, 0, True, 0, 0, 1_000)) == [0]
    after = await node.describe("orders")
    assert (after.log_end_offset, after.open_transaction_count) == (before.log_end_offset, 1)
    assert await node.mark("orders", (9, 0, False, 0, 0, 2_000)) == [0]
    assert (await node.describe("orders")).open_transaction_count == 0


@pytest.mark.parametrize(("verified_ms", "marker_ms"), [(1_000, 2_000), (500, 500)])
async def test_an_end_reaches_a_batch_that_is_being_verified(node, verified_ms, marker_ms):
    """The marker takes the batch's guard away, so nothing is written after the end.

    It may name a later transaction than the leader knows. Or the clock was set back: the second transaction began, by
    the clocks, before the first one.
    """
    node.coordinator.transaction_start_ms = 1_000
    first = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
    assert first.error_code == 0
    assert await node.mark("orders", (9, 0, True, 0, 0, 1_000, "pay")) == [0]
    node.coordinator.transaction_start_ms = verified_ms
    node.coordinator.gate = asyncio.Event()
    node.coordinator.calls.clear()
    sent = asyncio.create_task(
        node.produce("orders", txn_batch(9, 1), transactional_id="pay", mode=0)
    )
    await until(lambda: node.coordinator.calls)
    assert await node.mark("orders", (9, 0, False, 0, 0, marker_ms, "pay")) == [0]
    assert (await node.describe("orders")).log_end_offset == 3
    node.coordinator.gate.set()
    assert (await sent).error_code == ErrorCode.INVALID_TXN_STATE
    found = await node.describe("orders")
    assert (found.log_end_offset, found.open_transaction_count) == (3, 0)


@pytest.mark.parametrize(("before_ms", "now_ms"), [(1_000, 2_000), (2_000, 1_000)])
def test_what_is_verified_is_ended_by_its_own_marker_only(before_ms, now_ms):
    verifications = Verifications()
    verifications.learn_start(9, before_ms, now=0)
    guard = verifications.begin(9, 0, 1, supports_epoch_bump=False, now=0)
    assert not verifications.is_late_marker(9, before_ms, is_open=False), "nobody knows yet"
    verifications.note_start(9, guard, now_ms, now=0)
    assert verifications.is_late_marker(9, before_ms, is_open=False)
    assert not verifications.is_late_marker(9, now_ms, is_open=False)


def test_an_unwritten_fencing_marker_tells_late_from_its_own():
    """It has the epoch behind that of the open transaction; too few replicas let it wait, say."""
    verifications = Verifications()
    verifications.learn_start(9, 2_000, now=0)
    assert verifications.is_late_marker(9, 1_000, is_open=True) is True
    assert verifications.is_late_marker(9, 2_000, is_open=True) is False


def test_the_start_of_the_last_transaction_is_not_the_next_ones():
    """Its coordinator does not say when it began: one of TV2, or of an older version."""
    verifications = Verifications()
    verifications.learn_start(9, 1_000, now=0)
    guard = verifications.begin(9, 0, 1, supports_epoch_bump=False, now=0)
    verifications.note_start(9, guard, 0, now=0)
    verifications.appended(9, 0, False)
    assert verifications.is_late_marker(9, 2_000, is_open=True) is None, "it must be asked"


def described(**fields):
    return coordinator_pb2.TransactionDescription(
        transactional_id="pay", **({"producer_id": 9, "transaction_start_time_ms": 2_000} | fields)
    )


@pytest.mark.parametrize(
    ("at_coordinator", "start_ms", "code", "is_ended"),
    [
        pytest.param(ConnectionError("gone"), 2_000, ErrorCode.REQUEST_TIMED_OUT, False, id="gone"),
        pytest.param(TimeoutError(), 2_000, ErrorCode.REQUEST_TIMED_OUT, False, id="silent"),
        pytest.param(
            described(error_code=16), 2_000, ErrorCode.REQUEST_TIMED_OUT, False, id="elsewhere"
        ),
        pytest.param(
            described(coordinator_epoch=-1), 2_000, ErrorCode.REQUEST_TIMED_OUT, False, id="deposed"
        ),
        pytest.param(described(), 2_000, 0, True, id="own"),
        pytest.param(described(), 1_000, 0, False, id="late"),
        pytest.param(described(), 3_000, 0, False, id="clock-set-back"),
        pytest.param(described(producer_id=8), 1_000, 0, True, id="other-producer"),
        pytest.param(described(transaction_start_time_ms=-1), 1_000, 0, True, id="empty"),
        pytest.param(None, 1_000, 0, True, id="unknown"),
    ],
)
async def test_after_a_restart_the_coordinator_tells_the_start(
    tmp_path, at_coordinator, start_ms, code, is_ended
):
    async with running(tmp_path, topic("orders")) as node:
        answer = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
        assert answer.error_code == 0
    async with running(tmp_path, topic("orders")) as node:
        node.coordinator.described = [at_coordinator]
        assert await node.mark("orders", (9, 0, True, 0, 0, start_ms, "pay")) == [code]
        found = await node.describe("orders")
        assert (found.open_transaction_count == 0) is is_ended
        assert (found.log_end_offset == 2) is is_ended


async def test_a_marker_of_kafkas_own_api_asks_nobody(tmp_path):
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
    async with running(tmp_path, topic("orders")) as node:
        node.coordinator.described = [ConnectionError("nobody asks")]
        assert await node.mark("orders", (9, 0, True)) == [0]
        assert (await node.describe("orders")).open_transaction_count == 0


async def test_what_a_leader_asked_for_does_not_outlive_its_leadership(cluster):
    """While it waits for the answer another node leads and lets the next transaction in. What it is told is true of the
    one before: taken for true of the open one, the late marker would end it, and its own would be called late."""

    cluster.controller.topic()
    sent = await cluster.produce(txn_batch(9, 0), transactional_id="pay", mode=0)
    assert sent.error_code == 0
    cluster.controller.change(leader=2)
    is_received, answer = asyncio.Event(), asyncio.Event()

    async def describe(request, context=None, timeout=None):
        is_received.set()
        await answer.wait()
        found = described(transaction_start_time_ms=1_000)
        return coordinator_pb2.DescribeTransactionsResponse(transactions=[found])

    cluster.coordinator.DescribeTransactions = describe
    late = asyncio.create_task(cluster.mark(9, 0, True, start_ms=1_000, name_of="pay"))
    await is_received.wait()
    cluster.controller.change(leader=3)
    assert await cluster.mark(9, 0, True) == 0
    cluster.coordinator.transaction_start_ms = 2_000
    sent = await cluster.produce(txn_batch(9, 1), transactional_id="pay", mode=0)
    assert sent.error_code == 0
    await cluster.caught_up()
    cluster.controller.change(leader=2)
    answer.set()
    assert await late == ErrorCode.REQUEST_TIMED_OUT
    producers = cluster.leader().held().log.producers
    assert producers.has_any_ongoing_transaction(9)
    del cluster.coordinator.DescribeTransactions
    cluster.coordinator.described = [described()]
    assert await cluster.mark(9, 0, False, start_ms=2_000, name_of="pay") == 0
    assert not producers.has_any_ongoing_transaction(9)


async def test_a_late_marker_of_an_earlier_epoch_lets_no_other_in(tmp_path):
    """What the coordinator told for the first one's sake is known of the open transaction, whatever epoch asked."""
    opened = txn_batch(9, 0, producer_epoch=1)
    async with running(tmp_path, topic("orders")) as node:
        answer = await node.produce("orders", opened, transactional_id="pay", mode=0)
        assert answer.error_code == 0
    async with running(tmp_path, topic("orders")) as node:
        node.coordinator.described = [described(producer_epoch=1)]
        assert await node.mark("orders", (9, 0, True, 0, 0, 500, "pay")) == [0]
        assert await node.mark("orders", (9, 1, True, 0, 0, 1_000, "pay")) == [0]
        assert (await node.describe("orders")).open_transaction_count == 1
        assert await node.mark("orders", (9, 1, False, 0, 0, 2_000, "pay")) == [0]
        assert (await node.describe("orders")).open_transaction_count == 0


@pytest.mark.parametrize(
    ("at_coordinator", "code"),
    [
        pytest.param(described(transaction_start_time_ms=1_000), 0, id="clock-set-back"),
        pytest.param(TimeoutError(), ErrorCode.REQUEST_TIMED_OUT, id="silent"),
    ],
)
async def test_a_marker_of_what_began_later_is_asked_about(node, at_coordinator, code):
    """The open one may have ended at a successor that this leader does not know."""
    node.coordinator.transaction_start_ms = 1_000
    answer = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
    assert answer.error_code == 0
    node.coordinator.described = [at_coordinator, described(transaction_start_time_ms=1_000)]
    assert await node.mark("orders", (9, 0, True, 0, 0, 3_000, "pay")) == [code]
    assert (await node.describe("orders")).open_transaction_count == 1
    assert await node.mark("orders", (9, 0, False, 0, 0, 1_000, "pay")) == [0]
    assert (await node.describe("orders")).open_transaction_count == 0
