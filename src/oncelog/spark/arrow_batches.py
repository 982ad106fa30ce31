"""The source's columns as Arrow batches.

Spark compares the first batch with the schema exactly: microseconds in UTC, 32-bit offsets, a list's field `element`.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from oncelog.client.core.decode import Columns
from oncelog.ids import Partition

_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
_FIELDS: Final = (
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
)
_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000


def arrow_schema(include_headers: bool, include_outcome: bool) -> pa.Schema:
    headers = (("headers", _HEADERS),) if include_headers else ()
    return pa.schema(
        (*_FIELDS, *headers, *((("outcome", pa.string()),) if include_outcome else ()))
    )


def record_batch(partition: Partition, columns: Columns, include_headers: bool) -> pa.RecordBatch:
    """Return one Arrow batch with these records of a partition. A timestamp beyond what microseconds can express
    becomes the last possible one."""
    count = len(columns)
    milliseconds = np.clip(columns.timestamps_ms, -_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX)
    arrays = [
        columns.keys,
        columns.values,
        pa.repeat(pa.scalar(partition.topic, pa.string()), count),
        pa.array(np.full(count, partition.partition, dtype=np.int32)),
        pa.array(columns.offsets),
        pa.array(milliseconds * 1000).cast(pa.timestamp("us", tz="UTC")),
        pa.array(columns.timestamp_types),
    ]
    if include_headers:
        assert columns.headers is not None
        arrays.append(columns.headers.cast(_HEADERS))
    if columns.outcome is not None:
        arrays.append(pa.repeat(pa.scalar(columns.outcome, pa.string()), count))
    schema = arrow_schema(include_headers, columns.outcome is not None)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
