"""What a client's batch needs to be written without a wait. The others are left to the long way, and none is lost."""

import random

import pytest
from tests.integration.storage.storage_node import NODE, NOW, batch, running, topic, txn_batch

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.record.batch import Codec
from oncelog.rpc import plain
from oncelog.rpc.contract import TRANSACTION_COORDINATOR
from oncelog.rpc.direct import DirectStub

STARTED_MS = NOW - 5


class KnowingCoordinator:
    """Knows of a transaction that began at `started_ms`; None: it must be asked."""

    direct_methods = {"VerifyAtOnce": "verify_at_once"}  # noqa: RUF012

    def __init__(self, started_ms=STARTED_MS):
        self.started_ms = started_ms
        self.asked = []

    def verify_at_once(self, request, context):
        self.asked.append((request.transactional_id, request.producer_id, *request.partitions))
        return self.started_ms


def knowing(node, started_ms=STARTED_MS):
    coordinator = KnowingCoordinator(started_ms)
    node.directory.put(TRANSACTION_COORDINATOR, DirectStub(coordinator))
    return coordinator


def produced(node, *batches, name="t7", mode=pb.VERIFY_LEGACY, acks=-1):
    """Offsets, or None. The batches go to the partitions 0, 1, …"""
    parts = [plain.PartitionRecords("orders", at, one, b"") for at, one in enumerate(batches)]
    request = plain.ProduceRequest(name, acks, 1000, mode, parts, "client", "host")
    answers = node.storage.produce_at_once(request, None)
    return answers and [(one.error_code, one.base_offset) for one in answers]


async def end(node, partition=0):
    found = await node.describe("orders", partition)
    return found.log_end_offset, found.high_watermark


async def test_a_verified_batch_is_committed_when_the_call_returns(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        coordinator = knowing(node)
        assert produced(node, txn_batch(7, 0), txn_batch(7, 0, 3)) == [(0, 0), (0, 0)]
        assert coordinator.asked == [("t7", 7, ("orders", 0), ("orders", 1))]
        assert [await end(node), await end(node, 1)] == [(1, 1), (3, 3)]
        assert produced(node, txn_batch(7, 1)) == [(0, 1)]
        assert len(coordinator.asked) == 1, "it is known here now"


async def test_a_marker_of_another_start_is_late_after_that(tmp_path):
    """The start that was told at once counts as one that was asked for."""
    async with running(tmp_path, topic("orders", 1)) as node:
        knowing(node)
        assert produced(node, txn_batch(7, 0)) == [(0, 0)]
        late = (7, 0, True, 0, 1, STARTED_MS - 1000, "t7")
        node.directory.put(TRANSACTION_COORDINATOR, node.coordinator)
        assert (await node.mark("orders", late), await end(node)) == ([0], (1, 1))
        assert await node.mark("orders", (7, 0, True, 0, 1, STARTED_MS, "t7")) == [0]
        assert await end(node) == (2, 2)


async def test_a_transaction_that_is_not_known_is_asked_about(tmp_path):
    async with running(tmp_path, topic("orders", 1)) as node:
        knowing(node, None)
        assert produced(node, txn_batch(7, 0)) is None
        assert await end(node) == (0, 0)
        node.directory.put(TRANSACTION_COORDINATOR, node.coordinator)
        assert produced(node, txn_batch(7, 0)) is None, "this coordinator is another process"
        answer = await node.produce("orders", txn_batch(7, 0), transactional_id="t7", mode=0)
        assert (answer.error_code, len(node.coordinator.calls)) == (0, 1)


async def test_a_partition_is_added_by_the_long_way(tmp_path):
    async with running(tmp_path, topic("orders", 1)) as node:
        coordinator = knowing(node)
        assert produced(node, txn_batch(7, 0), mode=pb.ADD_PARTITION) is None
        assert (coordinator.asked, await end(node)) == ([], (0, 0))


async def test_a_batch_does_not_overtake_one_that_is_being_verified(tmp_path):
    async with running(tmp_path, topic("orders", 1)) as node:
        coordinator = knowing(node)
        async with node.role.verifier.turn("t7"):
            assert produced(node, txn_batch(7, 0)) is None
            assert produced(node, batch(), name="") == [(0, 0)]
        assert coordinator.asked == []
        assert produced(node, txn_batch(7, 0)) == [(0, 1)]


async def test_a_repetition_is_answered_as_the_first_one(tmp_path):
    async with running(tmp_path, topic("orders", 1)) as node:
        knowing(node)
        assert produced(node, txn_batch(7, 0)) == [(0, 0)]
        assert produced(node, txn_batch(7, 0)) == [(0, 0)]
        answer = await node.produce("orders", txn_batch(7, 0), transactional_id="t7", mode=0)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert await end(node) == (1, 1)


@pytest.mark.parametrize(
    "refused",
    [txn_batch(7, 5), b"short", batch(codec=Codec.GZIP, value=random.randbytes(20_000))],
    ids=["sequence", "no batch", "a long check"],
)
async def test_what_is_refused_or_takes_long_is_left_alone(tmp_path, refused):
    async with running(tmp_path, topic("orders", 2)) as node:
        knowing(node)
        assert produced(node, txn_batch(7, 0)) == [(0, 0)]
        assert produced(node, refused) is None
        assert await end(node) == (1, 1)


async def test_what_was_written_beside_a_refused_batch_is_known(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        knowing(node)
        assert produced(node, txn_batch(7, 0), txn_batch(7, 0)) == [(0, 0), (0, 0)]
        assert produced(node, txn_batch(7, 1), txn_batch(7, 5)) is None
        answer = await node.produce("orders", txn_batch(7, 1), transactional_id="t7", mode=0)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert [await end(node), await end(node, 1)] == [(2, 2), (1, 1)]


async def test_nothing_is_written_where_a_follower_is_waited_for(tmp_path):
    async with running(tmp_path) as node:
        node.delta(topics=[topic("orders", 1, replicas=(NODE, 2), isr=(NODE, 2))])
        assert produced(node, batch(), name="") is None
        assert (await node.describe("orders")).log_end_offset == 0


async def test_nothing_is_written_where_a_count_asks_for_a_sync(tmp_path):
    async with running(tmp_path, topic("orders", 1, flush_messages=2)) as node:
        knowing(node)
        assert produced(node, txn_batch(7, 0)) is None
        assert (await node.describe("orders")).log_end_offset == 0
