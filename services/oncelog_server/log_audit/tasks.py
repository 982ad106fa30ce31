"""The functions that Spark runs in its tasks, over Arrow batches of rows: they read stretches of logs, and walk through
sorted batches. At most some thousand rows are in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Final, TypeVar

import pyarrow as pa

from oncelog.spark.message_first import rows_message_first
from oncelog.spark.options import SourceOptions
from oncelog_server.log_audit.core.log_walk import LogWalk
from oncelog_server.log_audit.core.producer_walk import ProducerWalk
from oncelog_server.log_audit.core.rows import BatchRow, Event, LogFacts
from oncelog_server.log_audit.fetching import rows_of_range
from oncelog_server.log_audit.reading import Stretch, rows_of_file
from oncelog_server.log_audit.states import StateRow, states_of_file

ROWS_OF_AN_ARROW_BATCH: Final = 8192
FACTS_COLUMNS: Final = ("is_whole", "first_leader_epoch", "damaged")
_ARROW: Final[Mapping[object, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    list[str]: pa.list_(pa.string()),
}
RowT = TypeVar("RowT", BatchRow, Event, StateRow, Stretch)


@rows_message_first
def read_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the segment files that the rows name (`Stretch`), and yield a `BatchRow` for each batch in them."""
    for stretch in _rows(batches, Stretch):
        yield from _arrow(rows_of_file(stretch), BatchRow)


@rows_message_first
def read_ranges(
    options: SourceOptions, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Fetch the ranges of offsets that the rows name (`Stretch`) from a running cluster, and yield a `BatchRow` for
    each batch.
    """
    for stretch in _rows(batches, Stretch):
        yield from _arrow(rows_of_range(options, stretch), BatchRow)


@rows_message_first
def read_states(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the segment files of `__transaction_state` that the rows name, and yield a `StateRow` for each record about
    a transaction.
    """
    for stretch in _rows(batches, Stretch):
        yield from _arrow(states_of_file(stretch), StateRow)


def walk_logs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take batches sorted by replica, partition and place in the log, and yield what `LogWalk` finds in each log:
    holes, damage, transactions.
    """

    def events() -> Iterator[Event]:
        for _, rows in groupby(_rows(batches, BatchRow), _log_of):
            walk: LogWalk | None = None
            for row in rows:
                walk = walk or LogWalk(row)
                yield from walk.add(row)
            assert walk is not None
            yield from walk.end()

    yield from _arrow(events(), Event)


def walk_producers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take undamaged batches sorted by log, producer and place in the log, and yield what `ProducerWalk` finds: gaps
    and repeats of sequences. Each row also has the `LogFacts` of its log.
    """

    def events() -> Iterator[Event]:
        for _, pairs in groupby(_rows_and_facts(batches), _producer_of):
            walk: ProducerWalk | None = None
            for row, facts in pairs:
                walk = walk or ProducerWalk(facts)
                yield from walk.add(row)

    yield from _arrow(events(), Event)


def _log_of(row: BatchRow) -> tuple[str, str, int]:
    return row.replica, row.topic, row.partition


def _producer_of(pair: tuple[BatchRow, LogFacts]) -> tuple[str, str, int, int]:
    row = pair[0]
    return row.replica, row.topic, row.partition, row.producer_id


def _rows_and_facts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[BatchRow, LogFacts]]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in FACTS_COLUMNS)
        for row, whole, leader_epoch, damaged in zip(
            _rows([batch], BatchRow), *columns, strict=True
        ):
            yield row, LogFacts(whole, leader_epoch, tuple(damaged or ()))


def _rows(batches: Iterable[pa.RecordBatch], kind: type[RowT]) -> Iterator[RowT]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in kind._fields]
        yield from map(kind._make, zip(*columns, strict=True))


def _arrow(rows: Iterator[RowT], kind: type[RowT]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([(name, _ARROW[given]) for name, given in kind.__annotations__.items()])
    while some := list(islice(rows, ROWS_OF_AN_ARROW_BATCH)):
        columns = zip(*some, strict=True)
        arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
