"""The columns of the source and of the sink, as Spark names them.

The source's are those of Spark's Kafka source, so that a query can change its format and nothing else.
"""

from collections.abc import Mapping
from typing import Final

from oncelog.errors import OncelogError
from oncelog.spark.options import SourceOptions

_SOURCE: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
_HEADERS: Final = {"headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>"}
_OUTCOME: Final = {"outcome": "STRING"}


def source_columns(options: SourceOptions) -> dict[str, str]:
    """Return the source's columns with their Spark types; `headers` and `outcome` only when asked for."""
    headers = _HEADERS if options.include_headers else {}
    return _SOURCE | headers | (_OUTCOME if options.include_outcome else {})


def source_ddl(options: SourceOptions) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in source_columns(options).items())


def check_source_columns(names: list[str], options: SourceOptions) -> None:
    """Raise OncelogError if the user gave a schema of his own: the columns of a log are fixed."""
    expected = list(source_columns(options))
    if names != expected:
        raise OncelogError(
            f"the columns {names} were asked for, but a topic has {expected}: leave out .schema(...), and take the "
            "value apart with from_json, from_avro or cast"
        )


def check_sink_columns(types: Mapping[str, str], has_topic_option: bool) -> None:
    """Raise OncelogError naming the column if the rows have columns that the sink cannot write. `types`: column →
    Spark's simple type name."""
    allowed = {
        "value": ("binary", "string"),
        "key": ("binary", "string"),
        "topic": ("string",),
        "partition": ("int",),
        "headers": ("array<struct<key:string,value:binary>>",),
        "timestamp": ("timestamp",),
    }
    if "value" not in types:
        raise OncelogError(
            "the sink needs a column value (binary or string): select what is to be written as value, "
            f"for example with to_json; the columns are {', '.join(types) or 'none'}"
        )
    if "topic" not in types and not has_topic_option:
        raise OncelogError("name the topic with the option topic, or give a column topic")
    for name, kind in types.items():
        if name not in allowed:
            raise OncelogError(
                f"column {name} has no place in a record: columns are {', '.join(allowed)}; put it into value"
            )
        if kind not in allowed[name]:
            raise OncelogError(f"column {name} is {kind}: cast it to {' or '.join(allowed[name])}")
