"""`oncelog consume`: read partitions by offset, or as a member of a consumer group."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import uuid4

import typer
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli import librdkafka_clients as kafka_clients
from oncelog_server.cli.librdkafka_clients import CONNECT_TIMEOUT_S, offsets_of_time, words
from oncelog_server.cli.options import AsOutput, Bootstrap, Output, not_empty
from oncelog_server.cli.record_form import LINES, VALUES, Form, form_of, json_line
from oncelog_server.cli.tables import warn
from oncelog_server.cli.times import milliseconds_of

app = typer.Typer(add_completion=False)
POLL_S: Final = 0.5
LOOK_AFTER_S: Final = 3.0
"""Of silence: the client library asks an offline partition again and again, and says nothing of it."""
LOOKED_AT_MAX: Final = 100
SILENCE_MAX_S: Final = 30.0


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


Topic = Annotated[str, typer.Argument(help="topic to read")]
IsolationOption = Annotated[
    Isolation,
    typer.Option("--isolation", help="read_uncommitted also shows open and aborted transactions"),
]
FromBeginning = Annotated[
    bool,
    typer.Option("--from-beginning", help="the same as --offset beginning; not with --group"),
]
Offset = Annotated[
    str | None,
    typer.Option(
        metavar="beginning|end|N|@TIME",
        help="where to begin in each partition (default: beginning; with --follow: end); @2026-01-31T14:00:00Z or "
        "@MILLISECONDS: at the first record from then on",
    ),
]
Partition = Annotated[list[int] | None, typer.Option(min=0, help="only this partition; repeatable")]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        callback=not_empty,
        help="read as a member of this group and commit what was printed: goes on where the group stands, "
        "from the beginning where it has committed nothing yet",
    ),
]
MaxMessages = Annotated[
    int | None,
    typer.Option("--max-messages", "-n", min=1, help="exit after this number of records"),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="wait for new records until Ctrl-C")]
ValuesOnly = Annotated[bool, typer.Option("--values-only", help="print only values, one a line")]
RecordFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="TEXT",
        help=r"how a record is printed: %t topic, %p partition, %o offset, %k key, %s value, %T milliseconds, "
        r"%h headers, %K and %S lengths; \n and \t. The default is '%t-%p@%o\t%k\t%s\n'",
    ),
]
NullMarker = Annotated[
    str, typer.Option(metavar="TEXT", help="text that stands for a null key or value")
]


@app.command()
def consume(
    topic: Topic,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    from_beginning: FromBeginning = False,
    offset: Offset = None,
    partition: Partition = None,
    group: Group = None,
    max_messages: MaxMessages = None,
    follow: Follow = False,
    values_only: ValuesOnly = False,
    record_format: RecordFormat = None,
    null_marker: NullMarker = "<null>",
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Print the records of a topic. With --follow, wait for new ones.

    A line is TOPIC-PARTITION@OFFSET, key and value with tabs between; --output json prints one object a line.
    """
    if group is not None and (offset is not None or from_beginning or partition):
        raise typer.BadParameter(_where_a_group_goes_on(group, topic))
    begin = _begin(offset, from_beginning=from_beginning, follow=follow)
    printer = _printer(
        output, values_only=values_only, record_format=record_format, null_marker=null_marker
    )
    client = kafka_clients.consumer(bootstrap, _reading(group, isolation))
    try:
        chosen = kafka_clients.existing_partitions(client, topic, partition)
        with kafka_clients.kafka_errors():
            reader = Reader(client, max_messages, follow=follow, is_member=group is not None)
            if group is None:
                reader.assigned(len(chosen))
                client.assign(_places(client, topic, chosen, begin))
            else:
                client.subscribe([topic], on_assign=lambda _, got: reader.assigned(len(got)))
            reader.print_all(printer)
        if isolation is Isolation.READ_COMMITTED and not follow:
            _warn_of_waiting(client, topic, reader.ends)
    finally:
        client.close()


def _where_a_group_goes_on(group: str, topic: str) -> str:
    return (
        f"--group {group} goes on where the group stands, and from the beginning where it has committed nothing; "
        f"to read all of it again: oncelog groups reset-offsets {group} --topic {topic} --to beginning --execute"
    )


def _reading(group: str | None, isolation: Isolation) -> dict[str, Any]:
    common = {
        "enable.partition.eof": True,
        "isolation.level": isolation.value,
        "fetch.wait.max.ms": 100,
    }
    if group is not None:
        return {
            **common,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
        }
    return {
        **common,
        # Never joined and never committed to: librdkafka wants a name all the same.
        "group.id": f"oncelog-consume-{uuid4().hex}",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }


class Reader:
    """Polls until every partition is at its end, or enough was read."""

    def __init__(
        self, client: "Consumer", max_messages: int | None, *, follow: bool, is_member: bool
    ) -> None:
        self._client = client
        self._partitions = 0
        self._max_messages = max_messages
        self._follow = follow
        self._is_member = is_member
        self.ends: dict[int, int] = {}
        """By partition: the offset that could not be passed."""

    def assigned(self, partitions: int) -> None:
        """So many partitions are read from now on."""
        self._partitions = partitions
        self.ends.clear()

    def print_all(self, show: "Printer") -> None:
        """Raises OncelogError when the log stops answering before the end is reached."""

        count = 0
        silent_s = 0.0
        has_looked = False
        while self._max_messages is None or count < self._max_messages:
            message = self._client.poll(POLL_S)
            if message is None:
                show.flush()
                silent_s += POLL_S
                if not has_looked and silent_s >= LOOK_AFTER_S:
                    has_looked = True
                    self._warn_of_offline()
                if silent_s >= SILENCE_MAX_S and not self._follow:
                    raise OncelogError(
                        f"the log answered nothing for {SILENCE_MAX_S:.0f} s, "
                        f"with {counted(count, 'record')} read; see: oncelog health"
                    )
                continue
            silent_s = 0.0
            error = message.error()
            if error is None:
                self.ends.pop(_known(message.partition()), None)
                show.record(message)
                if self._is_member:
                    # Printed before it counts as read: what is lost with this process is printed again.
                    self._client.store_offsets(message)
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ends[_known(message.partition())] = _known(message.offset())
                show.flush()
                if not self._follow and len(self.ends) == self._partitions:
                    break
            elif not error.retriable():
                raise OncelogError(f"reading failed: {words(error)}")
        show.flush()

    def _warn_of_offline(self) -> None:
        for one in self._client.assignment()[:LOOKED_AT_MAX]:
            if one.partition in self.ends:
                continue
            try:
                self._client.get_watermark_offsets(one, timeout=CONNECT_TIMEOUT_S)
            except KafkaException as error:
                failure = error.args[0]
                if failure.code() == KafkaError.KAFKA_STORAGE_ERROR:
                    warn(f"{one.topic}-{one.partition} is offline; see: oncelog health")
                    continue
                return


class Printer:
    """Writes records to stdout as they come."""

    def __init__(self, form: "Form") -> None:
        self._form = form

    def record(self, message: "Message") -> None:
        # Bytes of the format that are no text stay bytes.
        sys.stdout.buffer.write(self._form(message).encode("utf-8", "surrogateescape"))

    def flush(self) -> None:
        sys.stdout.buffer.flush()


def _known(value: int | None) -> int:
    assert value is not None, "a record or a partition's end without its place"
    return value


def _printer(
    output: Output | None, *, values_only: bool, record_format: str | None, null_marker: str
) -> Printer:
    if values_only and record_format is not None:
        raise typer.BadParameter("give --values-only or --format, not both")
    if output == Output.JSON and not values_only and record_format is None:
        return Printer(json_line)
    try:
        return Printer(form_of(record_format or (VALUES if values_only else LINES), null_marker))
    except ValueError as error:
        raise typer.BadParameter(f"--format {record_format!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class Begin:
    """Where to begin: at an offset, or at the first record of a time."""

    offset: int
    from_ms: int | None = None


def _begin(offset: str | None, *, from_beginning: bool, follow: bool) -> Begin:
    if from_beginning and offset is not None:
        raise typer.BadParameter("give --from-beginning or --offset, not both")
    if offset is None:
        offset = "end" if follow and not from_beginning else "beginning"
    if offset in ("beginning", "end"):
        return Begin(int(OFFSET_BEGINNING if offset == "beginning" else OFFSET_END))
    if offset.startswith("@"):
        try:
            return Begin(int(OFFSET_END), milliseconds_of(offset[1:]))
        except ValueError as error:
            raise typer.BadParameter(f"--offset {offset!r}: {error}") from None
    if not offset.isascii() or not offset.isdigit() or int(offset) >= 2**63:
        raise typer.BadParameter(
            f"--offset {offset!r} is neither beginning, end, a number nor @TIME"
        )
    return Begin(int(offset))


def _places(
    client: "Consumer", topic: str, partitions: list[int], begin: Begin
) -> list["TopicPartition"]:
    if begin.from_ms is None:
        return [_partition(topic, one, begin.offset) for one in partitions]
    found = offsets_of_time(client, topic, partitions, begin.from_ms)
    return [_partition(topic, one, found.get(one, begin.offset)) for one in partitions]


def _warn_of_waiting(client: "Consumer", topic: str, ends: dict[int, int]) -> None:
    """An end below the high watermark is a last stable offset: somebody's transaction is undecided."""
    held = []
    for one, end in sorted(ends.items()):
        _, high_watermark = client.get_watermark_offsets(_partition(topic, one), cached=True)
        if high_watermark > end:
            held.append(f"{topic}-{one} at {end}, {high_watermark - end} below its end")
    if held:
        warn(
            f"open transactions hold back read_committed: {'; '.join(held[:5])}; see: oncelog partitions {topic}"
        )


def _partition(topic: str, partition: int, offset: int | None = None) -> "TopicPartition":
    if offset is None:
        return TopicPartition(topic, partition)
    return TopicPartition(topic, partition, offset)
