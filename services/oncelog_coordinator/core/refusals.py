"""Refusals that wait until this coordinator has confirmed that the shard is still its own (ADR 0050).

Another coordinator may own the shard by now, with newer states of its transactions. Until this one hears of it, its
appends fail. But a refusal appends nothing. Sent at once, it could tell a healthy producer that it is fenced, or a
leader that a partition is not in a transaction. Kafka answers at once.
"""

from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.machine import Decision, Reply
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnRecord

ProducerRequest = AddPartitions | EndTxn | InitProducerId | VerifyPartitions

ENDS_A_PRODUCER: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""The errors after which a client gives up its transaction or its producer. After every other error it asks again."""


def held_until_confirmed(
    decision: Decision[TxnRecord], txn: TxnMetadata | None, event: ProducerRequest
) -> Decision[TxnRecord]:
    """Return the decision. If it refuses, and a newer state of the transaction could allow it, it is marked to wait.

    The reply then waits until the coordinator has confirmed that it still owns the shard. `txn` is the state that the
    decision about `event` was based on.
    """
    if decision.records or not _refuses(decision) or (txn is not None and _is_older(event, txn)):
        return decision
    return replace(decision, needs_confirmation=True)


def _refuses(decision: Decision[TxnRecord]) -> bool:
    reply = decision.effects[0]
    assert isinstance(reply, Reply), decision
    return reply.answer.error_code in ENDS_A_PRODUCER or bool(
        getattr(reply.answer, "missing", None)
    )


def _is_older(event: ProducerRequest, txn: TxnMetadata) -> bool:
    """True if the producer's epoch is below the known one, so that its refusal is final: epochs only grow."""
    if isinstance(event, InitProducerId):
        producer = event.expected_producer_id, event.expected_producer_epoch
    else:
        producer = event.producer_id, event.producer_epoch
    return producer[0] == txn.producer_id and producer[1] < txn.producer_epoch
