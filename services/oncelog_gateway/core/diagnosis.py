"""The parts of a diagnosis, which is the answer of `oncelog transactions explain`, and the facts that the rules of
`core.explain_*` read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.ids import Partition
from oncelog.telemetry.events import Event
from oncelog_gateway.core.wording import duration

RECENT_MS: Final = 60_000
"""Refused requests that are older than this are not reported, because their cause is taken to be over."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that a diagnosis rests on. `source` is the role that told it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a diagnosis proposes. `is_safe`: it changes nothing, or only what has to be changed in
    any case.
    """

    command: str
    does: str
    is_safe: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer to what is wrong with something. `incident` is its name for programs; `healthy` and `unknown` are two
    of them.
    """

    incident: str
    verdict: str
    """The diagnosis in a sentence or two."""
    findings: tuple[str, ...] = ()
    """The findings that led to the verdict, in order."""
    evidence: tuple[Evidence, ...] = ()
    next_commands: tuple[Command, ...] = ()
    unknown: tuple[str, ...] = ()
    """The things that could not be read. With them the verdict may be another one."""


@dataclass(frozen=True, slots=True)
class HolderFacts:
    """The facts about the open transaction that holds a partition's last stable offset, as the rules need them."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None = None
    state: str | None = None
    """The transaction's state at its coordinator."""
    age_ms: int | None = None
    idle_ms: int | None = None
    is_hanging: bool | None = None
    first_record_age_ms: int | None = None
    """Age of the first record of a hanging transaction; None where the transaction does not hang or the record is
    gone.
    """


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    partition: Partition
    leader: int
    """Node id of the leader; -1: the partition has none."""
    dead_replicas: tuple[int, ...] = ()
    """Ids of the nodes that have a replica and are fenced or no longer registered."""
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    holder: HolderFacts | None = None
    failure: str = ""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    @property
    def held_back(self) -> int:
        """The number of offsets that an open transaction holds back: no read_committed reader gets them yet. It is 0
        too if the partition's offsets are not known.
        """
        if self.high_watermark is None or self.last_stable_offset is None:
            return 0
        return max(self.high_watermark - self.last_stable_offset, 0)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Markers of decided transactions that one marker sender has not yet delivered to a node."""

    marker_sender: int
    node: int | None
    marker_count: int
    oldest_age_ms: int


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    transactional_id: str
    now: int
    shard: int
    coordinator: int
    """Node id of the coordinator; -1: the shard has none."""
    state: str | None = None
    """The transaction's state; None: the coordinator does not know the id, or did not answer."""
    error: str = ""
    """Kafka's name of the coordinator's refusal."""
    producer_id: int = -1
    producer_epoch: int = -1
    start_ms: int = -1
    timeout_ms: int = -1
    is_two_phase: bool = False
    """True if the application decides the transaction together with another system, so that no time-out ends it
    (KIP-939).
    """
    owner: tuple[int, int] | None = None
    """Id and epoch of the newer producer that kept this two-phase transaction open (KIP-939); only that one may end it.
    None: no producer has kept it.
    """
    partitions: tuple[PartitionFacts, ...] = ()
    changed_ms: int = -1
    """Time at which the coordinator last changed the transaction's state; -1: not known."""
    events: Sequence[Event] = ()
    remembered_since_ms: int | None = None
    """Time of the oldest remembered event of any transaction; None: no event is remembered."""
    shard_events: Sequence[Event] = ()
    queues: tuple[QueueFacts, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def age_ms(self) -> int:
        return max(self.now - self.start_ms, 0)


def ago(now: int, then: int) -> str:
    return f"{seconds(now - then)} ago"


def seconds(milliseconds: int) -> str:
    """Return a duration as text: `0.3 s`, `47 s`, `2 min 22 s`. Durations under ten seconds have tenths."""
    if milliseconds < 10_000:
        return f"{max(milliseconds, 0) / 1000:.1f} s"
    return duration(milliseconds)


def client_of(event: Event) -> str:
    name, host = event.text("client_id"), event.text("client_host")
    return f"client {name!r} at {host}" if name or host else "a client that is not known"
