"""`oncelog consume`: read partitions by offset, or as a member of a consumer group."""

import base64
import json
import sys
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.options import AsOutput, Bootstrap, Output, not_empty

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

app = typer.Typer(add_completion=False)
POLL_S: Final = 0.5
SILENCE_MAX_S: Final = 30.0


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(help="what to read")],
    isolation: Annotated[
        Isolation, typer.Option(help="read_uncommitted also shows open and aborted transactions")
    ] = Isolation.READ_COMMITTED,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="the same as --offset beginning; not with --group"),
    ] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="beginning|end|N",
            help="where to begin in each partition (default: beginning; with --follow: end)",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="only this one; repeatable")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            callback=not_empty,
            help="read as a member of this group and commit what was printed: goes on where the group stands, "
            "from the beginning where it has committed nothing yet",
        ),
    ] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="end after so many")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="wait for new records until Ctrl-C")
    ] = False,
    values_only: Annotated[
        bool, typer.Option("--values-only", help="print values, one a line, and nothing else")
    ] = False,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Print records: those there are now, or with --follow also those that come.

    A line is TOPIC-PARTITION@OFFSET, key and value with tabs between; --output json prints one object a line.
    """
    from confluent_kafka import TopicPartition

    from oncelog_server.cli import kafka_clients

    if group is not None and (offset is not None or from_beginning or partition):
        raise typer.BadParameter(_where_a_group_goes_on(group, topic))
    begin = _begin(offset, from_beginning=from_beginning, follow=follow)
    client = kafka_clients.consumer(bootstrap, _reading(group, isolation))
    try:
        chosen = kafka_clients.existing_partitions(client, topic, partition)
        with kafka_clients.kafka_errors():
            reader = Reader(client, max_messages, follow=follow, is_member=group is not None)
            if group is None:
                reader.assigned(len(chosen))
                client.assign([TopicPartition(topic, one, begin) for one in chosen])
            else:
                client.subscribe([topic], on_assign=lambda _, got: reader.assigned(len(got)))
            reader.print_all(_printer(output, values_only=values_only))
        if isolation is Isolation.READ_COMMITTED and not follow:
            _tell_what_waits(client, topic, reader.ends)
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
        from confluent_kafka import KafkaError

        from oncelog_server.cli.kafka_clients import words

        count = 0
        silent_s = 0.0
        while self._max_messages is None or count < self._max_messages:
            message = self._client.poll(POLL_S)
            if message is None:
                show.flush()
                silent_s += POLL_S
                if silent_s >= SILENCE_MAX_S and not self._follow:
                    raise OncelogError(
                        f"the log answered nothing for {SILENCE_MAX_S:.0f} s, "
                        f"with {counted(count, 'record')} read; try again"
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


class Printer:
    """Writes records to stdout as they come."""

    def __init__(self, form: "Form") -> None:
        self._form = form

    def record(self, message: "Message") -> None:
        match self._form:
            case Form.JSON:
                line = json.dumps(as_json(message), ensure_ascii=False)
            case Form.VALUES:
                line = text_of(message.value())
            case Form.LINES:
                line = (
                    f"{message.topic()}-{message.partition()}@{message.offset()}\t"
                    f"{text_of(message.key())}\t{text_of(message.value())}"
                )
        sys.stdout.write(line + "\n")

    def flush(self) -> None:
        sys.stdout.flush()


class Form(Enum):
    LINES = "lines"
    VALUES = "values"
    JSON = "json"


def text_of(content: bytes | None) -> str:
    """Of a key or value; bytes that are not UTF-8 are escaped, a missing one is empty."""
    return "" if content is None else content.decode("utf-8", "backslashreplace")


def as_json(message: "Message") -> dict[str, Any]:
    """A record; a key or value that is not UTF-8 is under `key_base64` or `value_base64` instead."""
    timestamp_ms = message.timestamp()[1]
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": timestamp_ms,
        **_named("key", message.key()),
        **_named("value", message.value()),
        "headers": [
            {"name": header[0], **_named("value", _bytes(header[1]))}
            for header in message.headers() or ()
        ],
    }


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _known(value: int | None) -> int:
    assert value is not None, "a record or a partition's end without its place"
    return value


def _named(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode("ascii")}


def _printer(output: Output | None, *, values_only: bool) -> Printer:
    if values_only:
        return Printer(Form.VALUES)
    return Printer(Form.JSON if output == Output.JSON else Form.LINES)


def _begin(offset: str | None, *, from_beginning: bool, follow: bool) -> int:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

    if from_beginning and offset is not None:
        raise typer.BadParameter("give --from-beginning or --offset, not both")
    if offset is None:
        offset = "end" if follow and not from_beginning else "beginning"
    if offset in ("beginning", "end"):
        return int(OFFSET_BEGINNING if offset == "beginning" else OFFSET_END)
    if not offset.isascii() or not offset.isdigit() or int(offset) >= 2**63:
        raise typer.BadParameter(f"--offset {offset!r} is neither beginning, end nor a number")
    return int(offset)


def _tell_what_waits(client: "Consumer", topic: str, ends: dict[int, int]) -> None:
    """An end below the high watermark is a last stable offset: somebody's transaction is undecided."""
    from oncelog_server.cli.tables import warn

    held = []
    for one, end in sorted(ends.items()):
        _, high_watermark = client.get_watermark_offsets(_partition(topic, one), cached=True)
        if high_watermark > end:
            held.append(f"{topic}-{one} at {end}, {high_watermark - end} below its end")
    if held:
        warn(
            f"open transactions hold back read_committed: {'; '.join(held[:5])}; see: oncelog partitions {topic}"
        )


def _partition(topic: str, partition: int) -> "TopicPartition":
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition)
