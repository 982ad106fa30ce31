"""A partition's log without its node: for tests of files, recovery and retention."""

import shutil

from tests.integration.storage.storage_node import NOW, batch, txn_batch

from oncelog.ids import Partition
from oncelog.record.batch import read_single_batch
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.topic_config import TopicConfig
from oncelog_storage import log_checkpoint, log_recovery
from oncelog_storage.core.partition_values import MarkerToWrite
from oncelog_storage.core.producer_snapshot import encode_snapshot
from oncelog_storage.files import OpenFiles
from oncelog_storage.log import PartitionLog

PARTITION = Partition("orders", 0)
LOG = "00000000000000000000.log"


def new_log(directory, **config):
    return PartitionLog(directory, PARTITION, b"i" * 16, TopicConfig(**config), OpenFiles(16))


def filled(directory, count, *, records=None, **config):
    """A new log of so many batches of one record."""
    log = new_log(directory, **config)
    for _ in range(count):
        append(log, records or batch())
    return log


def opened(directory, recovery_point=0, log_start_offset=0, *, lost_power=False, **config):
    log = new_log(directory, **config)
    log_recovery.recover(log, recovery_point, log_start_offset, NOW, may_have_lost_power=lost_power)
    return log


def append(log, records, leader_epoch=0, now=NOW):
    return log.append(records, read_single_batch(records, 1 << 24), leader_epoch, now)


def mark(log, *ends, leader_epoch=0, now=NOW):
    """Each end is (producer id, producer epoch, commit)."""
    markers = [
        MarkerToWrite(
            producer_id,
            producer_epoch,
            0,
            commit,
            encode_marker(
                Marker(MarkerType.COMMIT if commit else MarkerType.ABORT, 0),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                timestamp=now,
            ),
        )
        for producer_id, producer_epoch, commit in ends
    ]
    offset = log.append_markers(markers, leader_epoch, now)
    log.producers.high_watermark_moved(log.log_end_offset)
    return offset


def checkpoint(log):
    """What the node's maintenance does; returns the new recovery point."""
    taken = log_checkpoint.prepare(log)
    log_checkpoint.write(taken, log_checkpoint.sync_logs)
    log_checkpoint.finish(log, taken)
    log_checkpoint.remove_old_snapshots(taken, 0)
    return taken.offset


def write_rounds(log, producers=3, rounds=4):
    """Transactions of several producers, interleaved; some commit, some abort, the last ones stay open."""
    sequences = dict.fromkeys(range(producers), 0)
    for step in range(rounds):
        for producer_id in range(producers):
            append(
                log,
                txn_batch(producer_id, sequences[producer_id], 1 + step % 3, timestamp=NOW + step),
            )
            sequences[producer_id] += 1 + step % 3
        if step < rounds - 1:
            for producer_id in range(producers - 1):
                mark(log, (producer_id, 0, (step + producer_id) % 2 == 0))


def everything(log):
    """All a log answers: its bytes, its ends, its aborted transactions, its producers."""
    parts, offset = [], log.log_start_offset
    while True:
        records, next_offset = log.read(offset, log.log_end_offset, 1 << 20)
        if not records:
            break
        parts.append(records)
        offset = next_offset
    return (
        b"".join(parts),
        log.log_end_offset,
        log.aborted_transactions(log.log_start_offset, max(log.log_end_offset, 1)),
        sorted(encode_snapshot([entry]) for entry in log.producers.entries()),
        log.producers.first_unstable_offset(),
        log.leader_epochs.entries(),
    )


def copied(source, target):
    shutil.copytree(source, target)
    return target


def flip(path, position, mask=0x40):
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)
