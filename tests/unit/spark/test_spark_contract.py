"""What the connector and others must agree on: enum numbers, Arrow types, what is light to import."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from oncelog.client.core.decode import HEADERS_TYPE, Columns
from oncelog.ids import Partition
from oncelog.sink_answer import SinkAnswer
from oncelog.spark.arrow_batches import arrow_schema, record_batch
from oncelog.spark.columns import source_ddl
from oncelog.spark.options import parse_source_options
from oncelog.spark.pruning import OFFSET_END, Pruning

pytest.importorskip("pyspark")


def test_answers_have_the_numbers_of_the_contract():
    from oncelog.api.v1 import coordinator_pb2

    contract = coordinator_pb2.SinkAnswer.items()
    assert {f"SINK_{answer.name}": answer.value for answer in SinkAnswer} == dict(contract)


def options_with(include_headers, include_outcome):
    flags = {"includeHeaders": include_headers, "includeOutcome": include_outcome}
    given = {name: str(flag) for name, flag in flags.items()}
    level = {"isolation.level": "read_uncommitted"}
    return parse_source_options({"bootstrap.servers": "h:1", "subscribe": "t"} | level | given)


@pytest.mark.parametrize("include_headers", [False, True])
@pytest.mark.parametrize("include_outcome", [False, True])
def test_arrow_schema_is_the_one_spark_derives_from_ours(include_headers, include_outcome):
    from pyspark.sql import types
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = {
        "BINARY": types.BinaryType(),
        "STRING": types.StringType(),
        "INT": types.IntegerType(),
        "BIGINT": types.LongType(),
        "TIMESTAMP": types.TimestampType(),
        "ARRAY<STRUCT<key: STRING, value: BINARY>>": types.ArrayType(
            types.StructType().add("key", "string").add("value", "binary")
        ),
    }
    schema = types.StructType()
    for column in re.split(
        r", (?![^<]*>)", source_ddl(options_with(include_headers, include_outcome))
    ):
        name, kind = column.split(" ", 1)
        schema.add(name, kinds[kind])
    ours = arrow_schema(include_headers, include_outcome)
    assert ours.equals(to_arrow_schema(schema, timezone="UTC"))


def test_rows_become_one_arrow_batch():
    columns = Columns(
        keys=pa.array([b"k", None]),
        values=pa.array([b"v", b"w"]),
        offsets=np.array([5, 9]),
        timestamps_ms=np.array([1_700_000_000_000, 2**62]),
        timestamp_types=np.array([0, 1], dtype=np.int32),
        headers=pa.array([[{"key": "h", "value": b"x"}], None], HEADERS_TYPE),
    )
    batch = record_batch(Partition("orders", 3), columns, True)
    first = batch.slice(0, 1).to_pylist()[0]
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": "orders",
        "partition": 3,
        "offset": 5,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
    }
    assert batch.schema.equals(arrow_schema(True, False))
    with_outcome = record_batch(Partition("orders", 3), replace(columns, outcome="aborted"), True)
    assert with_outcome.schema.equals(arrow_schema(True, True))
    assert with_outcome.column("outcome").to_pylist() == ["aborted", "aborted"]


def test_registration_is_light():
    """Spark imports every `pyspark_*` module in the process that looks data sources up."""
    code = (
        "import pyspark.sql.datasource, pyspark.sql.streaming.datasource, sys; before = set(sys.modules);"
        "import pyspark_oncelog; loaded = set(sys.modules) - before;"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'kio', 'aiokafka', 'google.protobuf'} & loaded;"
        "assert not heavy, heavy; assert pyspark_oncelog.DefaultSource.name() == 'oncelog'"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_pruning_only_narrows():
    pruning = Pruning()
    for column, operator, value in [
        ("topic", "in", ["a", "b"]),
        ("topic", "==", "a"),
        ("partition", "in", [1, 2]),
        ("partition", "==", 2),
        ("offset", ">", 9),
        ("offset", ">=", 5),
        ("offset", "<", 100),
        ("offset", "<=", 50),
        ("timestamp", ">=", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", "<", datetime(2025, 1, 1, tzinfo=UTC)),
        ("value", "==", b"x"),
        ("partition", ">", 0),
    ]:
        pruning = pruning.narrowed(column, operator, value)
    assert pruning.keeps(Partition("a", 2))
    assert not pruning.keeps(Partition("b", 2))
    assert not pruning.keeps(Partition("a", 1))
    assert (pruning.offset_min, pruning.offset_end) == (10, 51)
    assert pruning.timestamp_ms == 1_704_067_200_000


def test_pruning_without_filters_keeps_everything():
    assert Pruning().keeps(Partition("a", 0))
    assert Pruning().offset_end == OFFSET_END
