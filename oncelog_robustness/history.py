"""The history of a run: what clients did and saw, as a list of operations. Checkers know of the clients nothing but
the history.

An operation ends in one of three ways: OK (it happened), FAIL (it did not, and never will), INFO (nobody knows). A
request without a response is INFO. A client that cannot be sure writes INFO, because a checker believes FAIL.

Values are unique in a whole run, so a value names the one send that wrote it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar, get_args

Partition = tuple[str, int]
"""A topic and a partition number."""

RECORDS_DELETED_FROM: Final = "records deleted from"
"""The name of a fact: the topics whose records a workload deletes, with spaces between.
Any other log begins at 0 for ever, because retention removes nothing. Where the fact is missing, nobody knows."""


class Outcome(StrEnum):
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Ending(StrEnum):
    """The ending of a transaction that its client asked for: commit, abort, or none."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"
    """The client died or was refused before it asked for an ending. The coordinator decides instead, when the
    transaction's timeout is over or a successor fences the producer."""


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Send(NamedTuple):
    topic: str
    partition: int
    value: str
    offset: int | None
    """The offset that the broker returned; None if the send was not acknowledged."""
    key: str | None = None
    """The record's key, for compacted topics."""


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str | None
    """The record's value; None for a tombstone."""
    key: str | None = None


class GroupOffsets(NamedTuple):
    group: str
    offsets: tuple[tuple[str, int, int], ...]
    """The offsets, each with topic, partition number and next offset to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation of a client. All times are milliseconds since the run began."""

    client: str
    """The client's name and the number of its start: `writer-2#3` is the third process that had the name `writer-2`."""
    invoked_ms: int
    completed_ms: int | None
    """The time at which the operation completed, in milliseconds; None if it never did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction(Operation):
    """A transaction from begin to end. OK with COMMIT means that every send is in the log. FAIL, or OK with ABORT,
    means that none is. INFO means all or none."""

    transactional_id: str
    protocol: str
    """The transaction version, `TV1` or `TV2`."""
    ending: Ending
    outcome: Outcome
    """The outcome of the ending. With Ending.NONE it is FAIL if nobody can commit the transaction any more."""
    sends: tuple[Send, ...]
    """The sends, in the order of the calls."""
    reads: tuple[Read, ...] = ()
    """The records that the client read in the transaction, or consumed to compute its sends from, at read_committed."""
    offsets: GroupOffsets | None = None
    asked_ms: int | None = None
    """The time just before the client requested the ending, in milliseconds. None: never, or it was not recorded."""
    offsets_taken_ms: int | None = None
    """The time at which the offsets were answered with success, in milliseconds.
    None: never, or it was not recorded."""
    error: str = ""
    timeout_ms: int | None = None
    """The time after which the coordinator may abort the transaction, in milliseconds; None: it was not recorded."""
    is_taken: bool = False
    """True if the client received the answer that somebody else had ended the transaction or fenced its producer,
    before it requested an abort."""
    library: str = ""
    """The client library, such as `aiokafka`; empty: it was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSend(Operation):
    """One send of an idempotent producer outside transactions."""

    send: Send
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll(Operation):
    """One call of `poll` of one consumer, with the records that it returned, in their order."""

    isolation: Isolation
    reads: tuple[Read, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Positioned(Operation):
    """A consumer was assigned partitions or repositioned. Its next reads begin at `positions`, and it no longer
    reads any partition that is not named there."""

    positions: tuple[tuple[str, int, int], ...]
    """The new positions, each with topic, partition number and offset."""
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Operation):
    """A commit of a group's offsets outside a transaction."""

    committed: GroupOffsets
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFetched(Operation):
    """A fetch of a group's committed offsets from the group coordinator. The offset -1 means that the group has
    committed none."""

    fetched: GroupOffsets
    is_final: bool = False
    """True if the fetch was made after healing, with everything decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead(Operation):
    """A read of one partition from its start to its end, after all faults of the run were healed."""

    isolation: Isolation
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    """The end that ListOffsets returned for the partition at this isolation level."""
    reads: tuple[Read, ...]
    is_complete: bool
    """False if the reader gave up before the end; whether a record is missing is then unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Operation):
    """A fault that was injected, from `invoked_ms` to `completed_ms`. Its `client` is `fault-plan`, or `workload` for a
    client that its own workload killed."""

    kind: str
    target: str
    facts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFact(Operation):
    """A fact that a workload records for its own checker, such as the topic of its bank. `facts` is JSON made by
    the workload."""

    kind: str
    facts: str


AnyOperation = (
    Transaction
    | PlainSend
    | Poll
    | Positioned
    | OffsetsCommitted
    | OffsetsFetched
    | FinalRead
    | Fault
    | WorkloadFact
)

OperationT = TypeVar("OperationT", bound=Operation)
FoundT = TypeVar("FoundT")


@dataclass(slots=True)
class History:
    """All operations of a run. It grows while the run goes on; afterwards it is only read."""

    facts: dict[str, str] = field(default_factory=dict)
    """Facts about the run for the report: seed, scenario, target and the like."""
    operations: list[AnyOperation] = field(default_factory=list)
    _found: dict[Any, Any] | None = field(default=None, repr=False, compare=False)
    """The results that `once` keeps, by name; None in a history that may still grow."""

    def sealed(self) -> "History":
        """Return a history of the same operations that nobody may change any more. Only such a history keeps what
        `once` makes."""
        return self if self._found is not None else History(self.facts, self.operations, {})

    def once(self, name: Any, make: Callable[[], FoundT]) -> FoundT:
        """Return the result of `make`. A sealed history, which does not grow any more, calls `make` once for each
        `name` and keeps the result. Nobody may change it."""
        if self._found is None:
            return make()
        if name not in self._found:
            self._found[name] = make()
        found: FoundT = self._found[name]
        return found

    def add(self, operation: AnyOperation) -> None:
        """Append an operation. It has completed, or nobody will receive its response any more."""
        self.operations.append(operation)

    def all(self, kind: type[OperationT]) -> list[OperationT]:
        """Return the operations of one kind, by the time they began. Nobody may change the list."""
        return self.once(kind, lambda: self._all(kind))

    def _all(self, kind: type[OperationT]) -> list[OperationT]:
        found = [one for one in self.operations if type(one) is kind]
        return sorted(found, key=lambda one: one.invoked_ms)

    def lines(self) -> Iterator[str]:
        """Yield the history as lines of JSON, for a file. The first line has the facts about the run, each further
        one an operation."""
        yield json.dumps({"facts": self.facts})
        for operation in self.operations:
            yield json.dumps({"operation": type(operation).__name__, **asdict(operation)})

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "History":
        """Return the history that these lines hold, as `lines` has written them. Raises ValueError with the number
        of a line that is no operation."""
        history = cls()
        for number, line in enumerate(lines, start=1):
            content = json.loads(line)
            if "operation" not in content and "facts" in content:
                history.facts = dict(content["facts"])
            else:
                history.add(_operation(content, number))
        return history


def _string(text: str) -> str:
    """Return one shared object for equal strings, to save memory: the same names stand in very many operations."""
    return intern(text)


def _name(text: str | None) -> str | None:
    return None if text is None else intern(text)


def _offsets(content: Any) -> GroupOffsets:
    group, offsets = content
    return GroupOffsets(_string(group), _positions(offsets))


def _positions(content: Any) -> tuple[tuple[str, int, int], ...]:
    return tuple((_string(topic), number, at) for topic, number, at in content)


def _send(content: Any) -> Send:
    topic, number, value, offset, key = content
    return Send(intern(topic), number, intern(value), offset, key)


def _reads(content: Any) -> tuple[Read, ...]:
    # Millions of them: `tuple.__new__` takes a third of the time of `Read`.
    make = tuple.__new__
    return tuple(
        [
            make(
                Read,
                (intern(topic), number, offset, None if value is None else intern(value), key),
            )
            for topic, number, offset, value, key in content
        ]
    )


_KINDS: Final[Mapping[str, type[Any]]] = {kind.__name__: kind for kind in get_args(AnyOperation)}
_FIELDS: Final = {name: frozenset(one.name for one in fields(_KINDS[name])) for name in _KINDS}
_LATER: Final = frozenset(("library",))
"""The fields that histories of older versions lack."""
_READERS: Final[Mapping[str, Any]] = {
    "client": _string,
    "library": _string,
    "transactional_id": _string,
    "protocol": _string,
    "topic": _string,
    "group": _name,
    "outcome": Outcome,
    "ending": Ending,
    "isolation": Isolation,
    "send": _send,
    "sends": lambda many: tuple(_send(one) for one in many),
    "reads": _reads,
    "positions": _positions,
    "offsets": lambda one: None if one is None else _offsets(one),
    "committed": _offsets,
    "fetched": _offsets,
}


def _operation(content: dict[str, Any], number: int) -> AnyOperation:
    name = str(content.pop("operation", ""))
    known = _FIELDS.get(name)
    if known is None or content.keys() | (_LATER & known) != known:
        raise ValueError(f"line {number} is no operation of a history: {str(content)[:200]}")
    for field_name, value in content.items():
        reader = _READERS.get(field_name)
        if reader is not None:
            content[field_name] = reader(value)
    found: AnyOperation = _KINDS[name](**content)
    return found
