"""Finds hanging transactions: open transactions that nobody is going to end.

A transaction *hangs* when a partition has it open and its coordinator does not: no marker will ever come, and the
partition's last stable offset stays below it for good (KIP-664). The two sides cannot be read in one instant, so the
question is asked as a sandwich:

    1. read the partition            the transaction is open, first offset F
    2. read the coordinator          no open transaction of this producer id has the partition
    3. read the partition again      the same producer id, epoch and F are still open

A coordinator lists a partition before its first record is written (it is added or verified first) and until its marker
is acknowledged. Had the transaction ended before 2, its marker would be in the log and 3 would not see F. So what
passes all three steps is open without an owner. Steps 1 and 2 alone would accuse every transaction that commits in
between.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.ids import CoordinatorEpoch, Millis, Offset, Partition, ProducerEpoch, ProducerId

OPEN_STATES: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""States in which a coordinator still owes its partitions a marker (docs/kafka-facts.md, 8.2)."""

DECIDED_STATES: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""States in which the outcome is fixed and the markers are on their way."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, as the partition's leader describes it."""

    partition: Partition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_offset: Offset
    coordinator_epoch: CoordinatorEpoch
    """Coordinator epoch of the last marker for this producer id in the partition; -1: none yet."""
    last_timestamp_ms: Millis
    last_offset: Offset | None = None
    """Offset of the transaction's last record so far; None: the leader runs an older build and does not tell it."""


@dataclass(frozen=True, slots=True)
class CoordinatedTransaction:
    """A transaction as its coordinator describes it."""

    transactional_id: str
    state: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_time_ms: Millis
    partitions: frozenset[Partition]
    is_two_phase: bool = False
    """True if the application decides the transaction together with another system, so that no time-out ends it
    (KIP-939).
    """

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class Shown:
    """A filter of a list of hanging transactions: which are shown. The others are only counted."""

    min_idle_ms: int = 0
    """Show transactions that have had no record for at least this long."""
    max_transaction_timeout_ms: int | None = None
    """Show transactions that have had no record for longer than this, as Kafka's tool compares. No transaction of a
    live producer is silent for longer.
    """
    coordinator: int | None = None
    """Show transactions whose transactional id is known and has this node as its coordinator."""

    def shows(self, idle_ms: int | None, coordinator: int | None) -> bool:
        """True if the filter shows the transaction. `idle_ms` is the time since its last record. None means that it is
        unknown: then the transaction is shown.
        """
        if self.coordinator is not None and coordinator != self.coordinator:
            return False
        if idle_ms is None:
            return True
        timeout_ms = self.max_transaction_timeout_ms
        return idle_ms >= self.min_idle_ms and (timeout_ms is None or idle_ms > timeout_ms)


class Coordinated:
    """The transactions that coordinators answered with, indexed by producer id: there may be ten thousand
    to look up.
    """

    def __init__(self, transactions: Iterable[CoordinatedTransaction]) -> None:
        self._of: dict[ProducerId, list[CoordinatedTransaction]] = defaultdict(list)
        for one in transactions:
            self._of[one.producer_id].append(one)

    def of(self, opened: OpenTransaction) -> Sequence[CoordinatedTransaction]:
        """Return the coordinators' transactions that have the producer id of `opened`."""
        return self._of.get(opened.producer_id, ())


def owner_of(
    opened: OpenTransaction, coordinated: Iterable[CoordinatedTransaction]
) -> CoordinatedTransaction | None:
    """Return the coordinator's transaction that will end this one, or None.

    Producer epochs are not compared: a prepared TV2 transaction already carries the bumped epoch of its marker. A
    marker of any epoch that the leader accepts ends what is open in the partition (docs/kafka-facts.md, 8.11, 9).
    """
    for candidate in coordinated:
        if (
            candidate.producer_id == opened.producer_id
            and candidate.is_open
            and opened.partition in candidate.partitions
        ):
            return candidate
    return None


def named_by(
    opened: OpenTransaction, coordinated: Iterable[CoordinatedTransaction]
) -> CoordinatedTransaction | None:
    """Return the coordinator's transaction that has this producer id, whatever its state is now; None when no
    coordinator knows the producer id.
    """
    return next((one for one in coordinated if one.producer_id == opened.producer_id), None)


def still_open(
    opened: Iterable[OpenTransaction], later: Iterable[OpenTransaction]
) -> tuple[OpenTransaction, ...]:
    """Return the transactions of the first reading of a partition that the second reading shows unchanged."""
    seen = {_identity(one) for one in later}
    return tuple(one for one in opened if _identity(one) in seen)


def _identity(one: OpenTransaction) -> tuple[Partition, int, int, int]:
    return (one.partition, one.producer_id, one.producer_epoch, one.start_offset)
