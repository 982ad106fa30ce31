"""The check before an operator's abort: it ends exactly the transaction that the operator looked at, or nothing.

Kafka's `WriteTxnMarkers` carries no start offset, and a partition leader takes any marker whose epochs are high enough
(docs/kafka-facts.md, 1.4, 9). So the gateway checks that the marker ends the intended transaction, as KIP-664 first
proposed. The partition must have a transaction open at exactly the given start offset, with the given producer epoch.
And no coordinator may own it, because its owner would end it. If that coordinator later commits, an abort marker behind
its back would tear the transaction apart.

After the last reading and before the append, the same producer may begin a new transaction, under TV1 with the same
epoch. So the marker carries what was seen, and the leader compares it in the step that writes. The leader refuses the
marker if another transaction is open, or none, or if the producer has written more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import (
    CoordinatorEpoch,
    Offset,
    Partition,
    ProducerEpoch,
    ProducerId,
    SeenTransaction,
)
from oncelog_gateway.core.hanging import (
    DECIDED_STATES,
    CoordinatedTransaction,
    OpenTransaction,
    owner_of,
)

LEGACY_TRANSACTION_VERSION: Final = 0
"""The marker's transaction version. The marker carries the very epoch of the open transaction, so the leader must
accept an equal one (docs/kafka-facts.md, 9).
"""


@dataclass(frozen=True, slots=True)
class AbortTarget:
    """The transaction that the operator wants to abort, as the request names it."""

    partition: Partition
    start_offset: Offset
    producer_epoch: ProducerEpoch | None
    """The producer epoch that the operator gave; None: not given, so that the start offset alone identifies the
    transaction.
    """


@dataclass(frozen=True, slots=True)
class AbortMarker:
    """The abort marker that ends the transaction in its partition, and what the leader must find there
    before it writes.
    """

    partition: Partition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: CoordinatorEpoch
    transaction_version: int
    seen: SeenTransaction | None
    """The transaction as it was last read, for the leader to compare; None: the leader runs an older build, which
    would not compare.
    """


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no marker is written, and what the operator can do instead."""

    error_code: ErrorCode
    detail: str


def find_target(
    target: AbortTarget, opened: Sequence[OpenTransaction]
) -> OpenTransaction | Refusal:
    """Return the open transaction that the operator meant, or why there is none like that. `opened` are all open
    transactions of the partition.
    """
    here = [one for one in opened if one.partition == target.partition]
    found = next((one for one in here if one.start_offset == target.start_offset), None)
    if found is None:
        others = ", ".join(str(one.start_offset) for one in sorted(here, key=_start_offset)[:10])
        return Refusal(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"no transaction is open in {target.partition} at start offset {target.start_offset}; "
            + (
                f"open there are: {others}"
                if others
                else "none is open there: it has ended already"
            ),
        )
    if target.producer_epoch is not None and target.producer_epoch != found.producer_epoch:
        return Refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"the transaction at start offset {found.start_offset} of {found.partition} has producer epoch "
            f"{found.producer_epoch}, not {target.producer_epoch}; look again before you end it",
        )
    return found


def plan_abort(
    found: OpenTransaction, coordinated: Sequence[CoordinatedTransaction]
) -> AbortMarker | Refusal:
    """Return the marker to write, or a refusal that says why the transaction's coordinator must end it instead."""
    owner = owner_of(found, coordinated)
    if owner is not None and owner.state in DECIDED_STATES:
        return Refusal(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"transactional id {owner.transactional_id!r} is decided ({owner.state}) and its markers are on their "
            "way; wait. If it stays so, oncelog transactions markers (GET /v1/marker-queues) shows for which node they "
            "wait",
        )
    if owner is not None:
        return Refusal(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"the transaction belongs to transactional id {owner.transactional_id!r}, which is {owner.state} at its "
            "coordinator; end it there: POST /v1/transactions/{transactional_id}/terminate, or "
            "oncelog transactions terminate",
        )
    return AbortMarker(
        partition=found.partition,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        # No marker yet for this producer id: 0 is at most what any real coordinator would send.
        coordinator_epoch=CoordinatorEpoch(max(found.coordinator_epoch, 0)),
        transaction_version=LEGACY_TRANSACTION_VERSION,
        seen=None
        if found.last_offset is None
        else SeenTransaction(found.start_offset, found.last_offset),
    )


def _start_offset(one: OpenTransaction) -> int:
    return one.start_offset
