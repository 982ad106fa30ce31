"""The messages between a shard's state machine and the marker sender: the markers of a decision, and how their delivery
ended.

Both machines of a shard (ordinary transactions and Spark sinks) use these messages. A machine that has decided to
commit or abort emits `Send(MARKER_SENDER, MarkersWanted(…))`. The shell adds the coordinator epoch, delivers, and gives
the machine `MarkersDelivered` with the same key. A crash may lose either: `resume()` asks for the markers again, and a
marker that is there already is harmless (docs/kafka-facts.md, 8.11).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId
from oncelog.trace import TransactionTrace

MARKER_SENDER: Final = "marker_sender"
"""The destination of a `Send` that carries `MarkersWanted`."""

RESEND_AFTER_MS: Final = Millis(5_000)
"""The time in milliseconds after which a refused delivery is tried again. News of a moved shard arrives within it; a
fencing by mistake does not hold up an LSO for long."""

TXN_MACHINE: Final = "txn"
SINK_MACHINE: Final = "sink"


class DecisionKey(NamedTuple):
    """Names one decision to commit or abort, so that a late report of its markers cannot complete a later decision.

    It is valid while the state machine is loaded. `number` must differ between two decisions of the same name: a TV1
    producer keeps its epoch, so the producer id and epoch are not enough.
    """

    machine: str
    """TXN_MACHINE or SINK_MACHINE: the machine that gets `MarkersDelivered`."""
    name: str
    """The transactional.id, or the name of the sink."""
    number: int


@dataclass(frozen=True, slots=True)
class MarkerWanted:
    """The markers to write for one producer id: one in each partition.

    `producer_epoch` is the stored epoch, already bumped in TV2 (docs/kafka-facts.md, 8.11).
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commit: bool
    transaction_version: int
    """The version by which leaders check the epoch. 0, 1: a leader accepts an epoch >= its own; 2: only a greater
    one."""
    partitions: tuple[Partition, ...]
    start_timestamp: Millis = Millis(0)
    """The start of the transaction in milliseconds, by which leaders recognise a late marker of TV1; 0: unknown."""
    transactional_id: str = ""
    """The transactional.id by which a leader asks when the open transaction began; stated under TV1 only."""
    trace: TransactionTrace | None = None
    """The trace that the markers belong to, in every process that sends or writes them."""
    is_trace_kept: bool = False
    """True if the trace is exported, even if the markers alone would give no reason for that."""


@dataclass(frozen=True, slots=True)
class MarkersWanted:
    decision_key: DecisionKey
    markers: tuple[MarkerWanted, ...]


class DeliveryOutcome(Enum):
    DELIVERED = "delivered"
    """Every partition has its marker, or no longer exists."""
    FENCED = "fenced"
    """Leaders have seen a newer coordinator or producer epoch; every other partition has its marker."""
    CANCELLED = "cancelled"
    """The marker sender was told that the shard moved away."""


@dataclass(frozen=True, slots=True)
class MarkersDelivered:
    """The event by which the marker sender reports to a state machine how a delivery of markers ended.

    While a machine is loaded the shell asks for each delivery once, reports one outcome, and asks again only after a
    refusal. A report for a decision that no longer waits is ignored.
    """

    decision_key: DecisionKey
    outcome: DeliveryOutcome
    dropped: tuple[Partition, ...] = ()
    """The partitions without a marker, because they no longer exist."""
