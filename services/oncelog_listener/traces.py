"""A span for each client request that may be of a transaction, and for each of Spark's about an attempt. Of which
transaction or attempt, the answers of its calls say (ADR 0028).
"""

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
from oncelog_listener.call import Call, Session

_NAMES: Final = {
    INIT_PRODUCER_ID: "InitProducerId",
    ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    ADD_OFFSETS_TO_TXN: "AddOffsetsToTxn",
    TXN_OFFSET_COMMIT: "TxnOffsetCommit",
    PRODUCE: "Produce",
    END_TXN: "EndTxn",
}


_OF_AN_ATTEMPT: Final = frozenset(
    {"OpenAttempt", "JoinAttempt", "SealBranch", "CommitBatch", "AbortAttempt"}
)
_ENDS: Final = frozenset({"CommitBatch", "AbortAttempt"})


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
    attributes = _client(call.session, call.client_id, call.cluster.node_id)
    attributes["messaging.kafka.transactional_id"] = transactional_id
    attributes["oncelog.api_version"] = call.version
    if call.api_key == END_TXN:
        attributes["oncelog.commit"] = request.committed
    return spans.outermost(
        f"client {_NAMES[call.api_key]}", spans.Kind.SERVER, attributes=attributes
    )


def sink_span(
    method: str, request: Any, session: Session, client_id: str | None, node_id: int
) -> spans.Span | spans.Nothing:
    """The same for a call of Spark's."""
    if spans.recorder is None or method not in _OF_AN_ATTEMPT:
        return spans.NOTHING
    attributes = _client(session, client_id, node_id)
    attributes["oncelog.sink"] = request.sink
    return spans.outermost(f"client {method}", spans.Kind.SERVER, attributes=attributes)


def sink_answered(method: str, span: spans.Span | spans.Nothing, answer: Any) -> None:
    """Before the span ends."""
    recorder = spans.recorder
    if not isinstance(span, spans.Span) or not isinstance(recorder, TraceRecorder):
        return
    if answer.error_code:
        span.error = f"error {answer.error_code}"
    elif method in _ENDS and span.home.trace is not None:
        recorder.verdict(span.home.trace_id, is_kept=span.home.is_kept)


def _client(session: Session, client_id: str | None, node_id: int) -> dict[str, spans.Value]:
    told: dict[str, spans.Value] = {
        "messaging.system": "kafka",
        "messaging.client.id": client_id or "",
        "client.address": session.peer,
        "oncelog.node": node_id,
    }
    if session.software_name:
        told["user_agent.original"] = f"{session.software_name} {session.software_version}"
    return told


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
