"""Reads all that a storm has left, as a reader of committed records and from the files, and finds what is wrong."""

import re
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.integration.failover.storm.ledger import (
    ABORTED,
    COMMITTED,
    Attempt,
    Ledger,
    Place,
    parsed,
)

from oncelog.record.records import decode_batch

QUIET_TIMEOUT_S = 90.0
INTERNAL = {"__consumer_offsets", "__transaction_state"}
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12
_IS_CONTROL = 0x20
_MARK = re.compile(rb"<([a-z0-9.-]+)#")


class Reader:
    """What a read_committed consumer has seen so far, in the order of each partition."""

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.places = [Place(topic, number) for topic, n in topics.items() for number in range(n)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(*place, 0) for place in self.places])
        self.seen: dict[Place, list[tuple[int, bytes]]] = defaultdict(list)

    def ends(self, places: list[Place], isolation: IsolationLevel) -> dict[Place, int]:
        wanted = {TopicPartition(*place): OffsetSpec.latest() for place in places}
        deadline = time.monotonic() + QUIET_TIMEOUT_S
        while True:
            found = self._admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=10.0
            )
            try:
                return {
                    Place(one.topic, one.partition): f.result().offset for one, f in found.items()
                }
            except KafkaException:
                # The admin client does not ask again by itself when a leader changes.
                if time.monotonic() > deadline:
                    raise
                self._admin.list_topics(timeout=10.0)

    def held_back(self, places: list[Place]) -> dict[Place, tuple[int, int]]:
        """Where something is undecided: the last stable offset and the high watermark."""
        high = self.ends(places, IsolationLevel.READ_UNCOMMITTED)
        stable = self.ends(places, IsolationLevel.READ_COMMITTED)
        return {one: (stable[one], high[one]) for one in places if stable[one] < high[one]}

    def await_decided(self, places: list[Place]) -> dict[Place, tuple[int, int]]:
        deadline = time.monotonic() + QUIET_TIMEOUT_S
        while (held := self.held_back(places)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return held

    def read_on(self, timeout_s: float) -> None:
        """Until every partition has said that it ends here."""
        ends = self.ends(self.places, IsolationLevel.READ_COMMITTED)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for message in self._consumer.consume(1_000, timeout=0.2):
                place = Place(message.topic(), message.partition())
                if message.error() is None:
                    self.seen[place].append((message.offset(), message.value()))
            position = self._consumer.position([TopicPartition(*place) for place in self.places])
            if all(one.offset >= ends[Place(one.topic, one.partition)] for one in position):
                return

    def close(self) -> None:
        self._consumer.close()


def judge_writers(ledger: Ledger, seen: dict[Place, list[tuple[int, bytes]]]) -> list[str]:
    """Lost, doubled, visible although aborted, half a transaction, values of nobody, values out of order."""
    findings = []
    known = {one.value for one in ledger.attempts}
    for place, records in seen.items():
        newest: Counter[str] = Counter()
        for offset, value in records:
            if value not in known:
                findings.append(f"{place}: {value!r} at {offset} was written by nobody")
                continue
            worker, what = parsed(value)
            if int(what) < newest[worker]:
                findings.append(
                    f"{place}: {value!r} at {offset} stands behind number {newest[worker]}"
                )
            newest[worker] = max(newest[worker], int(what))
    counts = {place: Counter(value for _, value in records) for place, records in seen.items()}
    for one in ledger.attempts:
        findings += _fault_of(
            one, [counts.get(place, Counter())[one.value] for place in one.places]
        )
    return findings


def _fault_of(attempt: Attempt, counts: list[int]) -> list[str]:
    all_of_it, none_of_it = [1] * len(counts), [0] * len(counts)
    allowed = {COMMITTED: [all_of_it], ABORTED: [none_of_it]}.get(
        attempt.outcome, [all_of_it, none_of_it]
    )
    if counts in allowed:
        return []
    return [f"{attempt.outcome} {attempt} is seen {counts} times"]


def judge_transformers(
    group: str, inputs: set[str], outputs: list[bytes], *, is_final: bool
) -> list[str]:
    """Each input once in the output of each group."""
    counts = Counter(parsed(value)[1] for value in outputs)
    findings = [
        f"{group}: input {what} is {n} times in the output" for what, n in counts.items() if n > 1
    ]
    findings += [f"{group}: input {what} does not exist" for what in counts if what not in inputs]
    if is_final:
        findings += [f"{group}: input {what} has no output" for what in inputs - set(counts)]
    return findings


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_control: bool
    data: bytes


def batches(log: bytes) -> Iterator[Batch]:
    position = 0
    while position + _BATCH_HEADER.size <= len(log):
        header = _BATCH_HEADER.unpack_from(log, position)
        base, length, attributes, last_delta = header[0], header[1], header[5], header[6]
        end = position + _LENGTH_FROM + length
        if length <= 0 or end > len(log):
            return
        yield Batch(
            base,
            base + last_delta + 1,
            header[9],
            header[10],
            header[11],
            bool(attributes & _IS_CONTROL),
            log[position:end],
        )
        position = end


def judge_files(folders: list[Path], workers: set[str]) -> list[str]:
    """The data folders of stopped storage nodes: equal replicas, whole histories, a producer id for one producer."""
    findings = []
    owners: dict[int, set[str]] = defaultdict(set)
    names = sorted({one.name for folder in folders for one in folder.iterdir() if one.is_dir()})
    for name in names:
        if name.endswith("-delete"):
            continue
        logs = {
            folder.parent.name + "/" + folder.name: b"".join(
                file.read_bytes() for file in sorted((folder / name).glob("*.log"))
            )
            for folder in folders
            if (folder / name).is_dir()
        }
        if name.rpartition("-")[0] in INTERNAL:
            findings += [f"{name}: {one}" for one in _compacted_difference(logs)]
            continue
        if len(set(logs.values())) > 1:
            findings.append(f"replicas of {name} differ: {_difference(logs)}")
        history = _history(next(iter(logs.values())), owners, workers)
        findings += [f"{name}: {one}" for one in history]
    findings += [
        f"producer id {number} was given to {sorted(found)}"
        for number, found in owners.items()
        if len(found) > 1
    ]
    return findings


def _compacted_difference(logs: dict[str, bytes]) -> Iterator[str]:
    """Each replica cleans by itself: what two of them still have must be the same, so must the newest of each key."""
    known: dict[int, tuple[bytes | None, bytes | None]] = {}
    newest: dict[str, dict[bytes | None, bytes | None]] = {}
    for name, log in logs.items():
        latest = newest[name] = {}
        for batch in batches(log):
            for record in decode_batch(batch.data):
                if batch.is_control:
                    continue
                found = record.key, record.value
                if known.setdefault(record.offset, found) != found:
                    yield f"{name} has another record at {record.offset}"
                latest[record.key] = record.value
    # A deleted key may be gone from one replica and still be told of as deleted in another.
    views = [
        {key: value for key, value in latest.items() if value is not None}
        for latest in newest.values()
    ]
    if any(view != views[0] for view in views):
        yield f"replicas differ in the newest value of a key: {sorted(newest)}"


def _difference(logs: dict[str, bytes]) -> str:
    parts = []
    shortest = min(len(log) for log in logs.values())
    first, *others = logs.values()
    at = next((i for i in range(shortest) if any(log[i] != first[i] for log in others)), shortest)
    for name, log in logs.items():
        last = None
        size = 0
        for batch in batches(log):
            last = batch
            size += len(batch.data)
            if size > at:
                break
        parts.append(
            f"{name} has {len(log)} bytes, first difference at byte {at}, "
            f"batch there {None if last is None else last[:6]}"
        )
    return "; ".join(parts)


def _history(log: bytes, owners: dict[int, set[str]], workers: set[str]) -> Iterator[str]:
    expected_offset = None
    sequences: dict[tuple[int, int], int] = {}
    for batch in batches(log):
        if expected_offset is not None and batch.base_offset != expected_offset:
            yield f"offset {batch.base_offset} follows {expected_offset - 1}"
        expected_offset = batch.next_offset
        if batch.producer_id < 0 or batch.is_control:
            continue
        # Other bytes may look like a mark.
        owners[batch.producer_id] |= {one.decode() for one in _MARK.findall(batch.data)} & workers
        if batch.base_sequence < 0:
            continue
        key = batch.producer_id, batch.producer_epoch
        expected = sequences.get(key, batch.base_sequence)
        if batch.base_sequence != expected:
            yield f"sequence {batch.base_sequence} of producer {key} at {batch.base_offset}, not {expected}"
        sequences[key] = batch.base_sequence + batch.next_offset - batch.base_offset
