"""A span for each client request that may be of a transaction. Of which, the answers of its calls say (ADR 0028)."""

from typing import Any, Final

from oncelog.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog_listener.call import Call

_NAMES: Final = {
    INIT_PRODUCER_ID: "InitProducerId",
    ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
    TXN_OFFSET_COMMIT: "TxnOffsetCommit",
    PRODUCE: "Produce",
    END_TXN: "EndTxn",
}


def request_span(call: Call) -> spans.Span | spans.Nothing:
    """A context manager around the handler."""
    if spans.recorder is None or call.api_key not in _NAMES:
        return spans.NOTHING
    request = call.request
    transactional_id = getattr(request, "transactional_id", None) or getattr(
        request, "v3_and_below_transactional_id", None
    )
    if not transactional_id:
        return spans.NOTHING
    session = call.session
    attributes: dict[str, spans.Value] = {
        "messaging.system": "kafka",
        "messaging.kafka.transactional_id": transactional_id,
        "messaging.client.id": call.client_id or "",
        "client.address": session.peer,
        "oncelog.node": call.cluster.node_id,
        "oncelog.api_version": call.version,
    }
    if session.software_name:
        attributes["user_agent.original"] = f"{session.software_name} {session.software_version}"
    if call.api_key == END_TXN:
        attributes["oncelog.commit"] = request.committed
    return spans.outermost(
        f"client {_NAMES[call.api_key]}", spans.Kind.SERVER, attributes=attributes
    )


def answered(call: Call, span: spans.Span | spans.Nothing, response: Any) -> None:
    """Before the span ends. Nothing follows an end, so that is when it is known whether the trace is kept."""
    recorder = spans.recorder
    if not isinstance(span, spans.Span) or not isinstance(recorder, TraceRecorder):
        return
    code = int(getattr(response, "error_code", 0) or 0)
    if code:
        span.set(**{"oncelog.error_code": code})
        span.error = f"error {code}"
    elif call.api_key == END_TXN and span.home.trace is not None:
        recorder.verdict(span.home.trace_id, is_kept=span.home.is_kept)
