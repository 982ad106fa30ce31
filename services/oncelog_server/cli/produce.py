"""`oncelog produce`: lines become records, in transactions if an id is given."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.options import AsOutput, Bootstrap, Output, not_empty

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

app = typer.Typer(add_completion=False)
DELIVERY_TIMEOUT_S: Final = 60.0
TRANSACTION_TIMEOUT_S: Final = 30.0
COMMIT_ATTEMPTS_MAX: Final = 5


def _separator(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("an empty text separates nothing")
    return value


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(help="where to write")],
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="read this instead of stdin")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option(callback=_separator, help="each line is KEY, this text, VALUE")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="on every record; repeatable")
    ] = None,
    partition: Annotated[
        int, typer.Option(min=-1, help="-1: by key, or spread", show_default=False)
    ] = -1,
    transactional_id: Annotated[
        str | None,
        typer.Option(callback=not_empty, help="write everything in one transaction of this id"),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="commit after each N lines, not only at the end")
    ] = None,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """Write lines of stdin or a file as records.

    Without a transactional id records are written idempotently, each for itself. With one, all lines appear at once to
    read_committed consumers, or none does; Ctrl-C aborts.
    """
    if batch is not None and transactional_id is None:
        raise typer.BadParameter("--batch divides transactions: give --transactional-id too")
    from oncelog_server.cli import kafka_clients
    from oncelog_server.cli.tables import say, show_json

    configuration: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "linger.ms": 5}
    configuration["message.timeout.ms"] = int(TRANSACTION_TIMEOUT_S * 1000)
    if transactional_id is not None:
        configuration["transactional.id"] = transactional_id
    client = kafka_clients.producer(bootstrap, configuration)
    known = kafka_clients.existing_topic(client, topic)
    if partition >= len(known.partitions):
        raise OncelogError(
            f"there is no partition {partition} of topic {topic!r}; its partitions are 0 to {len(known.partitions) - 1}"
        )
    writer = LineWriter(client, topic, partition, key_separator, _headers(header or []))
    with _opened(file) as lines, kafka_clients.kafka_errors():
        if transactional_id is None:
            writer.write(lines)
        else:
            writer.write_in_transactions(lines, batch)
    result = {
        "topic": topic,
        "records": writer.written,
        "transactions_committed": writer.transactions_committed,
    }
    if output == Output.JSON:
        show_json(result)
        return
    in_transactions = (
        f" in {counted(writer.transactions_committed, 'transaction')}"
        if transactional_id is not None
        else ""
    )
    say(f"{counted(writer.written, 'record')} written to {topic}{in_transactions}")


class LineWriter:
    """Writes lines with one producer and counts what the log has acknowledged."""

    def __init__(
        self,
        producer: "Producer",
        topic: str,
        partition: int,
        key_separator: str | None,
        headers: list[tuple[str, str | bytes | None]],
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._key_separator = None if key_separator is None else key_separator.encode()
        self._headers = headers
        self._acknowledged = 0
        self._failure: KafkaError | None = None
        self._line_number = 0
        self.written = 0
        """Acknowledged, and committed where there are transactions."""
        self.transactions_committed = 0

    def write(self, lines: Iterator[bytes]) -> None:
        """Every line for itself. Raises OncelogError at the first that is refused."""
        try:
            for line in lines:
                self._send(line)
            self._flush()
        finally:
            self.written = self._acknowledged

    def write_in_transactions(self, lines: Iterator[bytes], batch: int | None) -> None:
        """One transaction, or one each `batch` lines. What is not committed when this raises is aborted."""
        self._producer.init_transactions(TRANSACTION_TIMEOUT_S)
        in_transaction = 0
        is_open = False
        try:
            for line in lines:
                if not is_open:
                    self._producer.begin_transaction()
                    is_open = True
                self._send(line)
                in_transaction += 1
                if in_transaction == batch:
                    self._commit(in_transaction)
                    in_transaction, is_open = 0, False
            if is_open:
                self._commit(in_transaction)
                is_open = False
        except BaseException:
            if is_open:
                self._abort()
            raise

    def _send(self, line: bytes) -> None:
        self._line_number += 1
        key, value = self._split(line.removesuffix(b"\n").removesuffix(b"\r"))
        while True:
            self._raise_failure()
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    key,
                    self._partition,
                    on_delivery=self._delivered,
                    headers=self._headers,
                )
                break
            except BufferError:
                # The client's queue is full: wait for the log to take some.
                self._producer.poll(1.0)
        self._producer.poll(0)

    def _split(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self._key_separator is None:
            return None, line
        key, separator, value = line.partition(self._key_separator)
        if not separator:
            raise OncelogError(
                f"line {self._line_number} has no key separator {self._key_separator.decode()!r}: {line[:60]!r}"
            )
        return key, value

    def _delivered(self, error: "KafkaError | None", _message: object) -> None:
        if error is None:
            self._acknowledged += 1
        elif self._failure is None:
            self._failure = error

    def _flush(self) -> None:
        if self._producer.flush(DELIVERY_TIMEOUT_S):
            raise OncelogError(
                f"the log did not acknowledge everything within {DELIVERY_TIMEOUT_S:.0f} s; "
                f"written: {self._acknowledged} of {counted(self._line_number, 'record')}, and perhaps the others"
            )
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            from oncelog_server.cli.kafka_clients import words

            raise OncelogError(
                f"a record was refused: {words(self._failure)}; taken before it: {self._acknowledged}"
            )

    def _commit(self, count: int) -> None:
        from confluent_kafka import KafkaException

        for attempt in range(1, COMMIT_ATTEMPTS_MAX + 1):
            try:
                self._producer.commit_transaction(TRANSACTION_TIMEOUT_S)
                break
            except KafkaException as error:
                # Asking again is safe: the client resumes the same commit.
                if not error.args[0].retriable() or attempt == COMMIT_ATTEMPTS_MAX:
                    raise
        self.written += count
        self.transactions_committed += 1

    def _abort(self) -> None:
        from confluent_kafka import KafkaException

        from oncelog_server.cli.tables import warn

        try:
            self._producer.abort_transaction(TRANSACTION_TIMEOUT_S)
        except KafkaException:
            warn(
                "the open transaction could not be aborted; its coordinator does it after the timeout"
            )
        else:
            before = counted(self.written, "record")
            warn(
                f"transaction aborted; {before} {'was' if self.written == 1 else 'were'} committed before"
            )


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
