"""`oncelog produce`: lines become records, in transactions if an id is given."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli import librdkafka_clients as kafka_clients
from oncelog_server.cli.input_lines import LineForm, unescaped
from oncelog_server.cli.line_writer import TRANSACTION_TIMEOUT_S, LineWriter
from oncelog_server.cli.options import AsOutput, Bootstrap, Output, not_empty
from oncelog_server.cli.tables import printed_as_json, say

app = typer.Typer(add_completion=False)


class Acks(StrEnum):
    ALL = "all"
    ONE = "1"
    NONE = "0"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def _separator(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("an empty text separates nothing")
    return value


Topic = Annotated[str, typer.Argument(help="topic to write to")]
File = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="read this file instead of stdin")
]
KeySeparator = Annotated[
    str | None,
    typer.Option(
        callback=_separator, help=r"each line is KEY, this text, VALUE; \t is a tab, \x1f a byte"
    ),
]
NullMarker = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="a key or value that is this text is null; a null value is a tombstone"
    ),
]
Header = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="header of every record; repeatable")
]
Partition = Annotated[
    int, typer.Option(min=-1, help="-1: chosen by the key, or spread", show_default=False)
]
TransactionalId = Annotated[
    str | None,
    typer.Option(callback=not_empty, help="write everything in one transaction of this id"),
]
Batch = Annotated[
    int | None, typer.Option(min=1, help="commit after each N lines, not only at the end")
]
AcksOption = Annotated[
    Acks,
    typer.Option("--acks", help="which replicas acknowledge: all in sync, the leader, none"),
]
CompressionOption = Annotated[
    Compression, typer.Option("--compression", help="codec of the batches")
]


@app.command()
def produce(
    topic: Topic,
    file: File = None,
    key_separator: KeySeparator = None,
    null_marker: NullMarker = None,
    header: Header = None,
    partition: Partition = -1,
    transactional_id: TransactionalId = None,
    batch: Batch = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Write lines of stdin or a file as records.

    Without --transactional-id an idempotent producer writes each record for itself. When a line is refused, the lines
    before it stay written. With it, read_committed consumers see all lines at once, or none; Ctrl-C aborts. The command
    checks all lines of a file before it writes the first one.
    """
    if batch is not None and transactional_id is None:
        raise typer.BadParameter("--batch divides transactions: give --transactional-id too")
    if acks is not Acks.ALL and transactional_id is not None:
        raise typer.BadParameter(f"--acks {acks} loses records: a transaction needs --acks all")
    form = _form(key_separator, null_marker)
    headers = _headers(header or [])
    if file is not None:
        _look_at(file, form)

    client = kafka_clients.producer(bootstrap, _configuration(transactional_id, acks, compression))
    known = kafka_clients.existing_topic(client, topic)
    if partition >= len(known.partitions):
        raise OncelogError(
            f"there is no partition {partition} of topic {topic!r}; its partitions are 0 to {len(known.partitions) - 1}"
        )
    writer = LineWriter(client, topic, partition, headers)
    try:
        with _opened(file) as lines, kafka_clients.kafka_errors():
            if transactional_id is None:
                writer.write(form.read(lines))
            else:
                writer.write_in_transactions(form.read(lines), batch)
    except OncelogError as error:
        raise (
            OncelogError(f"{error}; see: oncelog health") if writer.is_unanswered else error
        ) from None
    committed = writer.transactions_committed if transactional_id is not None else None
    _show(topic, writer.written, committed, output)


def _show(topic: str, written: int, committed: int | None, output: Output | None) -> None:
    if printed_as_json(
        {"topic": topic, "records": written, "transactions_committed": committed or 0}, output
    ):
        return
    in_transactions = "" if committed is None else f" in {counted(committed, 'transaction')}"
    say(f"{counted(written, 'record')} written to {topic}{in_transactions}")


def _configuration(
    transactional_id: str | None, acks: Acks, compression: Compression
) -> dict[str, Any]:
    configuration: dict[str, Any] = {
        "acks": acks.value,
        "compression.type": compression.value,
        # Without every replica's answer there is nothing that a repeat could be compared with.
        "enable.idempotence": acks is Acks.ALL,
        "linger.ms": 5,
        "message.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
    }
    if transactional_id is not None:
        configuration["transactional.id"] = transactional_id
    return configuration


def _form(key_separator: str | None, null_marker: str | None) -> "LineForm":
    try:
        separator = None if key_separator is None else unescaped(key_separator)
    except ValueError as error:
        raise typer.BadParameter(f"--key-separator {key_separator!r}: {error}") from None
    return LineForm(separator, None if null_marker is None else null_marker.encode())


def _look_at(file: Path, form: "LineForm") -> None:
    """Raises OncelogError for a line that has another form, while nothing is written yet."""
    if not file.is_file():
        return  # A pipe: reading it would empty it.
    with _opened(file) as lines:
        try:
            for _ in form.read(lines):
                pass
        except OncelogError as error:
            raise OncelogError(f"{error}; nothing was written") from None


@contextmanager
def _opened(file: Path | None) -> Iterator[Iterator[bytes]]:
    if file is None:
        yield iter(_stdin())
        return
    try:
        with file.open("rb") as lines:
            yield iter(lines)
    except OSError as error:
        raise OncelogError(f"cannot read {file}: {error.strerror}") from error


def _stdin() -> BinaryIO:
    return sys.stdin.buffer


def _headers(given: list[str]) -> list[tuple[str, str | bytes | None]]:
    headers: list[tuple[str, str | bytes | None]] = []
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--header {one!r} is not NAME=VALUE")
        headers.append((name, value.encode()))
    return headers
