"""The sequences of an idempotent producer, for each partition: those given to batches, and whether a batch between them
may be missing in the log (a hole).

```
 stamped ─▶ under way ─▶ acknowledged
     ▲          │ refused, retriable: goes again with the same sequence, before all others
     └──────────┘
```

A batch that is given up after it was sent may have been written or not. Nothing new is drained for its partition until
those behind it are answered: an acknowledgement shows that there is no hole. Without one the partition begins again at
0 in a new epoch (KIP-360).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog.client.core.producer_batch import Order, ProducerBatch
from oncelog.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX, Partition


class Identity(NamedTuple):
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_known(self) -> bool:
        return self.producer_id >= 0

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= PRODUCER_EPOCH_MAX


NOBODY = Identity()


@dataclass(slots=True)
class _Line:
    """The sequences of one partition: the next one, and the batches that have one and are not done."""

    identity: Identity
    next_sequence: int = 0
    unfinished: dict[Order, ProducerBatch] = field(default_factory=dict)
    """Batches with a sequence that are not done: under way, or waiting to be retried."""
    stamped: int = 0
    """Number of batches that were given a sequence."""
    places: dict[Order, int] = field(default_factory=dict)
    """For each unfinished batch: how many batches were given a sequence before it."""
    given_up: Order | None = None
    """The newest batch that was given up; a hole may be there."""
    has_hole: bool = False
    """True if a leader refused a batch because an earlier one is missing, or because it lost the producer's state."""

    def add(self, batch: ProducerBatch) -> None:
        """Store a batch that has just got its sequence, as not done."""
        self.next_sequence = batch.next_sequence
        self.unfinished[batch.order] = batch
        self.places[batch.order] = self.stamped
        self.stamped += 1

    def remove(self, order: Order) -> None:
        """Forget a batch that is delivered or has failed, so that it no longer counts as unfinished."""
        del self.unfinished[order], self.places[order]


class Sequences:
    def __init__(self, in_flight_max: int) -> None:
        self.identity = NOBODY
        self._lines: dict[Partition, _Line] = {}
        self._in_flight_max = in_flight_max

    def start(self, identity: Identity) -> None:
        """Use a new producer id and epoch: each partition begins at sequence 0, once its batches under the old one are
        done."""
        self.identity = identity
        self._lines = {one: line for one, line in self._lines.items() if line.unfinished}

    def bump(self, partitions: list[Partition]) -> bool:
        """Raise the producer epoch, unless these partitions have not used the present one. False: the epoch is
        exhausted, and a new producer id is needed."""
        if all(self._lines[one].identity != self.identity for one in partitions):
            return True
        if self.identity.is_exhausted:
            self.identity = NOBODY
            return False
        self.identity = self.identity._replace(producer_epoch=self.identity.producer_epoch + 1)
        return True

    # ---------------------------------------------------------------------------------------------- sending

    def may_drain(self, batch: ProducerBatch) -> bool:
        if not self.identity.is_known:
            return False
        line = self._lines.get(batch.partition)
        if line is None:
            return True
        if line.has_hole:
            return False
        if batch.has_sequence:
            # The batch is retried: no batch before it may be unfinished, or it would be out of order again.
            return min(line.unfinished) == batch.order
        if line.given_up is not None:
            return False
        if line.identity != self.identity and line.unfinished:
            return False
        if not line.unfinished:
            return True
        # Counted from the oldest one that is unfinished, whatever was acknowledged since: a leader knows the last five
        # batches again, and no older one.
        return line.stamped - min(line.places.values()) < self._in_flight_max

    def stamp(self, batch: ProducerBatch) -> None:
        """Write producer id, epoch and the next sequence into the batch; a batch that is retried keeps what it has."""
        if batch.has_sequence:
            return
        line = self._lines.get(batch.partition)
        if line is None or line.identity != self.identity:
            line = self._lines[batch.partition] = _Line(self.identity)
        batch.assign(*line.identity, line.next_sequence)
        line.add(batch)

    # ---------------------------------------------------------------------------------------------- answers

    def acknowledged(self, batch: ProducerBatch) -> None:
        line = self._line_of(batch)
        if line is None:
            return
        line.remove(batch.order)
        # Leaders take sequences without a gap: so whatever was given up before this one was written.
        if line.given_up is not None and batch.order > line.given_up:
            line.given_up = None

    def is_real_hole(self, batch: ProducerBatch) -> bool:
        """True if no earlier batch of the partition is unfinished: then OUT_OF_ORDER_SEQUENCE_NUMBER means that one is
        missing for good."""
        line = self._line_of(batch)
        return line is None or min(line.unfinished) == batch.order

    def found_hole(self, batch: ProducerBatch) -> None:
        """Mark that a batch is missing in this partition's log: it must begin again at sequence 0 in a new epoch."""
        line = self._line_of(batch)
        if line is not None:
            line.has_hole = True

    def gave_up(self, batch: ProducerBatch) -> None:
        """Remove a batch that failed for good. It may have been sent, so its partition may have a hole until a later
        batch is acknowledged."""
        line = self._line_of(batch)
        if line is not None:
            line.remove(batch.order)
            line.given_up = max(batch.order, line.given_up or batch.order)

    def replaced(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Register the parts of a batch that was refused as too large. They use its sequences, so later batches keep
        theirs."""
        line = self._line_of(batch)
        if line is None:
            return
        place, sequence = line.places[batch.order], batch.base_sequence
        line.remove(batch.order)
        line.stamped += len(parts) - 1
        for part in parts:
            part.assign(batch.producer_id, batch.producer_epoch, sequence)
            sequence = part.next_sequence
            line.unfinished[part.order], line.places[part.order] = part, place

    def partitions_to_begin_again(self) -> list[Partition]:
        """Return the partitions that must begin again at sequence 0: a batch is missing there, or may be, and no batch
        is under way."""
        return [
            partition
            for partition, line in self._lines.items()
            if (line.has_hole and not any(one.is_under_way for one in line.unfinished.values()))
            or (line.given_up is not None and not line.unfinished)
        ]

    def begin_again(self, partition: Partition) -> None:
        """Give the partition's unfinished batches new sequences from 0 under the newest identity, in their order."""
        old = self._lines.pop(partition)
        line = self._lines[partition] = _Line(self.identity)
        for order in sorted(old.unfinished):
            batch = old.unfinished[order]
            batch.assign(*self.identity, line.next_sequence)
            line.add(batch)

    def _line_of(self, batch: ProducerBatch) -> _Line | None:
        """Return the sequences of the batch's partition; None: the batch is not among the unfinished ones there any
        more."""
        line = self._lines.get(batch.partition)
        return line if line is not None and batch.order in line.unfinished else None
