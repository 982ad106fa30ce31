"""Writes lines with one producer, and knows of each whether the log has it.

Without transactions a failure leaves part of the input in the log, and a second run of the same input would write that
part twice. So the error says which lines were written, which were refused, and which are unknown: a record that was
sent and not answered may be in the log.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.input_lines import Line, ranges
from oncelog_server.cli.librdkafka_clients import words
from oncelog_server.cli.tables import warn

if TYPE_CHECKING:
    from confluent_kafka import Producer

DELIVERY_TIMEOUT_S: Final = 60.0
TRANSACTION_TIMEOUT_S: Final = 30.0
COMMIT_ATTEMPTS_MAX: Final = 5
_UNANSWERED: Final = (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_INFLIGHT, KafkaError._TIMED_OUT)
"""The client stopped waiting: the log may have the record."""

Headers = list[tuple[str, str | bytes | None]]


class LineWriter:
    """Counts what the log has acknowledged. One use: `write`, or `write_in_transactions`."""

    def __init__(self, producer: "Producer", topic: str, partition: int, headers: Headers) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._headers = headers
        self._line_number = 0
        self._open: set[int] = set()
        """Lines that were sent and not answered."""
        self._refused: dict[int, KafkaError] = {}
        self._acknowledged = 0
        self.written = 0
        """Acknowledged, and committed where there are transactions."""
        self.transactions_committed = 0

    @property
    def is_unanswered(self) -> bool:
        """Something was sent that the log did not take, or could not: the log has the trouble, not the lines."""
        codes = {error.code() for error in self._refused.values()}
        return bool(self._open) or KafkaError.KAFKA_STORAGE_ERROR in codes

    def write(self, lines: Iterable[Line]) -> None:
        """Every line for itself. Raises OncelogError at the first that is refused, and says what was written."""
        try:
            with self._what_fails():
                for line in lines:
                    self._send(line)
                self._flush()
        except OncelogError as error:
            raise OncelogError(f"{error}; {self._account()}") from None
        except KeyboardInterrupt:
            warn(f"stopped; {self._account()}")
            raise
        finally:
            self.written = self._acknowledged

    def write_in_transactions(self, lines: Iterable[Line], batch: int | None) -> None:
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

    def _send(self, line: Line) -> None:
        self._raise_refusal()
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    line.value,
                    line.key,
                    self._partition,
                    on_delivery=partial(self._answered, line.number),
                    headers=self._headers,
                )
                break
            except BufferError:
                # The client's queue is full: wait for the log to take some.
                self._producer.poll(1.0)
                self._raise_refusal()
            except KafkaException as error:
                raise OncelogError(
                    f"line {line.number} was refused: {words(error.args[0])}"
                ) from None
        self._line_number = line.number
        self._open.add(line.number)
        self._producer.poll(0)

    def _answered(self, number: int, error: "KafkaError | None", _message: object) -> None:
        if error is None:
            self._open.discard(number)
            self._acknowledged += 1
        elif error.code() not in _UNANSWERED:
            self._open.discard(number)
            self._refused[number] = error
        else:
            self._refused.setdefault(number, error)

    def _flush(self) -> None:
        """Until every line is answered, or the client has given it up."""
        deadline = time.monotonic() + DELIVERY_TIMEOUT_S
        while self._producer.flush(1.0) and time.monotonic() < deadline:
            pass
        self._raise_refusal()
        if self._open:
            raise OncelogError(
                f"the log did not acknowledge everything within {DELIVERY_TIMEOUT_S:.0f} s"
            )

    @contextmanager
    def _what_fails(self) -> Iterator[None]:
        """After a failure what is still under way is waited for: then it is known."""
        try:
            yield
        except (OncelogError, KeyboardInterrupt):
            self._producer.flush(DELIVERY_TIMEOUT_S)
            raise

    def _raise_refusal(self) -> None:
        if self._refused:
            number = min(self._refused)
            said = "was not answered" if number in self._open else "was refused"
            raise OncelogError(f"line {number} {said}: {words(self._refused[number])}")

    def _account(self) -> str:
        """What is in the log, and what to do so that nothing is there twice."""
        refused = self._refused.keys() - self._open
        missing = {*self._open, *refused}
        taken = ranges(one for one in range(1, self._line_number + 1) if one not in missing)
        if not taken and not self._open:
            return "nothing was written"
        parts = [f"written: line {taken}" if taken else "surely written: none"]
        if refused:
            parts.append(f"refused: line {ranges(sorted(refused))}")
        if self._open:
            parts.append(
                f"sent and not answered, perhaps written: line {ranges(sorted(self._open))}"
            )
        way = "the same input again would write lines twice"
        if not missing:
            way += f"; go on from line {self._line_number + 1}"
        return f"{', '.join(parts)}; {way}; with --transactional-id all lines are written or none"

    def _commit(self, count: int) -> None:
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
