"""Damage to every kind of file of a partition: a table of cases, each drawn from its own seed.

One topic a case. All topics have the same records, so one start of a node judges hundreds of cases. A topic that was
left alone says what each must show.
"""

import os
import random
import shutil
from typing import NamedTuple

from tests.integration.storage.storage_node import NOW, Calls, batch, txn_batch

from oncelog.api.v1 import controller_pb2
from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.errors import ErrorCode
from oncelog.record.batch import iter_headers
from oncelog.record.records import decode_batch
from oncelog_storage.core.segment_files import (
    DERIVED_FILES,
    GAPS_FILE,
    INDEX_SUFFIXES,
    OLD_CHECKS_FILE,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
)

CONTROL = "control"
DONOR = "donor"
IS_WHOLE = bool(os.environ.get("ONCELOG_TEST_ALL_DAMAGE"))
ROUNDS = 6
TIMESTAMPS = [NOW + 1000 * step for step in range(2 * ROUNDS + 1)]


class Case(NamedTuple):
    state: str
    """How the node ended before: stopped, killed before its first checkpoint, killed after one."""
    kind: str
    how: str
    number: int

    @property
    def name(self):
        """Of its topic."""
        return f"{self.kind}.{self.how}.{self.number}"


HEADER_FIELDS = {
    "base offset": range(8),
    "length": range(8, 12),
    "leader epoch": range(12, 16),
    "magic": range(16, 17),
    "crc": range(17, 21),
    "attributes": range(21, 23),
    "content": range(23, 75),
}
LOG_KINDS = ("log-first", "log-middle", "log-newest")
INDEX_KINDS = tuple(
    f"{suffix.removeprefix('.')}-{place}"
    for suffix in INDEX_SUFFIXES
    for place in ("first", "middle", "newest")
)
SNAPSHOT_KINDS = ("snapshot-newest", "snapshot-all")
NOT_HERE = (OLD_CHECKS_FILE, GAPS_FILE)
"""No folder of these cases has them: an older version writes the one, a follower the other."""
NAMED_KINDS = tuple(
    name
    for name in (*DERIVED_FILES, PARTITION_METADATA)
    if name not in (*INDEX_SUFFIXES, SNAPSHOT_SUFFIX, *NOT_HERE)
)
STATES = ("stopped", "killed-early", "killed-late")


def cases(state):
    """Every kind of file: bits, cuts, removals."""
    found = []
    for kind in LOG_KINDS:
        for field in HEADER_FIELDS:
            found += [Case(state, kind, f"flip-{field.replace(' ', '-')}", n) for n in range(2)]
        if kind != "log-newest" or state == "stopped":
            found += [Case(state, kind, "cut", n) for n in range(3)]
            found.append(Case(state, kind, "emptied", 0))
        found.append(Case(state, kind, "removed", 0))
    for kind in (*INDEX_KINDS, *SNAPSHOT_KINDS, *NAMED_KINDS):
        found += [Case(state, kind, "flip", n) for n in range(3)]
        found += [Case(state, kind, "cut", n) for n in range(2)]
        found += [Case(state, kind, how, 0) for how in ("emptied", "removed")]
    found.append(Case(state, "folder", "removed", 0))
    return found


def targets(folder, kind):
    if kind == "folder":
        return [folder]
    if kind in SNAPSHOT_KINDS:
        found = sorted(folder.glob(f"*{SNAPSHOT_SUFFIX}"))
        return found if kind == "snapshot-all" else found[-1:]
    if kind in NAMED_KINDS:
        return [folder / kind] if (folder / kind).exists() else []
    suffix, _, place = kind.partition("-")
    found = sorted(folder.glob(f"*.{suffix}"))
    if not found:
        return []
    return [found[{"first": 0, "middle": len(found) // 2, "newest": -1}[place]]]


def damage(folder, case):
    """Returns whether there was something to damage."""
    draw = random.Random("/".join(map(str, case)))
    found = [path for path in targets(folder, case.kind) if path.is_dir() or path.stat().st_size]
    if case.how == "removed":
        found = targets(folder, case.kind)
    for path in found:
        if case.how == "removed":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            continue
        data = bytearray(path.read_bytes())
        if case.how == "cut":
            del data[draw.randrange(1, len(data)) :]
        elif case.how == "emptied":
            data.clear()
        else:
            place = draw.randrange(len(data))
            field = HEADER_FIELDS.get(case.how.removeprefix("flip-").replace("-", " "))
            if field is not None:
                place = draw.choice([at for at, _ in iter_headers(data)]) + draw.choice(field)
            data[place] ^= 1 << draw.randrange(8)
        _overwrite(path, data)
    return bool(found)


def _overwrite(path, data):
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, data)
    os.close(descriptor)


# The records.


async def produce(storage, topic, records, **fields):
    """The error code."""
    answer = await Calls(storage).produce(topic, records, mode=0, timeout_ms=10_000, **fields)
    return answer.error_code


async def write_rounds(storage, topics, first):
    """Plain records, and two producers: what one writes is aborted, what the other writes is committed. Those of DONOR
    are as long as the others', and none of them is one of the others'."""
    for step in range(first, first + ROUNDS):
        now = NOW + 1000 * step
        for topic in topics:
            value, aborted = f"{step}".encode() * 100, b"aborted" * 20
            if topic == DONOR:
                value, aborted = value.swapcase()[:-1] + b"d", b"donated" * 20
            codes = [
                await produce(storage, topic, batch(2, timestamp=now, value=value)),
                await produce(
                    storage,
                    topic,
                    txn_batch(7, 2 * step, 2, timestamp=now, value=aborted),
                    transactional_id="a",
                ),
                await produce(
                    storage,
                    topic,
                    txn_batch(8, step, 1, timestamp=now, value=value),
                    transactional_id="b",
                ),
            ]
            assert codes == [0, 0, 0], (topic, codes)
            assert await Calls(storage).mark(topic, (7, 0, False), (8, 0, True)) == [0, 0]


# What is shown.


class Shown(NamedTuple):
    """What a consumer gets, up to an error or to the end; and what a search by time finds."""

    error_code: int
    rows: list
    end: int
    found: list

    def is_beginning_of(self, whole):
        return self.rows == whole.rows[: len(self.rows)]


async def show(storage, topic, *, committed):
    calls = Calls(storage)
    rows, offset = [], 0
    while True:
        part = await calls.fetch(topic, offset, committed=committed)
        if part.error_code or not part.records:
            break
        aborted = [
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in part.aborted_transactions
        ]
        for position, header, is_visible in sight_batches(part.records, aborted):
            if not header.is_control and (is_visible or not committed):
                seen = [
                    (r.offset, r.timestamp, r.value) for r in decode_batch(part.records, position)
                ]
                rows += [row for row in seen if row[0] >= offset]
            offset = header.next_offset
    if not part.error_code:
        assert offset == part.last_stable_offset if committed else part.high_watermark
    found = [await calls.list_offset(topic, timestamp) for timestamp in (*TIMESTAMPS, -1, -2)]
    return Shown(part.error_code, rows, offset, [(each.error_code, each.offset) for each in found])


async def shown(storage, topic):
    """To a consumer of each isolation level."""
    return [await show(storage, topic, committed=committed) for committed in (True, False)]


def fault(shown, expected):
    """What is wrong with it; "" for right, and for offline."""
    if any(code not in (0, ErrorCode.KAFKA_STORAGE_ERROR) for code, _ in shown.found):
        return f"odd errors: {shown.found}"
    if shown.error_code not in (0, ErrorCode.KAFKA_STORAGE_ERROR):
        return f"odd error {shown.error_code}"
    if not shown.is_beginning_of(expected):
        return "shows other records"
    if not shown.error_code and shown.rows != expected.rows:
        return f"short: {len(shown.rows)} of {len(expected.rows)} rows, end {shown.end}"
    wrong = [
        (one, other)
        for one, other in zip(shown.found, expected.found, strict=True)
        if not one[0] and one != other
    ]
    return f"finds other offsets: {wrong}" if wrong else ""


def new_topics(names):
    return [
        controller_pb2.NewTopic(
            name=name, partitions=1, replication_factor=1, configs={"segment.bytes": "2048"}
        )
        for name in names
    ]
