"""A reader for histories of Jepsen's Kafka workload (`jepsen.tests.kafka`), which become histories of ours.

Its operations `:send`, `:poll` and `:txn` are vectors of `[:send k [offset v]]` and `[:poll {k [[offset v] …]}]`. A key
stands for a partition, and a value is unique in it. Each operation becomes a transaction, and each poll a poll:

- A consumer's polls are one order until it is assigned, subscribed or rebalanced anew, or something of it fails.
- There are no final reads. What all polls together saw of a key stands for one, up to the highest offset polled. So a
  send that was acknowledged below that offset, and that nobody ever polled, is lost: Jepsen judges so too.
- A send without an offset that nobody polled may lie above it. It is left out, and counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from oncelog_robustness.history import (
    RECORDS_DELETED_FROM,
    Ending,
    FinalRead,
    History,
    Isolation,
    Outcome,
    Poll,
    Read,
    Send,
    Transaction,
)
from oncelog_robustness.verify.edn import EdnError, Keyword, forms

WORK: Final = ("send", "poll", "txn")
_MOVES: Final = ("assign", "subscribe", "crash", "close")
_NS_IN_MS: Final = 1_000_000
ALL_POLLS: Final = "all polls together"


class _Operation(NamedTuple):
    line: int
    content: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str(self.content.get("type"))

    @property
    def process(self) -> Any:
        return self.content.get("process")

    @property
    def at_ms(self) -> int:
        at = self.content.get("time", self.content.get("index", self.line))
        if not isinstance(at, int):
            raise EdnError(f"line {self.line}: {at!r} is no time of an operation")
        return at // _NS_IN_MS if "time" in self.content else at


class Given(NamedTuple):
    """A history that was read from a file, and a sentence for each thing in it that could not be used."""

    history: History
    notes: tuple[str, ...]
    """The parts of the file that could not be used, a sentence each."""


def read_jepsen(text: str, isolation: Isolation) -> Given:
    """Return the history in a text of Jepsen's format. Its consumers are taken to read at `isolation`. Raises EdnError
    with the line of what cannot be read."""
    reading = _Reading(isolation)
    for operation in _operations(text):
        reading.add_operation(operation)
    return reading.ended()


def _operations(text: str) -> Iterator[_Operation]:
    """Yield the operations of a history in EDN: maps, one after the other or in one vector."""
    for line, form in forms(text):
        for one in form if isinstance(form, list) else [form]:
            if not isinstance(one, dict) or not isinstance(one.get("type"), Keyword):
                raise EdnError(f"line {line}: {str(one)[:100]!r} is no operation with a :type")
            yield _Operation(line, one)


@dataclass(slots=True)
class _Reading:
    isolation: Isolation
    _begun: dict[Any, _Operation] = field(default_factory=dict)
    _lives: Counter[Any] = field(default_factory=Counter)
    """The number of times that each process was repositioned. Its polls before and after that are judged as those of
    two consumers."""
    _transactions: list[Transaction] = field(default_factory=list)
    _polls: list[Poll] = field(default_factory=list)
    _ignored: Counter[str] = field(default_factory=Counter)
    _last_ms: int = 0

    def add_operation(self, one: _Operation) -> None:
        kind = str(one.content.get("f"))
        self._last_ms = max(self._last_ms, one.at_ms)
        if kind in _MOVES:
            self._lives[one.process] += 1
        elif kind not in WORK:
            self._ignored[f":{kind}"] += 1
        elif one.type == "invoke":
            self._begun[one.process] = one
        elif one.type in list(Outcome):
            self._complete(self._begun.pop(one.process, one), one)
        else:
            raise EdnError(
                f"line {one.line}: :type is :{one.type}, not :invoke, :ok, :fail or :info"
            )

    def _complete(self, begun: _Operation, ended: _Operation) -> None:
        outcome = Outcome(ended.type)
        steps = ended.content.get("value") or begun.content.get("value") or []
        is_moved = bool(ended.content.get("rebalance-log"))
        sends, reads = [], []
        for step in steps:
            name = step[0] if isinstance(step, list) and step else None
            if name == "send" and len(step) == 3:
                sends.append(_send(step))
            elif name == "poll" and len(step) <= 2:
                polled = list(_reads(step, ended.line))
                reads += polled
                self._lives[ended.process] += is_moved
                if polled and outcome is not Outcome.FAIL:
                    self._polls.append(self._poll(begun, ended, polled))
            else:
                raise EdnError(f"line {ended.line}: {step!r} is neither [:send k v] nor [:poll …]")
        self._lives[ended.process] += is_moved or outcome is not Outcome.OK
        if sends:
            self._transactions.append(self._transaction(begun, ended, outcome, sends, reads))

    def _poll(self, begun: _Operation, ended: _Operation, reads: list[Read]) -> Poll:
        return Poll(
            client=f"{ended.process}#{self._lives[ended.process]}",
            invoked_ms=begun.at_ms,
            completed_ms=ended.at_ms,
            isolation=self.isolation,
            reads=tuple(reads),
        )

    def _transaction(
        self,
        begun: _Operation,
        ended: _Operation | None,
        outcome: Outcome,
        sends: list[Send],
        reads: list[Read],
    ) -> Transaction:
        is_committed_read = (
            self.isolation is Isolation.READ_COMMITTED and outcome is not Outcome.FAIL
        )
        return Transaction(
            client=f"{begun.process}",
            invoked_ms=begun.at_ms,
            completed_ms=None if ended is None else ended.at_ms,
            transactional_id=f"jepsen-{begun.process}",
            protocol="unknown",
            ending=Ending.COMMIT,
            outcome=outcome,
            sends=tuple(sends),
            reads=tuple(reads) if is_committed_read else (),
            error="" if ended is None else str(ended.content.get("error") or ""),
        )

    def ended(self) -> Given:
        for begun in self._begun.values():
            steps = begun.content.get("value") or []
            sends = [_send(one) for one in steps if isinstance(one, list) and one[:1] == ["send"]]
            if sends:
                self._transactions.append(self._transaction(begun, None, Outcome.INFO, sends, []))
        if not self._transactions and not self._polls:
            raise EdnError("it holds no operation :send, :poll or :txn of Jepsen's Kafka workload")
        kept, left_out = self._kept()
        history = History({"target": "a history of Jepsen", RECORDS_DELETED_FROM: ""})
        done: list[Transaction | Poll] = [*kept, *self._polls]
        done.sort(key=lambda one: one.completed_ms or self._last_ms)
        for operation in (*done, *self._finals()):
            history.add(operation)
        notes = []
        if left_out:
            notes.append(f"{left_out} sends without an offset, which nobody polled, are not judged")
        if self._ignored:
            names = ", ".join(f"{name} ({count})" for name, count in sorted(self._ignored.items()))
            notes.append(f"Operations of other kinds are not looked at: {names}")
        return Given(history, tuple(notes))

    def _kept(self) -> tuple[list[Transaction], int]:
        polled = {one.value for poll in self._polls for one in poll.reads}
        found, left_out = [], 0
        for one in self._transactions:
            sends = tuple(
                send
                for send in one.sends
                if send.offset is not None or send.value in polled or one.outcome is Outcome.FAIL
            )
            left_out += len(one.sends) - len(sends)
            found.append(replace(one, sends=sends))
        return found, left_out

    def _finals(self) -> Iterator[FinalRead]:
        logs: dict[str, dict[tuple[int, str | None], Read]] = {}
        for poll in self._polls:
            for read in poll.reads:
                logs.setdefault(read.topic, {}).setdefault((read.offset, read.value), read)
        for topic, log in sorted(logs.items()):
            reads = tuple(sorted(log.values(), key=lambda one: one.offset))
            yield FinalRead(
                client=ALL_POLLS,
                invoked_ms=self._last_ms,
                completed_ms=self._last_ms,
                isolation=self.isolation,
                topic=topic,
                partition=0,
                start_offset=0,
                end_offset=reads[-1].offset + 1,
                reads=reads,
                is_complete=True,
            )


def _send(step: list[Any]) -> Send:
    """Return a send of Jepsen's, `[:send k v]` or with its offset `[:send k [offset v]]`, as a send of our history."""
    _, key, value = step
    offset, value = value if isinstance(value, list) and len(value) == 2 else (None, value)
    return Send(_topic(key), 0, f"{key}/{value}", offset if isinstance(offset, int) else None)


def _reads(step: list[Any], line: int) -> Iterator[Read]:
    polled = step[1] if len(step) == 2 and step[1] is not None else {}
    if not isinstance(polled, dict):
        raise EdnError(f"line {line}: {step!r} is no poll with a map of keys")
    for key, pairs in polled.items():
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], int):
                raise EdnError(f"line {line}: {pair!r} of a poll of {key} is no [offset value]")
            yield Read(_topic(key), 0, pair[0], f"{key}/{pair[1]}")


def _topic(key: Any) -> str:
    return f"key {key}"
