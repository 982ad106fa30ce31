"""`oncelog consume`: read partitions by offset, or as a member of a consumer group."""

import contextlib
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from oncelog.client.core.log_places import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from oncelog.client.errors import ClientError, NoOffsetError
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Partition
from oncelog.times import milliseconds_of
from oncelog.wording import counted
from oncelog_server.cli import kafka_clients
from oncelog_server.cli.options import AsOutput, Bootstrap, Output, not_empty
from oncelog_server.cli.record_form import LINES, VALUES, Form, form_of, json_line
from oncelog_server.cli.tables import warn

if TYPE_CHECKING:
    from oncelog.client.blocking import Admin, Consumer
    from oncelog.client.core.consumer_record import ConsumerRecord
    from oncelog.client.options import ConsumerOptions

app = typer.Typer(add_completion=False)
POLL_S: Final = 0.1
POLL_RECORDS: Final = 2_000
FETCH_WAIT_MS: Final = 100
COMMIT_EVERY_S: Final = 5.0
LOOK_AFTER_S: Final = 3.0
"""Seconds of silence after which the reader looks for offline partitions. The client asks such a partition again and
again, and says nothing of it.
"""
TOLD_MAX: Final = 100
SILENCE_MAX_S: Final = 30.0
BEGINNING, END = EARLIEST_TIMESTAMP, LATEST_TIMESTAMP


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
PartitionOption = Annotated[
    list[int] | None, typer.Option(min=0, help="only this partition; repeatable")
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        callback=not_empty,
        help="read as a member of this group (KIP-848) and commit what was printed: goes on where the group stands, "
        "from the beginning where it has committed nothing yet. Members of the classic protocol go on beside it",
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
    partition: PartitionOption = None,
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
    with (
        kafka_clients.admin(bootstrap) as cluster,
        kafka_clients.consumer(bootstrap, **_reading(group, isolation)) as client,
    ):
        chosen = kafka_clients.existing_partitions(cluster, topic, partition)
        reader = Reader(client, printer, max_messages, follows=follow)
        try:
            if group is None:
                _go_to(client, [Partition(topic, one) for one in chosen], begin)
            else:
                reader.join(topic)
            reader.print_all()
        except NoOffsetError as error:
            raise _no_such_offset(cluster, error) from None
        if isolation is Isolation.READ_COMMITTED and not follow:
            _warn_of_waiting(
                cluster, topic, [one for one in sorted(client.assignment) if reader.is_at_end(one)]
            )


def _where_a_group_goes_on(group: str, topic: str) -> str:
    return (
        f"--group {group} goes on where the group stands, and from the beginning where it has committed nothing; "
        f"to read all of it again: oncelog groups reset-offsets {group} --topic {topic} --to beginning --execute"
    )


def _reading(group: str | None, isolation: Isolation) -> "ConsumerOptions":
    options: ConsumerOptions = {
        "isolation_level": isolation.value,
        "fetch_max_wait_ms": FETCH_WAIT_MS,
        "auto_offset_reset": "none",
    }
    if group is not None:
        options |= {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return options


def _go_to(client: "Consumer", partitions: Sequence[Partition], begin: "Begin") -> None:
    client.assign(partitions)
    offset = begin.offset
    if begin.from_ms is not None:
        found = client.offsets_for_times(dict.fromkeys(partitions, begin.from_ms))
        for one, at in found.items():
            if at is None:
                client.seek_to_end(one)
            else:
                client.seek(one, at.offset)
    elif offset == BEGINNING:
        client.seek_to_beginning()
    elif offset == END:
        client.seek_to_end()
    else:
        for one in partitions:
            client.seek(one, offset)


def _no_such_offset(cluster: "Admin", error: NoOffsetError) -> OncelogError:
    if error.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return error
    at = error.partition
    first = cluster.list_offsets({at: BEGINNING})[at]
    end = cluster.list_offsets({at: END})[at]
    assert first is not None
    assert end is not None
    return OncelogError(
        f"there is no offset {error.offset} in {at}: its log begins at {first.offset} and ends before {end.offset}"
    )


def _warn_of_waiting(cluster: "Admin", topic: str, partitions: Sequence[Partition]) -> None:
    """Warn if open transactions hold back records from a read_committed reader: a partition's last stable offset, where
    it stops, is then below the high watermark.

    The high watermark is asked for first. So records that are written in between do not look like an open transaction.
    """
    wanted = dict.fromkeys(partitions, END)
    high_watermarks = cluster.list_offsets(wanted)
    stable = cluster.list_offsets(wanted, read_committed=True)
    held = []
    for one in partitions:
        high, end = high_watermarks[one], stable[one]
        if high is not None and end is not None and high.offset > end.offset:
            held.append(f"{one} at {end.offset}, {high.offset - end.offset} below its end")
    if held:
        warn(
            f"open transactions hold back read_committed: {'; '.join(held[:5])}; see: oncelog partitions {topic}"
        )


class Reader:
    """Reads and prints records until every partition is at its end, or enough were printed. In a consumer group it
    commits the offsets of what it printed.
    """

    def __init__(
        self,
        client: "Consumer",
        printer: "Printer",
        max_messages: int | None,
        *,
        follows: bool,
    ) -> None:
        self._client = client
        self._printer = printer
        self._max_messages = max_messages
        self._follows = follows
        self._is_member = False
        self._printed: dict[Partition, int] = {}
        """The next offset of each partition, which a member is to commit."""

    def join(self, topic: str) -> None:
        self._is_member = True
        self._client.subscribe([topic], on_revoked=self._revoked, on_lost=self._lost)

    def is_at_end(self, partition: Partition) -> bool:
        return self._client.current_lag(partition) == 0

    def print_all(self) -> None:
        """Print records until the end. Raises OncelogError when the log stops answering before that."""
        try:
            self._print_all()
        except KeyboardInterrupt:
            self._commit()
            raise
        self._commit()

    def _print_all(self) -> None:
        count = 0
        has_looked = False
        spoke_at = committed_at = time.monotonic()
        while self._max_messages is None or count < self._max_messages:
            most = POLL_RECORDS
            if self._max_messages is not None:
                most = min(most, self._max_messages - count)
            records = self._client.poll(POLL_S, most)
            self._print(records)
            count += len(records)
            if not self._follows and len(records) < most and self._has_ended():
                break
            now = time.monotonic()
            if records:
                spoke_at = now
            if now - committed_at >= COMMIT_EVERY_S:
                committed_at = now
                with contextlib.suppress(ClientError):
                    self._commit()
            if not has_looked and now - spoke_at >= LOOK_AFTER_S:
                has_looked = True
                self._warn_of_offline()
            if not self._follows and now - spoke_at >= SILENCE_MAX_S:
                raise OncelogError(self._silence(count))

    def _has_ended(self) -> bool:
        assigned = self._client.assignment
        return bool(assigned) and all(map(self.is_at_end, assigned))

    def _print(self, records: "list[ConsumerRecord]") -> None:
        for record in records:
            self._printer.record(record)
            if self._is_member:
                # Printed before it counts as read: what is lost with this process is printed again.
                self._printed[record.topic_partition] = record.offset + 1
        self._printer.flush()

    def _commit(self) -> None:
        if self._printed:
            self._printer.flush()
            self._client.commit(self._printed)
            self._printed.clear()

    def _revoked(self, partitions: frozenset[Partition]) -> None:
        self._commit()

    def _lost(self, partitions: frozenset[Partition]) -> None:
        """Forget the printed offsets of partitions that another member of the group has now, without committing them.
        That member begins at the committed offsets.
        """
        for one in partitions:
            self._printed.pop(one, None)

    def _silence(self, count: int) -> str:
        if self._is_member and not self._client.assignment:
            group = self._client.settings.group_id
            return (
                f"the group gave this member no partition for {SILENCE_MAX_S:.0f} s: other members have all of them; "
                f"see: oncelog groups describe {group}"
            )
        return (
            f"the log answered nothing for {SILENCE_MAX_S:.0f} s, "
            f"with {counted(count, 'record')} read; see: oncelog health"
        )

    def _warn_of_offline(self) -> None:
        for one, why in sorted(self._client.failing.items())[:TOLD_MAX]:
            if why in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LEADER_NOT_AVAILABLE):
                warn(f"{one} is offline; see: oncelog health")


class Printer:
    """Writes records to stdout in the chosen format."""

    def __init__(self, form: "Form") -> None:
        self._form = form
        self._out: BinaryIO = sys.stdout.buffer
        if isinstance(self._out, io.FileIO):
            # PYTHONUNBUFFERED: a record would be seen before it counts, and a Ctrl-C may come in between.
            self._out = open(self._out.fileno(), "wb", closefd=False)  # noqa: SIM115

    def record(self, record: "ConsumerRecord") -> None:
        # Bytes of the format that are no text stay bytes.
        self._out.write(self._form(record).encode("utf-8", "surrogateescape"))

    def flush(self) -> None:
        self._out.flush()


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
    """The place where reading begins: an offset, or the first record from `from_ms` on, in milliseconds since the Unix
    epoch. A partition without such a record is read from its end.
    """

    offset: int
    from_ms: int | None = None


def _begin(offset: str | None, *, from_beginning: bool, follow: bool) -> Begin:
    if from_beginning and offset is not None:
        raise typer.BadParameter("give --from-beginning or --offset, not both")
    if offset is None:
        offset = "end" if follow and not from_beginning else "beginning"
    if offset in ("beginning", "end"):
        return Begin(BEGINNING if offset == "beginning" else END)
    if offset.startswith("@"):
        try:
            return Begin(END, milliseconds_of(offset[1:]))
        except ValueError as error:
            raise typer.BadParameter(f"--offset {offset!r}: {error}") from None
    if not offset.isascii() or not offset.isdigit() or int(offset) >= 2**63:
        raise typer.BadParameter(
            f"--offset {offset!r} is neither beginning, end, a number nor @TIME"
        )
    return Begin(int(offset))
