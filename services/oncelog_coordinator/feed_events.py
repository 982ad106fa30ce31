"""What of a coordinator's decisions goes into the live feed: every change of a transaction, and every refusal that
tells a producer of a zombie.

`cause` is the decision's label, the same word as in the log and the metrics.
"""

from typing import Any, Final

from oncelog.machine import Decision
from oncelog.telemetry.feed import EventFeed
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnTombstone

REFUSALS: Final = frozenset(
    {"fenced", "init_fenced", "wrong_producer_id", "delayed_end_refused", "delayed_add_refused"}
)


def publish_decision(
    feed: EventFeed, shard: int, coordinator_epoch: int, event: Any, decision: Decision[Any]
) -> None:
    for record in decision.records:
        if isinstance(record, TxnMetadata):
            feed.publish(
                "transaction",
                transactional_id=record.transactional_id,
                state=record.state.kafka_name,
                cause=decision.label,
                producer_id=record.producer_id,
                producer_epoch=record.producer_epoch,
                partitions=len(record.partitions),
                start_time_ms=record.start_timestamp,
                shard=shard,
                coordinator_epoch=coordinator_epoch,
            )
        elif isinstance(record, TxnTombstone):
            feed.publish(
                "transaction",
                transactional_id=record.transactional_id,
                state="Dead",
                cause=decision.label,
                shard=shard,
                coordinator_epoch=coordinator_epoch,
            )
    if decision.label in REFUSALS:
        feed.publish(
            "refused",
            transactional_id=event.transactional_id,
            cause=decision.label,
            request=type(event).__name__,
            producer_id=getattr(event, "producer_id", -1),
            producer_epoch=getattr(event, "producer_epoch", -1),
            shard=shard,
            coordinator_epoch=coordinator_epoch,
        )
