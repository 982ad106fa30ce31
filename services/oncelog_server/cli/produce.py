"""`oncelog produce` writes lines as records, in transactions if an id is given."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli import kafka_clients
from oncelog_server.cli.input_lines import LineForm, Source, pieces, unescaped
from oncelog_server.cli.line_writer import Headers, LineWriter
from oncelog_server.cli.options import AsOutput, Bootstrap, Output, not_empty
from oncelog_server.cli.tables import printed_as_json, say

app = typer.Typer(add_completion=False)
DELIVERY_TIMEOUT_MS: Final = 30_000
"""Milliseconds that a record, or a call of a transaction, may take."""
REQUEST_TIMEOUT_MS: Final = 10_000
BATCH_BYTES: Final = 128 * 1024
LINGER_MS: Final = 50
"""Milliseconds to wait for more lines. They come in great numbers, and larger batches than Kafka's defaults make cost
less for each line.
"""


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
    if file is not None and form.key_separator is not None:
        _look_at(file, form)

    with kafka_clients.admin(bootstrap) as cluster:
        known = kafka_clients.existing_topic(cluster, topic)
    if partition >= len(known.partitions):
        raise OncelogError(
            f"there is no partition {partition} of topic {topic!r}; its partitions are 0 to {len(known.partitions) - 1}"
        )
    with kafka_clients.producer(
        bootstrap,
        acks=acks.value,
        compression_type=compression.value,
        transactional_id=transactional_id,
        batch_size=BATCH_BYTES,
        linger_ms=LINGER_MS,
        delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        max_block_ms=DELIVERY_TIMEOUT_MS,
    ) as client:
        writer = LineWriter(client, topic, None if partition < 0 else partition, headers)
        _write(writer, file, form, is_transactional=transactional_id is not None, batch=batch)
    committed = writer.transactions_committed if transactional_id is not None else None
    _show(topic, writer.written, committed, output)


def _write(
    writer: LineWriter,
    file: Path | None,
    form: LineForm,
    *,
    is_transactional: bool,
    batch: int | None,
) -> None:
    try:
        with _opened(file) as source, kafka_clients.told():
            lines = form.read(pieces(source))
            if is_transactional:
                writer.write_in_transactions(lines, batch)
            else:
                writer.write(lines)
    except OncelogError as error:
        hint = "; see: oncelog health" if writer.is_unanswered else ""
        raise OncelogError(f"{error}{hint}") from None


def _show(topic: str, written: int, committed: int | None, output: Output | None) -> None:
    if printed_as_json(
        {"topic": topic, "records": written, "transactions_committed": committed or 0}, output
    ):
        return
    in_transactions = "" if committed is None else f" in {counted(committed, 'transaction')}"
    say(f"{counted(written, 'record')} written to {topic}{in_transactions}")


def _form(key_separator: str | None, null_marker: str | None) -> "LineForm":
    try:
        separator = None if key_separator is None else unescaped(key_separator)
    except ValueError as error:
        raise typer.BadParameter(f"--key-separator {key_separator!r}: {error}") from None
    return LineForm(separator, None if null_marker is None else null_marker.encode())


def _look_at(file: Path, form: "LineForm") -> None:
    """Check all lines of a file before anything is written. Raises OncelogError for a line that has another form."""
    if not file.is_file():
        return  # A pipe: reading it would empty it.
    with _opened(file) as source:
        try:
            for _ in form.read(pieces(source)):
                pass
        except OncelogError as error:
            raise OncelogError(f"{error}; nothing was written") from None


@contextmanager
def _opened(file: Path | None) -> Iterator[Source]:
    if file is None:
        yield cast("Source", sys.stdin.buffer)
        return
    try:
        with file.open("rb") as source:
            yield source
    except OSError as error:
        raise OncelogError(f"cannot read {file}: {error.strerror}") from error


def _headers(given: list[str]) -> Headers:
    headers: Headers = []
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--header {one!r} is not NAME=VALUE")
        headers.append((name, value.encode()))
    return headers
