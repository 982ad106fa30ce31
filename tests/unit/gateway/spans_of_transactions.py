"""Events of a transaction, as the gateway's history has them."""

from oncelog.telemetry.events import Event

NOW = 1_000_000


def event(at_ms, kind, role="coordinator", **fields):
    return Event(f"{at_ms}-{kind}", at_ms, role, 1, kind, fields)


def change(at_ms, state, request, cause="", **fields):
    return event(at_ms, "transaction", state=state, request=request, cause=cause, **fields)


def transaction(at_ms, *, commit=True, wrote=5, decided=30, marked=34, ended=36, request="EndTxn"):
    """As a timeline tells it, of one partition."""
    what = "Commit" if commit else "Abort"
    return [
        change(
            at_ms,
            "Ongoing",
            "AddPartitions",
            "transaction_started",
            added="orders-0",
            producer_id=7,
            producer_epoch=3,
        ),
        event(at_ms + wrote, "opened", "storage", topic="orders", partition=0, offset=1),
        change(at_ms + decided, f"Prepare{what}", request),
        event(at_ms + decided + 1, "marker_queued", "marker-sender", names="orders-0"),
        event(at_ms + marked, "marker", "storage", topic="orders", partition=0, error_code=0),
        change(at_ms + ended, f"Complete{what}", "MarkersDelivered"),
    ]
