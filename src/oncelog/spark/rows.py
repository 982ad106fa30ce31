"""The way from Spark's Arrow batches to the rows of each topic-partition, for the sink."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oncelog.client.core.encode import Row
from oncelog.client.core.partitioner import partitions_of_keys
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.spark.options import Partitioner
from oncelog.wording import counted

STICKY_ROWS: Final = 2_000
"""The rows without a key that go to one partition before the next: fewer, larger batches."""

_NO_HEADERS: Final[list[tuple[str, bytes | None]]] = []
"""The one list for all rows without headers; nobody writes to it."""
_MICROS: Final = 1000

_Int32s = npt.NDArray[np.int32]


class _Header(TypedDict):
    """A record header in a Spark row: a key and a value."""

    key: str | None
    value: bytes | None


class RowRouter:
    """Chooses topic and partition of each row. Rows without a key go to the partitions in turn; it remembers whose turn
    it is."""

    def __init__(
        self, topic: str | None, partitioner: Partitioner, counts: Mapping[str, int], seed: int
    ) -> None:
        self._topic = topic
        self._partitioner = partitioner
        self._counts = dict(counts)
        self._turn = seed * STICKY_ROWS
        """A count of rows, from which the partition of the next row in turn follows. Each task begins it at another
        number, so that many small tasks do not all fill the first partition."""

    def missing_topics(self, batch: pa.RecordBatch) -> list[str]:
        """Return the topics of the batch whose partition count is not known yet.
        Raises OncelogError for a null topic."""
        if self._topic is not None:
            names = [self._topic]
        else:
            names = pc.unique(batch.column("topic")).to_pylist()
        if None in names:
            raise OncelogError(
                "a row's topic is null: fill the column topic, or name one topic with the option topic"
            )
        return [name for name in names if name not in self._counts]

    def learn(self, counts: Mapping[str, int]) -> None:
        self._counts.update(counts)

    def routed(self, batch: pa.RecordBatch) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield parts of the batch, one for each topic and partition, with rows in order. `missing_topics` must be
        empty."""
        for topic, of_topic in self._by_topic(batch):
            count = self._counts[topic]
            numbers = self._partition_numbers(topic, count, of_topic)
            if count == 1:
                yield Partition(topic, 0), of_topic
                continue
            order = np.argsort(numbers, kind="stable")
            bounds = np.searchsorted(numbers[order], np.arange(count + 1))
            sorted_batch = of_topic.take(pa.array(order))
            for number in np.flatnonzero(np.diff(bounds)).tolist():
                low, high = int(bounds[number]), int(bounds[number + 1])
                yield Partition(topic, number), sorted_batch.slice(low, high - low)

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._topic is not None:
            yield self._topic, batch
            return
        column = batch.column("topic")
        names = pc.unique(column).to_pylist()
        if len(names) == 1:
            yield names[0], batch
            return
        for name in names:
            yield name, batch.filter(pc.equal(column, name))

    def _partition_numbers(self, topic: str, count: int, batch: pa.RecordBatch) -> _Int32s:
        numbers = self._computed(count, batch)
        if "partition" not in batch.schema.names:
            return numbers
        given = batch.column("partition")
        chosen = pc.fill_null(given, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        wrong = np.flatnonzero((chosen >= count) | ((chosen < 0) & ~_is_null(given)))
        if len(wrong):
            raise OncelogError(
                f"column partition holds {int(chosen[wrong[0]])}, but topic {topic!r} has "
                f"{counted(count, 'partition')}: "
                f"give 0 to {count - 1}, or null to let the key decide"
            )
        return np.where(chosen >= 0, chosen, numbers).astype(np.int32)

    def _computed(self, count: int, batch: pa.RecordBatch) -> _Int32s:
        rows = batch.num_rows
        if self._partitioner is Partitioner.ROUND_ROBIN or "key" not in batch.schema.names:
            return self._in_turn(rows, count)
        keys = as_binary(batch.column("key"))
        numbers = partitions_of_keys(keys, count)
        is_null = _is_null(keys)
        if is_null.any():
            numbers[is_null] = self._in_turn(int(is_null.sum()), count)
        return numbers

    def _in_turn(self, rows: int, count: int) -> _Int32s:
        turns = (self._turn + np.arange(rows)) // STICKY_ROWS
        self._turn += rows
        return (turns % count).astype(np.int32)


def records_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the batch's rows as (timestamp in ms, key, value, headers); a row without a time gets the present one."""
    names = batch.schema.names
    rows = batch.num_rows
    values = as_binary(batch.column("value")).to_pylist()
    keys = as_binary(batch.column("key")).to_pylist() if "key" in names else [None] * rows
    headers: Sequence[list[tuple[str, bytes | None]]] = [_NO_HEADERS] * rows
    if "headers" in names:
        headers = [_headers(items) for items in batch.column("headers").to_pylist()]
    return zip(_timestamps(batch), keys, values, headers, strict=True)


def as_binary(column: pa.Array) -> pa.BinaryArray:
    """Return the column as Arrow type binary, which has 32-bit offsets; it may be string, binary, or one of their large
    forms."""
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _timestamps(batch: pa.RecordBatch) -> list[int]:
    now = int(time.time() * 1000)
    if "timestamp" not in batch.schema.names:
        return [now] * batch.num_rows
    micros = batch.column("timestamp").cast(pa.int64())
    floored = pc.fill_null(micros, now * _MICROS).to_numpy(zero_copy_only=False) // _MICROS
    if len(floored) and floored.min() < 0:
        raise OncelogError(
            f"a row's timestamp is {floored.min()} ms, before 1970, which Kafka's records cannot carry: "
            "filter such rows, or write without the timestamp column"
        )
    return [int(value) for value in floored.tolist()]


def _headers(items: list[_Header | None] | None) -> list[tuple[str, bytes | None]]:
    if not items:
        return _NO_HEADERS
    headers = []
    for item in items:
        if item is None or item["key"] is None:
            raise OncelogError("a header has no key: headers are pairs of a key and a value")
        headers.append((item["key"], item["value"]))
    return headers


def _is_null(column: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls
