"""The contract of a state machine without I/O: events and time go in, records and effects come out.

A machine owns the state of one shard. `decide` only reads; what it wants to change it returns as records. The driver
(`oncelog.runtime`) appends those records to the machine's journal and passes them to `apply`, which changes the state.
It releases replies and sends only when the records are committed: a reader never sees what a crash could take back.

There is no undo. When an append fails, the driver drops the machine and replays the journal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Never, Protocol, TypeAlias, TypeVar

from oncelog.ids import Millis, Offset

EventT = TypeVar("EventT", contravariant=True)
RecordT = TypeVar("RecordT")
RecordIn = TypeVar("RecordIn")
RecordOut = TypeVar("RecordOut", covariant=True)

Answer: TypeAlias = Any
"""The answer to a request: each request of each machine has a type of its own, which who asks knows."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An effect: send this answer to the caller of the request that the event carried."""

    request_id: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Send:
    """An effect: send this message to another role. A crash may lose it; `resume` returns it again from replayed
    state.
    """

    destination: str
    message: object


@dataclass(frozen=True, slots=True)
class SetTimer:
    """An effect: give the state machine `event` after `after_ms`, plus up to `jitter_ms` that the driver draws by
    chance.

    It replaces a timer of the same name.
    """

    name: str
    after_ms: Millis
    event: object
    jitter_ms: Millis = Millis(0)


@dataclass(frozen=True, slots=True)
class CancelTimer:
    name: str


Effect = Reply | Send | SetTimer | CancelTimer
"""The four kinds of effect. A fifth kind needs an ADR."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[RecordOut]):
    """A state machine's decision on an event: the records to append, and the effects that follow once they are
    committed.

    `label` names the branch taken (`"prepared"`, `"fenced"`): it is the log line, the metric and the coverage mark.
    """

    records: tuple[RecordOut, ...] = ()
    effects: tuple[Effect, ...] = ()
    label: str = ""
    unlogged: tuple[RecordOut, ...] = ()
    """Changes that no journal keeps, such as an extended session. They are applied behind `records` at offset -1. A
    replay forgets them, so nothing that was ever promised may rest on one (ADR 0019)."""
    needs_confirmation: bool = False
    """True if nothing is written and the effects still wait: the journal must confirm that no one else has written (ADR
    0050)."""


class Request(Protocol):
    """An event that gets one answer, for which it carries a request id."""

    @property
    def request_id(self) -> int: ...


def answered(event: Request, answer: Answer, label: str) -> Decision[Never]:
    """Return a decision that changes nothing and only answers the event's request."""
    return Decision((), (Reply(event.request_id, answer),), label)


class Machine(Protocol[EventT, RecordIn]):
    def decide(self, event: EventT, now: Millis) -> Decision[RecordIn]:
        """Return the decision on an event. It only reads state, changes nothing and does no I/O."""

    def apply(self, offset: Offset, record: RecordIn) -> None:
        """Change the state by a record that `decide` returned or a replay read, or (at offset -1) by an unlogged
        change.

        It may not refuse: a record that does not fit is a bug and asserts.
        """

    def resume(self, now: Millis) -> Sequence[Effect]:
        """Return, after a replay, the effects that the state still requires: timers to set, messages to send."""
