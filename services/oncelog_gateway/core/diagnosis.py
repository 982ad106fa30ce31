"""What a diagnosis is made of, and the facts that the rules read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.ids import Partition
from oncelog.telemetry.events import Event
from oncelog_gateway.core.wording import duration

RECENT_MS: Final = 60_000
"""Refusals and loops older than this are the past."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact, and who says it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Command:
    """What to type next. Safe: it changes nothing, or only what has to be changed in any case."""

    command: str
    does: str
    is_safe: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`incident` is a word for programs; `healthy` and `unknown` are two of them."""

    incident: str
    verdict: str
    """The answer in a sentence or two."""
    findings: tuple[str, ...] = ()
    """How it came to that, in order."""
    evidence: tuple[Evidence, ...] = ()
    next_commands: tuple[Command, ...] = ()
    unknown: tuple[str, ...] = ()
    """What could not be read; the verdict may be another one with it."""


@dataclass(frozen=True, slots=True)
class HolderFacts:
    """The open transaction that holds a partition's last stable offset."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None = None
    state: str | None = None
    """At its coordinator."""
    age_ms: int | None = None
    idle_ms: int | None = None
    is_hanging: bool | None = None
    first_record_age_ms: int | None = None
    """Of one that hangs, where its first record is still there."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    partition: Partition
    leader: int
    """-1: none."""
    dead_replicas: tuple[int, ...] = ()
    """Nodes that host it and do not live."""
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    holder: HolderFacts | None = None
    failure: str = ""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"

    @property
    def held_back(self) -> int:
        """Records that read_committed cannot reach yet."""
        if self.high_watermark is None or self.last_stable_offset is None:
            return 0
        return max(self.high_watermark - self.last_stable_offset, 0)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Markers that wait for a node at one marker sender."""

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
    """Node id; -1: the shard has none."""
    state: str | None = None
    """None: the coordinator does not know the id, or did not answer."""
    error: str = ""
    """Kafka's name of the coordinator's refusal."""
    producer_id: int = -1
    producer_epoch: int = -1
    start_ms: int = -1
    timeout_ms: int = -1
    is_two_phase: bool = False
    """Its application decides it together with another system, and no time-out ends it (KIP-939)."""
    owner: tuple[int, int] | None = None
    """Producer id and epoch of the producer that it was kept for; None: it was not kept."""
    partitions: tuple[PartitionFacts, ...] = ()
    changed_ms: int = -1
    """When its coordinator last changed its state."""
    events: Sequence[Event] = ()
    remembered_since_ms: int | None = None
    """Time of the oldest event of any transaction. None: no event is remembered."""
    shard_events: Sequence[Event] = ()
    queues: tuple[QueueFacts, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def age_ms(self) -> int:
        return max(self.now - self.start_ms, 0)


def ago(now: int, then: int) -> str:
    return f"{seconds(now - then)} ago"


def seconds(milliseconds: int) -> str:
    """`0.3 s`, `47 s`, `2 min 22 s`: as everywhere, but for tenths of what has just happened."""
    if milliseconds < 10_000:
        return f"{max(milliseconds, 0) / 1000:.1f} s"
    return duration(milliseconds)


def client_of(event: Event) -> str:
    name, host = event.text("client_id"), event.text("client_host")
    return f"client {name!r} at {host}" if name or host else "a client that is not known"
