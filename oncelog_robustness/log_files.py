"""Reads the logs of replicas, and the transaction states in `__transaction_state`, from the files of a storage
node. It changes no file.

The node may be writing: a batch that is not whole at a log's end is left out. A damaged batch further in is
returned with the checksum of its bytes as they stand, to be compared with other replicas.
"""

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.ids import TRANSACTION_STATE_TOPIC, Partition
from oncelog.record.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from oncelog.record.bulk import uncompressed
from oncelog.record.control import decode_marker
from oncelog.record.records import decode_batch
from oncelog_coordinator.core.txn_records import TXN_RECORD_TYPE, decode_record, record_type
from oncelog_coordinator.core.txn_state import TxnTombstone
from oncelog_robustness.observations import BatchSeen, ReplicaLog, StateRecorded
from oncelog_storage.core.checkpoint_files import decode_checkpoint
from oncelog_storage.core.segment_files import PARTITION_METADATA
from oncelog_storage.log_directory import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
)

_SEGMENT: Final = re.compile(r"\d{20}\.log(\.swap)?")
"""The name of a segment's file.
With `.swap` the segment is cleaned, and the next start puts it in place of its originals."""
_LEADER_EPOCH: Final = slice(12, 16)


class LiveReplica(NamedTuple):
    """The offsets of a replica and whether it is compacted, as a running node knows them: its files lag behind."""

    start_offset: int
    high_watermark: int
    is_compacted: bool


def partition_folders(data_dir: Path) -> list[tuple[Partition, Path]]:
    """Return every partition in this data folder with the path of its log, sorted by folder name. Folders of
    deleted partitions, and others that are named otherwise, are left out."""
    found = []
    for name in sorted(os.listdir(data_dir)):
        topic, dash, number = name.rpartition("-")
        path = data_dir / name
        if dash and topic and number.isdigit() and os.path.isdir(path):
            found.append((Partition(topic, int(number)), path))
    return found


def read_checkpoint(data_dir: Path, name: str) -> dict[Partition, int]:
    """Return the offset of each partition from a checkpoint file of the data folder.

    The result is empty if there is no such file, or if the checkpoint of high watermarks is torn: it is written
    without a sync. Raises ValueError for any other damaged file.
    """
    try:
        return decode_checkpoint(_read(data_dir / name).decode())
    except FileNotFoundError:
        return {}
    except ValueError:
        if name != HIGH_WATERMARKS:
            raise
        return {}


def read_logs(
    data_dir: Path,
    node_id: int,
    at_ms: int,
    live: Mapping[Partition, LiveReplica] | None = None,
) -> list[ReplicaLog]:
    """Return the log of every replica in this data folder.

    `live` has the partitions that a running node knows. For any other partition the checkpoints of a node that has
    stopped in order tell its log start and high watermark. A partition that is missing in these has one replica,
    and all of its log is committed.
    """
    starts = read_checkpoint(data_dir, LOG_STARTS)
    cleaned = read_checkpoint(data_dir, CLEANER_OFFSETS)
    committed = read_checkpoint(data_dir, HIGH_WATERMARKS)
    logs = []
    for partition, folder in partition_folders(data_dir):
        try:
            batches, topic_id, first = (
                read_batches(folder),
                _topic_id(folder),
                _first_segment(folder),
            )
        except FileNotFoundError:
            # Its topic was deleted while it was read.
            continue
        known = (live or {}).get(partition)
        if known is None:
            start_offset = max(starts.get(partition, 0), first)
            end_offset = max(start_offset, batches[-1].last_offset + 1 if batches else 0)
            high_watermark = min(committed.get(partition, end_offset), end_offset)
            known = LiveReplica(start_offset, high_watermark, partition in cleaned)
        logs.append(
            ReplicaLog(
                node_id=node_id,
                topic=partition.topic,
                partition=partition.partition,
                start_offset=known.start_offset,
                high_watermark=known.high_watermark,
                batches=tuple(one for one in batches if one.last_offset >= known.start_offset),
                is_compacted=known.is_compacted,
                topic_id=topic_id,
                at_ms=at_ms,
            )
        )
    return logs


def read_batches(folder: Path) -> list[BatchSeen]:
    """Return all batches of one replica, up to the last one whose CRC is right."""
    found: list[BatchSeen] = []
    for name in _segments(folder):
        try:
            data = _read(folder / name)
        except FileNotFoundError:
            # Retention or compaction removed the segment meanwhile.
            continue
        found += (_seen(header, data[at : at + header.size_bytes]) for at, header in _headers(data))
    while found and not found[-1].is_sound:
        found.pop()
    return found


def batches_of(folder: Path) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the header and the bytes of each batch, as the files hold them."""
    for name in _segments(folder):
        data = _read(folder / name)
        for at, header in _headers(data):
            yield header, data[at : at + header.size_bytes]


def read_states(folder: Path, shard: int, high_watermark: int) -> Iterator[StateRecorded]:
    """Yield each state of a transactional id that a shard (a partition of `__transaction_state`) recorded below the
    high watermark.

    They come in the order of the log. A tombstone has the state `Dead`.
    """
    for header, data in batches_of(folder):
        if header.is_control or header.next_offset > high_watermark:
            continue
        if not crc_is_valid(data, header):
            # The checker that compares replicas reports it.
            continue
        for record in decode_batch(uncompressed(data)):
            key = record.key or b""
            if record_type(key) != TXN_RECORD_TYPE:
                continue
            txn = decode_record(key, record.value)
            if txn is None:
                continue
            if isinstance(txn, TxnTombstone):
                yield StateRecorded(shard, record.offset, txn.transactional_id, -1, -1, "Dead", ())
                continue
            yield StateRecorded(
                shard=shard,
                offset=record.offset,
                transactional_id=txn.transactional_id,
                producer_id=txn.producer_id,
                producer_epoch=txn.producer_epoch,
                state=txn.state.kafka_name,
                partitions=tuple((topic, number) for topic, number in txn.partitions),
                next_owner=(txn.next_producer_id, txn.next_producer_epoch) if txn.is_kept else None,
            )


def read_all_states(replicas: Iterable[tuple[Path, ReplicaLog]]) -> list[StateRecorded]:
    """Return the states of transactional ids that all partitions of `__transaction_state` recorded.

    `replicas` are logs, each with its node's data folder. Each partition is read once, from the replica with the
    highest high watermark.
    """
    best: dict[int, tuple[Path, ReplicaLog]] = {}
    for data_dir, log in replicas:
        if log.topic != TRANSACTION_STATE_TOPIC or not log.batches:
            continue
        known = best.get(log.partition)
        if known is None or log.high_watermark > known[1].high_watermark:
            best[log.partition] = (data_dir, log)
    states: list[StateRecorded] = []
    for shard in sorted(best):
        data_dir, log = best[shard]
        folder = data_dir / f"{log.topic}-{log.partition}"
        states += read_states(folder, shard, log.high_watermark)
    return states


def _segments(folder: Path) -> list[str]:
    """Return the names of the segment files, in order, that count. A cleaned segment (`.log.swap`) replaces every
    segment that it covers, as it does when the node starts."""
    names = {name for name in os.listdir(folder) if _SEGMENT.fullmatch(name)}
    segments: list[str] = []
    covered = 0
    for name in sorted(name for name in names if f"{name}.swap" not in names):
        if int(name.partition(".")[0]) < covered:
            continue
        segments.append(name)
        if name.endswith(".swap"):
            try:
                headers = _headers(_read(folder / name))
            except FileNotFoundError:
                # The segment has been renamed to its own name by now.
                return _segments(folder)
            covered = max((one.next_offset for _, one in headers), default=0)
    return segments


def _first_segment(folder: Path) -> int:
    return min((int(name.partition(".")[0]) for name in _segments(folder)), default=0)


def _topic_id(folder: Path) -> str:
    try:
        text = _read(folder / PARTITION_METADATA).decode(errors="replace")
    except FileNotFoundError:
        return ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            return value.strip()
    return ""


def _headers(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = read_header(data, at)
        is_framed = header.magic == MAGIC and header.size_bytes >= HEADER_BYTES
        if not is_framed or at + header.size_bytes > len(data):
            return
        yield at, header
        at += header.size_bytes


def _seen(header: BatchHeader, whole: bytes) -> BatchSeen:
    is_sound = crc_is_valid(whole, header)
    marker, coordinator_epoch = "", -1
    if header.is_control and is_sound:
        marker, coordinator_epoch = _marker(whole)
    checksum = zlib.crc32(whole[_LEADER_EPOCH.stop :], zlib.crc32(whole[: _LEADER_EPOCH.start]))
    return BatchSeen(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        marker=marker,
        coordinator_epoch=coordinator_epoch,
        checksum=checksum,
        is_sound=is_sound,
    )


def _marker(whole: bytes) -> tuple[str, int]:
    marker = decode_marker(whole)
    if marker is None:
        return "", -1
    return ("commit" if marker.is_commit else "abort"), marker.coordinator_epoch


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read()
