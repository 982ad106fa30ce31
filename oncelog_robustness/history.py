"""What clients did and saw, in the order in which it began. Checkers read this and nothing else of a client.

An operation ends in one of three ways: OK (it happened), FAIL (it did not, and never will), INFO (nobody knows). A
request without an answer is INFO. A client that cannot be sure says INFO: a checker that is told FAIL believes it.

Values are unique in a whole run, so a value names the one send that wrote it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar, get_args

Partition = tuple[str, int]
"""Topic and partition number."""

RECORDS_DELETED_FROM: Final = "records deleted from"
"""The name of a fact: the topics of which a workload deletes records, with spaces between. The log of any other topic
begins at 0 for ever, because nothing in it becomes too old or too much. Where the fact is missing, nobody knows.
"""


class Outcome(StrEnum):
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Ending(StrEnum):
    """What the client asked for at the end of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"
    NONE = "none"
    """It died before it asked, or was refused before: the coordinator decides, by timeout or by fencing."""


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Send(NamedTuple):
    topic: str
    partition: int
    value: str
    offset: int | None
    """Where the broker said it is; None when the send was not acknowledged."""
    key: str | None = None
    """For compacted topics."""


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str | None
    """None: a tombstone."""
    key: str | None = None


class GroupOffsets(NamedTuple):
    group: str
    offsets: tuple[tuple[str, int, int], ...]
    """Topic, partition, next offset to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Times are milliseconds since the run began."""

    client: str
    """One incarnation of one client, `writer-2#3`."""
    invoked_ms: int
    completed_ms: int | None
    """None: it never completed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction(Operation):
    """From begin to end. OK with COMMIT: every send is there. FAIL, or OK with ABORT: none is. INFO: all or none."""

    transactional_id: str
    protocol: str
    """`TV1` or `TV2`."""
    ending: Ending
    outcome: Outcome
    """Of the ending. With Ending.NONE it is FAIL if the transaction can no longer be committed by anybody."""
    sends: tuple[Send, ...]
    """In the order of the calls."""
    reads: tuple[Read, ...] = ()
    """What it read between its begin and its end, or consumed to compute its sends from, at read_committed."""
    offsets: GroupOffsets | None = None
    asked_ms: int | None = None
    """When it asked for its ending, just before the call; None: it never did, or nobody wrote it down."""
    offsets_taken_ms: int | None = None
    """When its offsets were answered with success; None: they never were, or nobody wrote it down."""
    error: str = ""
    timeout_ms: int | None = None
    """After which the coordinator may abort it; None: nobody wrote it down."""
    is_taken: bool = False
    """Before its own abort was asked for it was told that it is over, or its producer fenced, by somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSend(Operation):
    """One send of an idempotent producer outside transactions."""

    send: Send
    outcome: Outcome
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll(Operation):
    """What one consumer was handed by one call, in that order."""

    isolation: Isolation
    reads: tuple[Read, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Positioned(Operation):
    """The consumer was assigned partitions or sought: from here on its next reads begin at `positions`.

    A partition that is not named is not read by this consumer any more.
    """

    positions: tuple[tuple[str, int, int], ...]
    """Topic, partition, offset."""
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted(Operation):
    """A group's offsets committed outside a transaction."""

    committed: GroupOffsets
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFetched(Operation):
    """What the group coordinator said is committed; -1 for none."""

    fetched: GroupOffsets
    is_final: bool = False
    """Read after healing, with everything decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead(Operation):
    """One partition read from its start to its end after healing."""

    isolation: Isolation
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    """What ListOffsets called its end at this isolation level."""
    reads: tuple[Read, ...]
    is_complete: bool
    """False: the reader gave up before the end; what is missing is then unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Operation):
    """`client` is the fault plan; it lasts from `invoked_ms` to `completed_ms`."""

    kind: str
    target: str
    facts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFact(Operation):
    """What a workload tells its own checker: `facts` is JSON made by the workload."""

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
    """Grows while a run goes on; afterwards it is only read."""

    facts: dict[str, str] = field(default_factory=dict)
    """Seed, scenario, target and the like, for the report."""
    operations: list[AnyOperation] = field(default_factory=list)
    _found: dict[Any, Any] | None = field(default=None, repr=False, compare=False)
    """What was found out once: only of a history that is sealed."""

    def sealed(self) -> "History":
        """The same operations, to be read and not changed any more: what `once` made of them is kept."""
        return History(self.facts, self.operations, {})

    def once(self, name: Any, make: Callable[[], FoundT]) -> FoundT:
        """What `make` returns. A sealed history calls it once for each `name`; nobody may change the result."""
        if self._found is None:
            return make()
        if name not in self._found:
            self._found[name] = make()
        found: FoundT = self._found[name]
        return found

    def add(self, operation: AnyOperation) -> None:
        """When it completed, or when nobody will receive its answer any more."""
        self.operations.append(operation)

    def all(self, kind: type[OperationT]) -> list[OperationT]:
        """The operations of one kind, by the time they began. Nobody may change the list."""
        return self.once(kind, lambda: self._all(kind))

    def _all(self, kind: type[OperationT]) -> list[OperationT]:
        found = [one for one in self.operations if type(one) is kind]
        return sorted(found, key=lambda one: one.invoked_ms)

    def lines(self) -> Iterator[str]:
        """JSON lines, the first one the facts."""
        yield json.dumps({"facts": self.facts})
        for operation in self.operations:
            yield json.dumps({"operation": type(operation).__name__, **asdict(operation)})

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "History":
        """Raises ValueError naming the line that is none of ours."""
        history = cls()
        for number, line in enumerate(lines, start=1):
            content = json.loads(line)
            if "operation" not in content and "facts" in content:
                history.facts = dict(content["facts"])
            else:
                history.add(_operation(content, number))
        return history


def _string(text: str) -> str:
    """A string of a history stands in many operations, and once in memory."""
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
_READERS: Final[Mapping[str, Any]] = {
    "client": _string,
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
    if content.keys() != _FIELDS.get(name):
        raise ValueError(f"line {number} is no operation of a history: {str(content)[:200]}")
    for field_name, value in content.items():
        reader = _READERS.get(field_name)
        if reader is not None:
            content[field_name] = reader(value)
    found: AnyOperation = _KINDS[name](**content)
    return found
