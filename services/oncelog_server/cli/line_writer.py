"""Writes lines as records with one producer, and knows of each line whether it is in the log.

Without transactions a failure leaves part of the input in the log, and a second run of the same input would write that
part twice. So the error says which lines were written, which were refused, and which are unknown. A record that was
sent and not answered may be in the log.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from oncelog.client.errors import ClientError, RetriableError, TimedOutError
from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.input_lines import Lines, ranges
from oncelog_server.cli.kafka_clients import words
from oncelog_server.cli.tables import warn

if TYPE_CHECKING:
    from oncelog.client.blocking import Delivery, Producer

COMMIT_ATTEMPTS_MAX: Final = 5

Headers = list[tuple[str, bytes | None]]


class LineWriter:
    """Writes one input, and remembers which lines the log has acknowledged. Call `write` or `write_in_transactions`,
    once.
    """

    def __init__(
        self, producer: "Producer", topic: str, partition: int | None, headers: Headers
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._headers = headers
        self._line_number = 0
        self._sent: list[list[tuple[int, Delivery]]] = []
        """Lines that were sent, as line number and delivery. Lines that were sent together are one list, which is
        removed once all are known to be answered.
        """
        self._failed: dict[int, ClientError] = {}
        self._is_open = False
        """True while a transaction is open."""
        self.written = 0
        """Number of lines that were acknowledged and, where there are transactions, committed."""
        self.transactions_committed = 0

    @property
    def is_unanswered(self) -> bool:
        """True if a line was sent and not answered, or was refused with a retriable error. Then the trouble is with the
        log, not with the lines.
        """
        self._look()
        failures = self._failed.values()
        return bool(self._unknown()) or any(isinstance(one, RetriableError) for one in failures)

    def write(self, pieces: Iterable[Lines]) -> None:
        """Write every line without a transaction. Raises OncelogError at the first one that is refused, with which
        lines were written.
        """
        try:
            for lines in pieces:
                self._send(lines)
            self._end()
            self._raise_failure()
        except OncelogError as error:
            self._end()
            raise OncelogError(f"{_said(error)}; {self._account()}") from None
        except KeyboardInterrupt:
            self._end()
            warn(f"stopped; {self._account()}")
            raise
        finally:
            self.written = self._line_number - len(self._failed.keys() | self._unknown())

    def write_in_transactions(self, pieces: Iterable[Lines], batch: int | None) -> None:
        """Write all lines in one transaction, or in one for each `batch` lines. If this raises, the open transaction is
        aborted.
        """
        count = 0
        try:
            for lines in pieces:
                for part in [lines] if batch is None else lines.parts(batch):
                    if not self._is_open:
                        self._producer.begin_transaction()
                        self._is_open, count = True, 0
                    self._send(part)
                    count += len(part.records)
                    if count == batch:
                        self._commit(count)
            if self._is_open:
                self._commit(count)
        except BaseException:
            if self._is_open:
                self._abort()
            raise

    def _send(self, lines: Lines) -> None:
        taken: list[Delivery] = []
        try:
            self._producer.send_all(
                self._topic,
                lines.records,
                partition=self._partition,
                headers=self._headers,
                into=taken,
            )
        except KeyboardInterrupt:
            # The client stops taking lines before it has flushed. Then it is known which ones it took.
            self._producer.flush()
            raise
        finally:
            sent = list(enumerate(taken, lines.first))
            self._sent.append(sent)
            self._line_number = lines.first + len(sent) - 1
        self._look()
        self._raise_failure()

    def _look(self) -> None:
        """Record the outcome of lines that were answered since the last call. Lines that were sent together are looked
        at only when the last of them has its answer.
        """
        left = []
        for together in self._sent:
            if together and together[-1][1].done():
                left.append([one for one in together if not self._is_answered(*one)])
            else:
                left.append(together)
        self._sent = [together for together in left if together]

    def _is_answered(self, number: int, delivery: "Delivery") -> bool:
        if not delivery.done():
            return False
        error = delivery.exception()
        if error is not None:
            self._failed[number] = error
        return True

    def _end(self) -> None:
        """Wait until every line is answered, or the client has given it up, and record the outcomes."""
        self._producer.flush()
        self._look()

    def _unknown(self) -> set[int]:
        """Return the numbers of lines that were sent, but whose outcome is not known: they may be in the log."""
        doubted = {number for number, error in self._failed.items() if error.may_be_done}
        sent = {number for together in self._sent for number, _ in together}
        return doubted | sent

    def _raise_failure(self) -> None:
        if self._failed:
            number = min(self._failed)
            error = self._failed[number]
            said = "was refused"
            if error.may_be_done:
                said = "was not answered"
            elif isinstance(error, TimedOutError):
                said = "was not sent"
            raise OncelogError(f"line {number} {said}: {words(error)}")

    def _account(self) -> str:
        """Return for an error's text which lines are in the log, and how to go on without writing a line twice."""
        unknown = self._unknown()
        refused = self._failed.keys() - unknown
        missing = unknown | refused
        taken = ranges(one for one in range(1, self._line_number + 1) if one not in missing)
        if not taken and not unknown:
            return "nothing was written"
        parts = [f"written: line {taken}" if taken else "surely written: none"]
        if refused:
            parts.append(f"refused: line {ranges(sorted(refused))}")
        if unknown:
            parts.append(f"sent and not answered, perhaps written: line {ranges(sorted(unknown))}")
        way = "the same input again would write lines twice"
        if not missing:
            way += f"; go on from line {self._line_number + 1}"
        return f"{', '.join(parts)}; {way}; with --transactional-id all lines are written or none"

    def _commit(self, count: int) -> None:
        """Commit the transaction of `count` lines. A Ctrl-C takes effect only when the outcome of the commit is known;
        a second one at once.
        """
        stopped: KeyboardInterrupt | None = None
        for attempt in range(1, COMMIT_ATTEMPTS_MAX + 1):
            try:
                # Asking again is safe: it is the same commit.
                self._producer.commit_transaction()
                break
            except TimedOutError:
                if attempt == COMMIT_ATTEMPTS_MAX:
                    self._is_open = False  # Nobody knows, as the error says: it cannot be aborted.
                    raise
            except KeyboardInterrupt as pressed:
                if stopped is not None:
                    raise
                stopped = pressed
        self._is_open = False
        self.written += count
        self.transactions_committed += 1
        if stopped is not None:
            raise stopped

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction()
        except ClientError:
            warn(
                "the open transaction could not be aborted; its coordinator does it after the timeout"
            )
        else:
            before = counted(self.written, "record")
            warn(
                f"transaction aborted; {before} {'was' if self.written == 1 else 'were'} committed before"
            )


def _said(error: OncelogError) -> str:
    return words(error) if isinstance(error, ClientError) else str(error)
