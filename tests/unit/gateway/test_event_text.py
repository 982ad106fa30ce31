"""What people read of an event."""

import pytest

from oncelog.telemetry.events import Event
from oncelog_gateway.core.event_text import sentence

BEFORE = {"previous_producer_id": 7, "previous_producer_epoch": 3}
AFTER = {"producer_id": 7, "producer_epoch": 4}
CLIENT = {"client_id": "app-2", "client_host": "10.0.0.9:5000"}


def event(kind, role="coordinator", **fields):
    return Event("1-0", 1, role, 1, kind, fields)


CASES = [
    (
        event("transaction", state="Empty", previous_producer_epoch=-1, **AFTER, **CLIENT),
        "client 'app-2' at 10.0.0.9:5000 begins as producer 7 epoch 4",
    ),
    (
        event("transaction", state="Empty", bump="takeover", **BEFORE, **AFTER, **CLIENT),
        "the producer is initialised, no transaction is open; epoch 3 → 4: InitProducerId of client 'app-2' at "
        "10.0.0.9:5000 takes the transactional.id over",
    ),
    (
        event(
            "transaction",
            state="PrepareAbort",
            request="TxnTimedOut",
            bump="timeout",
            timeout_ms=60_000,
            partitions=2,
            **BEFORE,
            **AFTER,
        ),
        "abort is decided: nobody ended it in time; 2 partitions to mark; epoch 3 → 4: the transaction timeout of 60 s "
        "passed",
    ),
    (
        event(
            "transaction",
            state="PrepareCommit",
            request="CompletePrepared",
            bump="operator",
            partitions=1,
            **BEFORE,
            **AFTER,
        ),
        "commit is decided: an operator decides the two-phase transaction; 1 partition to mark; epoch 3 → 4: an "
        "operator ended the transaction",
    ),
    (
        event("transaction", state="Ongoing", request="InitProducerId", **BEFORE, **CLIENT),
        "the two-phase transaction is kept for client 'app-2' at 10.0.0.9:5000, which may only end it",
    ),
    (
        event("transaction", state="PrepareCommit", request="EndTxn", partitions=1, **AFTER),
        "commit is decided: its client asks for it; 1 partition to mark",
    ),
    (
        event(
            "transaction",
            state="CompleteCommit",
            bump="exhausted",
            producer_id=8,
            producer_epoch=0,
            **BEFORE,
        ),
        "the transaction is committed: every partition has its marker; producer 7 epoch 3 → producer 8 epoch 0: the "
        "producer id had no epochs left",
    ),
    (
        event("refused", request="EndTxn", error="PRODUCER_FENCED", count=3, **AFTER, **CLIENT),
        "EndTxn of producer 7 epoch 4 (client 'app-2' at 10.0.0.9:5000) is refused: PRODUCER_FENCED, 3 times",
    ),
    (
        event(
            "marker", role="storage", topic="orders", partition=1, outcome="abort", error_code=47
        ),
        "abort marker refused in orders-1: INVALID_PRODUCER_EPOCH",
    ),
    (
        event(
            "marker_failed", outcome="commit", to_node=12, names="a-0,b-1", error="gone", attempt=2
        ),
        "commit marker not written on node 12 for a-0, b-1: gone; it is sent again (attempt 2)",
    ),
    (event("hole", count=3), "3 events missing here: the live feed was away"),
    (event("of tomorrow", what="new"), "of tomorrow: what new"),
]


@pytest.mark.parametrize(("event", "text"), CASES)
def test_an_event_is_one_sentence(event, text):
    assert sentence(event) == text


@pytest.mark.parametrize(
    "kind",
    ["transaction", "verified", "refused", "opened", "marker_queued", "marker_sent", "marker"],
)
def test_an_event_of_another_version_is_told_all_the_same(kind):
    assert sentence(event(kind))
