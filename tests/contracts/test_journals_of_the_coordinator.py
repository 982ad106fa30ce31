"""The journals a coordinator runs on obey the contract; a shard's log also survives what a network does."""

import asyncio

import pytest
from tests.contracts.journal import JournalContract, read_all
from tests.contracts.memory_journal import MemoryJournal
from tests.contracts.shard_storage import Cluster

from oncelog.errors import ErrorCode
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Partition, ProducerId
from oncelog.journal import AppendFailed
from oncelog.record.batch import iter_headers
from oncelog.record.records import Record, decode_batch, encode_batch
from oncelog.runtime import SystemClock
from oncelog_coordinator.core.group_records import (
    GroupChanged,
    OffsetCommitted,
    OffsetTombstone,
    TransactionEnded,
)
from oncelog_coordinator.core.group_state import Group
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState, TxnTombstone
from oncelog_coordinator.group_shards import GroupRecords
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_format import TransactionRecords
from oncelog_coordinator.shard_log import ReplayFailed, ShardLog

SHARD = Partition(TRANSACTION_STATE_TOPIC, 1)
SETTINGS = CoordinatorSettings(append_timeout_ms=200, retry_backoff_ms=1, retry_backoff_max_ms=5)
PATIENT = SETTINGS.model_copy(update={"append_timeout_ms": 20_000})
"""For appends that succeed after a while: a busy machine may stand still for as long as the time-out of the others."""


def transaction(number):
    if number % 7 == 3:
        return TxnTombstone(f"t{number}")
    partitions = (Partition("orders", number), Partition("refunds", 0))
    return TxnMetadata(f"t{number}", number, 1, TxnState.ONGOING, 60_000, partitions, 5, 6, number)


def shard_log(cluster, coordinator_epoch=0, settings=SETTINGS, partition=SHARD, record_format=None):
    async def claim():
        cluster.controller.next_id += 1
        return ProducerId(cluster.controller.next_id)

    return ShardLog(
        partition,
        record_format or TransactionRecords(cluster.metadata),
        coordinator_epoch,
        cluster.metadata,
        cluster.directory,
        claim,
        SystemClock(),
        settings,
    )


async def opened(cluster, coordinator_epoch=0, settings=SETTINGS):
    journal = shard_log(cluster, coordinator_epoch, settings)
    records = await read_all(journal)
    return journal, [record for _, record in records]


class TestMemoryJournal(JournalContract):
    def world(self):
        return MemoryJournal()

    def open(self, world):
        return world

    def record(self, number):
        return number


class TestShardLog(JournalContract):
    def world(self):
        return Cluster()

    def open(self, world):
        return shard_log(world)

    def record(self, number):
        return transaction(number)


GROUP_SHARD = Partition(CONSUMER_OFFSETS_TOPIC, 1)


def group_record(number):
    """A transaction's offsets, markers, plain offsets, groups and tombstones, all in turn."""
    partition = Partition("orders", number)
    match number % 6:
        case 0 | 1:
            return OffsetCommitted("g", partition, number, -1, "", 5, -1, 7 + number % 3, 0)
        case 2:
            return TransactionEnded(7 + number % 3, 0, number % 4 == 2, 3, 5)
        case 3:
            return OffsetCommitted("g", partition, number, -1, "m", 5)
        case 4:
            return GroupChanged(Group(f"g{number}", state_timestamp=number))
        case _:
            return OffsetTombstone("g", partition)


class TestGroupShardLog(JournalContract):
    def world(self):
        return Cluster()

    def open(self, world):
        return shard_log(world, partition=GROUP_SHARD, record_format=GroupRecords())

    def record(self, number):
        return group_record(number)


@pytest.mark.parametrize("fault", ["lost", "cut"])
async def test_records_of_a_clients_transaction_are_written_once_too(fault):
    cluster = Cluster()
    journal = TestGroupShardLog().open(cluster)
    await read_all(journal)
    records = [group_record(number) for number in range(6)]
    cluster.storage.faults.extend([fault] * 3)
    await journal.append(records)
    again = TestGroupShardLog().open(cluster)
    assert await read_all(again) == list(enumerate(records))
    batches = cluster.storage.logs[GROUP_SHARD].batches
    headers = [header for batch in batches for _, header in iter_headers(batch)]
    assert [(h.producer_id, h.is_transactional, h.is_control) for h in headers[:3]] == [
        (7, True, False),
        (8, True, False),
        (9, True, True),
    ]


def log_of(cluster):
    return cluster.storage.logs[SHARD]


async def test_a_lost_answer_is_repeated_and_written_once():
    cluster = Cluster()
    journal, _ = await opened(cluster, settings=PATIENT)
    cluster.storage.faults.extend(["lost", "lost", "cut"])
    assert await journal.append([transaction(0), transaction(1)]) == 0
    assert await journal.append([transaction(2)]) == 2
    assert cluster.storage.append_calls == 5
    _, records = await opened(cluster)
    assert records == [transaction(0), transaction(1), transaction(2)]


@pytest.mark.parametrize("code", [3, 5, 6, 7, 13, 19, 20, 56])
async def test_passing_faults_are_waited_out(code):
    cluster = Cluster()
    journal, _ = await opened(cluster, settings=PATIENT)
    cluster.storage.faults.extend([ErrorCode(code)] * 2)
    assert await journal.append([transaction(0)]) == 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, 15),
        (7, 15),
        (13, 15),
        (19, 15),
        (20, 15),
        (6, 16),
        (56, 16),
        (52, 16),
        (10, -1),
        (18, -1),
        (45, 15),
        (47, 15),
        (87, 87),
    ],
)
async def test_what_lasts_fails_the_append_with_its_code(code, expected):
    cluster = Cluster()
    journal, _ = await opened(cluster)
    cluster.storage.faults.extend([ErrorCode(code)] * 1_000)
    with pytest.raises(AppendFailed) as failed:
        await journal.append([transaction(0)])
    assert failed.value.error_code == expected


async def test_a_refusal_is_not_repeated():
    cluster = Cluster()
    journal, _ = await opened(cluster)
    cluster.storage.faults.append(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with pytest.raises(AppendFailed):
        await journal.append([transaction(0)])
    assert cluster.storage.append_calls == 1


async def test_an_answer_that_never_comes_fails_in_time():
    cluster = Cluster()
    journal, _ = await opened(cluster)
    cluster.storage.gate = asyncio.Event()
    with pytest.raises(AppendFailed) as failed:
        await asyncio.wait_for(journal.append([transaction(0)]), 30)
    assert failed.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_loading_fences_the_coordinator_before():
    cluster = Cluster()
    old, _ = await opened(cluster, coordinator_epoch=1)
    await old.append([transaction(0)])
    new, records = await opened(cluster, coordinator_epoch=2)
    assert records == [transaction(0)]
    with pytest.raises(AppendFailed) as failed:
        await old.append([transaction(1)])
    assert failed.value.error_code == ErrorCode.NOT_COORDINATOR
    assert await new.append([transaction(2)]) == 1


async def test_a_decision_without_the_newest_record_is_not_written():
    cluster = Cluster()
    one, _ = await opened(cluster)
    other, _ = await opened(cluster)
    await one.append([transaction(0)])
    with pytest.raises(AppendFailed):
        await other.append([transaction(1)])
    assert (await opened(cluster))[1] == [transaction(0)]


async def test_replay_waits_until_what_it_read_cannot_be_lost():
    cluster = Cluster()
    journal, _ = await opened(cluster)
    await journal.append([transaction(0)])
    log_of(cluster).high_watermark = 0
    loading = asyncio.create_task(opened(cluster))
    done, _ = await asyncio.wait([loading], timeout=0.05)
    assert not done
    log_of(cluster).high_watermark = 1
    assert (await asyncio.wait_for(loading, 30))[1] == [transaction(0)]


async def test_a_large_append_is_split_and_stays_in_order():
    cluster = Cluster()
    topic = cluster.metadata.image.topics[TRANSACTION_STATE_TOPIC]
    topic.configs["max.message.bytes"] = "2000"
    journal, _ = await opened(cluster)
    records = [transaction(number) for number in range(100)]
    assert await journal.append(records) == 0
    batches = log_of(cluster).batches
    assert len(batches) > 3
    assert max(map(len, batches)) <= 2_000
    assert (await opened(cluster))[1] == records


async def test_values_are_written_in_the_version_of_the_feature_level():
    for level, version in ((0, 0), (1, 1), (2, 1)):
        cluster = Cluster(transaction_version=level)
        journal, _ = await opened(cluster)
        await journal.append([transaction(0)])
        (batch,) = log_of(cluster).batches
        (record,) = decode_batch(batch)
        assert record.value[:2] == bytes([0, version])


async def test_each_load_has_its_own_identity_and_begins_at_0():
    cluster = Cluster()
    for _ in range(2):
        journal, _ = await opened(cluster)
        await journal.append([transaction(0), transaction(1)])
        await journal.append([transaction(2)])
    headers = [next(iter_headers(batch))[1] for batch in log_of(cluster).batches]
    assert [header.base_sequence for header in headers] == [0, 2, 0, 2]
    assert len({header.producer_id for header in headers}) == 2


async def test_records_of_a_newer_kind_are_skipped_and_damage_is_named():
    cluster = Cluster()
    log = log_of(cluster)
    newer = [
        Record(b"\x00\x63\x00\x01a", b"?", 1),
        Record(b"\x00\x00\x00\x01a", b"\x00\x09", 1),
    ]
    log.batches.append(bytes(encode_batch(newer)))
    log.end = 2
    journal, records = await opened(cluster)
    assert (records, journal.next_offset) == ([], 2)
    damaged = Record(b"\x00\x00\x00\x01a", b"\x00\x01\x00", 1)
    log.batches.append(bytes(encode_batch([damaged], base_offset=2)))
    log.end = 3
    with pytest.raises(ReplayFailed, match="offset 2"):
        await opened(cluster)
