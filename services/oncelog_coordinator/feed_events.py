"""The events that a coordinator publishes in the live feed: every change of a transaction, every verification, and
every refusal (docs/events.md).

`cause` is the decision's label, the same word as in the log and the metrics. `bump` says why a producer id or epoch
changed. A producer that is told to retry does so within milliseconds. So the same refusal of the same id is published
once a second, with the count of those before it.
"""

import time
from collections.abc import Mapping
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.machine import Decision, Reply
from oncelog.rpc import plain
from oncelog.telemetry.feed import Feed, names_of
from oncelog_coordinator.core.client import NO_CLIENT
from oncelog_coordinator.core.shard_machine import ShardEvent, ShardRecord
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    EndTxn,
    ForceTerminate,
    InitProducerId,
    TxnTimedOut,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState, TxnTombstone
from oncelog_coordinator.shard_terms import Answer

REFUSAL_PAUSE_S: Final = 1.0
REFUSALS_MAX: Final = 10_000
"""The most ids of one shard whose last refusal is remembered."""

REQUESTS: Final = (
    InitProducerId,
    AddPartitions,
    VerifyPartitions,
    EndTxn,
    ForceTerminate,
    CompletePrepared,
)
"""The requests whose refusals are published. Reads are not among them."""
TxnRequest = (
    InitProducerId | AddPartitions | VerifyPartitions | EndTxn | ForceTerminate | CompletePrepared
)
UNAVAILABLE: Final = "shard_unavailable"
"""The cause of a refusal by a coordinator that has not loaded the shard, or does not own it."""

TAKEOVER: Final = "takeover"
RESTART: Final = "restart"
TIMEOUT: Final = "timeout"
OPERATOR: Final = "operator"
EXHAUSTED: Final = "exhausted"
END: Final = "end"


class RefusalEvents:
    """Publishes refused requests in the live feed. Equal refusals become one event a second, with their count."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._published: dict[tuple[str, str, str], tuple[float, int]] = {}

    def publish(
        self,
        event: TxnRequest,
        cause: str,
        error_code: ErrorCode,
        shard: Mapping[str, int],
        missing: tuple[Partition, ...] = (),
    ) -> None:
        client = getattr(event, "client", NO_CLIENT)
        key = (event.transactional_id, cause, client.id)
        now = time.monotonic()
        published_at, count = self._published.pop(key, (-REFUSAL_PAUSE_S, 0))
        if now - published_at < REFUSAL_PAUSE_S:
            self._published[key] = (published_at, count + 1)
            return
        self._published[key] = (now, 0)
        if len(self._published) > REFUSALS_MAX:
            del self._published[next(iter(self._published))]
        self._feed.publish(
            "refused",
            transactional_id=event.transactional_id,
            cause=cause,
            request=type(event).__name__,
            error=error_code.name,
            count=count + 1,
            producer_id=_named(event, "producer_id"),
            producer_epoch=_named(event, "producer_epoch"),
            names=names_of(missing),
            client_id=client.id,
            client_host=client.host,
            **shard,
        )


class DecisionEvents:
    """Publishes the decisions of one transaction shard in the live feed, under one coordinator epoch."""

    def __init__(self, feed: Feed, shard: int, coordinator_epoch: int) -> None:
        self._feed = feed
        self._shard = {"shard": shard, "coordinator_epoch": coordinator_epoch}
        self._refusals = RefusalEvents(feed)

    def publish(
        self, event: ShardEvent, decision: Decision[ShardRecord], before: TxnMetadata | None
    ) -> None:
        """Publish what a decision changed or refused. `before` is the transaction before it; None for an unknown id."""
        known = before
        for record in decision.records:
            if isinstance(record, TxnMetadata):
                self._changed(event, decision.label, known, record)
                known = record
            elif isinstance(record, TxnTombstone):
                self._feed.publish(
                    "transaction",
                    transactional_id=record.transactional_id,
                    state="Dead",
                    cause=decision.label,
                    **self._shard,
                )
        if decision.records:
            return
        for effect in decision.effects:
            if isinstance(effect, Reply):
                self._answered(event, decision.label, effect.answer)

    def _changed(
        self, event: ShardEvent, label: str, before: TxnMetadata | None, record: TxnMetadata
    ) -> None:
        client = getattr(event, "client", NO_CLIENT)
        is_same = before is not None and before.state is TxnState.ONGOING is record.state
        known = before.partitions if before is not None and is_same else ()
        added = record.partitions[len(known) :] if record.state is TxnState.ONGOING else ()
        self._feed.publish(
            "transaction",
            transactional_id=record.transactional_id,
            state=record.state.kafka_name,
            cause=label,
            request=type(event).__name__,
            bump=_bump(event, before, record),
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            previous_producer_id=-1 if before is None else before.producer_id,
            previous_producer_epoch=-1 if before is None else before.producer_epoch,
            partitions=len(record.partitions),
            added=names_of(added),
            start_time_ms=record.start_timestamp,
            timeout_ms=record.timeout_ms,
            client_id=client.id,
            client_host=client.host,
            **_trace(record),
            **self._shard,
        )

    def _answered(self, event: ShardEvent, label: str, answer: Answer) -> None:
        if not isinstance(event, REQUESTS):
            return
        error_code = answer.error_code
        missing: tuple[Partition, ...] = getattr(answer, "missing", ())
        if error_code is ErrorCode.NONE and missing:
            error_code = ErrorCode.TRANSACTION_ABORTABLE
        if error_code is not ErrorCode.NONE:
            self._refusals.publish(event, label, error_code, self._shard, missing)
        elif isinstance(event, VerifyPartitions):
            self.verified(event)

    def verified(self, asked: VerifyPartitions | plain.VerifyRequest) -> None:
        self._feed.publish(
            "verified",
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            partitions=len(asked.partitions),
            names=names_of(asked.partitions),
            **self._shard,
        )


def _trace(record: TxnMetadata) -> dict[str, str]:
    """Return the feed event's field with the transaction's trace id, recorded or not; empty if it has no trace."""
    return {} if record.trace is None else {"trace_id": f"{record.trace.trace_id:032x}"}


def _named(event: ShardEvent, name: str) -> int:
    """Return the request's field `name`, which is a producer id or epoch; -1: it has none. In InitProducerId the field
    is `expected_…`."""
    return int(getattr(event, name, getattr(event, f"expected_{name}", -1)))


def _bump(event: ShardEvent, before: TxnMetadata | None, record: TxnMetadata) -> str:
    """Return why the producer id or epoch changed, as one word such as `timeout`; empty if it did not."""
    identity = (record.producer_id, record.producer_epoch)
    if before is None or identity == (before.producer_id, before.producer_epoch):
        return ""
    match event:
        case TxnTimedOut():
            return TIMEOUT
        case ForceTerminate() | CompletePrepared():
            return OPERATOR
        case InitProducerId() if event.expected_producer_id < 0 and before.producer_epoch >= 0:
            return TAKEOVER
        case InitProducerId():
            return RESTART
    return EXHAUSTED if record.producer_id != before.producer_id else END
