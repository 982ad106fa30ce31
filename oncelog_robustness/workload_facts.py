"""Facts that workloads record in the history for their own checkers, such as "here a ring of tokens begins". Values
of records that carry a meaning are here too.

Workloads and checkers both import this module and nothing of each other. A fact is a frozen dataclass of strings,
numbers, booleans and tuples of them. `note` makes an operation of it for the history, and `facts_of` finds all
facts of one kind in a history.

Three kinds of value carry a meaning: a token on its way round a ring, a booking of a bank, and a copy of a record.
Values are unique in a run, so each has a part `unique`, which is whatever the client likes, for example
`mover-2#3/17`.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from oncelog_robustness.history import History, Outcome, WorkloadFact

SEPARATOR: Final = "|"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerReady:
    """A fact in the history: one call of `init_transactions`, whose times the operation has. When it has returned,
    the producers that had the transactional id before are fenced. An operation that never completed was not
    answered: it may fence them at any time."""

    kind: ClassVar[str] = "producer-ready"
    transactional_id: str
    protocol: str
    producer_id: int = -1
    """The producer id; -1 if the library does not tell it."""
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRing:
    """A fact in the history, written once in setup: a ring of tokens, which move round the partitions of a topic. A
    client takes a token from one partition and puts it into the next, in one transaction with the group's offset.

    Each move is a hop. Setup writes hop 0 of each token; hop `h` lies in partition `(start + h) % places` for any
    start.
    """

    kind: ClassVar[str] = "token-ring"
    topic: str
    places: int
    tokens: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BankOpened:
    """A fact in the history, written once: a bank, a topic of bookings, is open. All deposits have been made. They are
    bookings too, and add up to `total`.

    The value of each booking names its account (`booking_value`). A transfer is a transaction of two bookings whose
    amounts add up to 0.
    """

    kind: ClassVar[str] = "bank-opened"
    topic: str
    partitions: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRead:
    """A fact in the history: the balance of each account, summed up over all bookings in a read_committed read of
    the bank's topic."""

    kind: ClassVar[str] = "bank-read"
    topic: str
    balances: tuple[tuple[str, int], ...]
    is_consistent: bool
    """True if the read saw each transfer whole or not at all: all partitions were read to their ends while no client
    wrote and no transaction was open. A partition read to its LSO is not enough: a transfer may be half below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """A fact in the history, written once in setup: the members of `group` copy each committed record of one topic
    into another. Each copy is in one transaction with the group's offsets, and its value names its original
    (`copy_value`)."""

    kind: ClassVar[str] = "copier"
    input_topic: str
    output_topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDeleted:
    """A fact in the history: a tombstone was sent. The same transaction sent a record with the value `with_value`
    before it, so both are committed or neither is."""

    kind: ClassVar[str] = "key-deleted"
    topic: str
    partition: int
    key: str
    offset: int
    """The offset of the tombstone; -1 if it was not acknowledged."""
    with_value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTask:
    """A fact in the history: one try of one task to write its rows of a micro-batch to a sink, with all values that
    it may have written.

    An attempt is one try of Spark's driver to write the micro-batch; each of its tasks may run several times. The
    fact is written before the try sends its first record, or when the try has ended, sealed or not.
    """

    kind: ClassVar[str] = "spark-task"
    sink: str
    query: str
    batch: int
    attempt: str
    """The attempt's nonce (random bits that name it), or any other name that only this attempt has."""
    task: int
    branch: str
    """The name of this try of the task, which is unique in the attempt."""
    values: tuple[tuple[str, int, str], ...]
    """The values that the try may have written, each with topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkBatchEnded:
    """A fact in the history: a Spark driver's call to commit, abort or give up an attempt (one try to write a
    micro-batch) is over, answered or not."""

    kind: ClassVar[str] = "spark-batch-ended"
    sink: str
    query: str
    batch: int
    attempt: str
    outcome: str
    """The `Outcome` of the attempt: ok, it was committed (also if by an earlier call); fail, it never
    will be; info, nobody knows."""
    winners: tuple[tuple[int, str], ...]
    """The winning tries as the driver named them, each with its task and branch; empty if it never tried to commit."""

    @property
    def was(self) -> Outcome:
        return Outcome(self.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """A fact in the history: how far a group had read when a workload waited for it after healing. It is written
    when the group has read all, or when the waiting time is up."""

    kind: ClassVar[str] = "group-progress"
    group: str
    waited_ms: int
    partitions: tuple[tuple[str, int, int, int], ...]
    """Each partition with its topic, the group's committed offset (-1 for none), and the least offset
    that means all was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentsBooked:
    """A fact in the history: all payments in the database at the end of a run of the workload `prepared`. The topic
    must have one record for each payment, whose value is the payment's name, and no other record."""

    kind: ClassVar[str] = "payments-booked"
    topic: str
    partitions: int
    payments: tuple[tuple[str, str, str, int], ...]
    """Each payment with its value, transactional id, the transaction's stored text, and when
    the database committed it."""


class Copy(NamedTuple):
    unique: str
    original: str


class Token(NamedTuple):
    token: int
    hop: int
    unique: str


class Booking(NamedTuple):
    account: str
    amount: int
    unique: str


Fact = (
    ProducerReady
    | TokenRing
    | BankOpened
    | BankRead
    | Copier
    | KeyDeleted
    | SparkTask
    | SparkBatchEnded
    | GroupProgress
    | PaymentsBooked
)
FactT = TypeVar(
    "FactT",
    ProducerReady,
    TokenRing,
    BankOpened,
    BankRead,
    Copier,
    KeyDeleted,
    SparkTask,
    SparkBatchEnded,
    GroupProgress,
    PaymentsBooked,
)


def note(fact: Fact, *, client: str, invoked_ms: int, completed_ms: int | None) -> WorkloadFact:
    return WorkloadFact(
        client=client,
        invoked_ms=invoked_ms,
        completed_ms=completed_ms,
        kind=fact.kind,
        facts=json.dumps(asdict(fact)),
    )


def facts_of(history: History, kind: type[FactT]) -> list[tuple[WorkloadFact, FactT]]:
    """Return all facts of this kind that workloads recorded in the history, each with its operation, in the order
    in which they began. Raises ValueError for a fact whose fields do not fit the kind."""
    return [
        (entry, _decoded(entry, kind))
        for entry in history.all(WorkloadFact)
        if entry.kind == kind.kind
    ]


def _decoded(entry: WorkloadFact, kind: type[FactT]) -> FactT:
    content = json.loads(entry.facts)
    if set(content) != {one.name for one in fields(kind)}:
        raise ValueError(f"no facts of {kind.kind}: {entry.facts[:200]}")
    return kind(**{name: _frozen(value) for name, value in content.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def token_value(token: int, hop: int, unique: str) -> str:
    return SEPARATOR.join(("token", str(token), str(hop), unique))


def token_of(value: str) -> Token | None:
    """Return the token that a record's value describes, in the workload `token_ring`; None for a value that is no
    token."""
    parts = value.split(SEPARATOR, 3)
    if len(parts) != 4 or parts[0] != "token":
        return None
    return Token(int(parts[1]), int(parts[2]), parts[3])


def booking_value(account: str, amount: int, unique: str) -> str:
    return SEPARATOR.join(("booking", account, str(amount), unique))


def booking_of(value: str) -> Booking | None:
    """Return the booking that a record's value describes, in the workload `bank`; None for a value that is no
    booking."""
    parts = value.split(SEPARATOR, 3)
    if len(parts) != 4 or parts[0] != "booking":
        return None
    return Booking(parts[1], int(parts[2]), parts[3])


def copy_value(unique: str, original: str) -> str:
    return SEPARATOR.join(("copy", unique, original))


def copy_partition(offset: int, partitions: int) -> int:
    """Return the partition of the output topic that the copy of a record belongs in, in the workload `copier`. It
    depends on the record's offset alone, not on its partition."""
    return offset % partitions


def copy_of(value: str) -> Copy | None:
    """Return the copy that a record's value describes, in the workload `copier`; None for a value that is no copy."""
    parts = value.split(SEPARATOR, 2)
    if len(parts) != 3 or parts[0] != "copy":
        return None
    return Copy(parts[1], parts[2])
