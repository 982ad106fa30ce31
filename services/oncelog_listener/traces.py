"""The spans (OpenTelemetry) of client requests that may belong to a transaction, and of Spark's private calls (ADR
0028).

The answers of the calls that a request makes say which transaction, or which try of a Spark batch, it belongs to.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, Protocol

from oncelog.protocol.versions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from oncelog.telemetry import spans
from oncelog_listener.call import AnyCall, Call, Session

_ID: Final = "transactional_id"
_TRACED: Final[Mapping[int, tuple[str, str]]] = {
    INIT_PRODUCER_ID: ("client InitProducerId", _ID),
    ADD_PARTITIONS_TO_TXN: ("client AddPartitionsToTxn", "v3_and_below_transactional_id"),
    ADD_OFFSETS_TO_TXN: ("client AddOffsetsToTxn", _ID),
    TXN_OFFSET_COMMIT: ("client TxnOffsetCommit", _ID),
    PRODUCE: ("client Produce", _ID),
    END_TXN: ("client EndTxn", _ID),
}
"""The name of the span, and the request's field that may name a transaction."""
_SERVER: Final = spans.Kind.SERVER
_OF_AN_ATTEMPT: Final = frozenset(
    {"OpenAttempt", "JoinAttempt", "SealBranch", "CommitBatch", "AbortAttempt"}
)
_ENDS: Final = frozenset({"CommitBatch", "AbortAttempt"})


class OfSink(Protocol):
    """A private call of Spark about its sink, the target of a stream."""

    @property
    def sink(self) -> str: ...


class _SinkAnswer(Protocol):
    @property
    def error_code(self) -> int: ...


def request_span(call: AnyCall) -> spans.Span | spans.Nothing:
    """Return the span of the request, as a context manager around its handler; without tracing, one that records
    nothing."""
    if spans.recorder is None or call.api_key not in _TRACED:
        return spans.NOTHING
    name, field = _TRACED[call.api_key]
    transactional_id = getattr(call.request, field, None)
    if not transactional_id:
        return spans.NOTHING
    home = spans.Home()
    span = spans.Span(name, home, None, _SERVER, {}, home.start_ns)
    node_id = call.cluster.node_id
    # Not the call itself: its request may hold many records, and a span may wait for minutes.
    span.details = (
        partial(_details, call.session, call.client_id, node_id, transactional_id, call.version),
    )
    if call.api_key == END_TXN:
        span.attributes["oncelog.commit"] = call.request.committed
    return span


def _details(
    session: Session, client_id: str | None, node_id: int, transactional_id: str, version: int
) -> spans.Attributes:
    return {
        **_client(session, client_id, node_id),
        "messaging.kafka.transactional_id": transactional_id,
        "oncelog.api_version": version,
    }


def sink_span(
    method: str, request: OfSink, session: Session, client_id: str | None, node_id: int
) -> spans.Span | spans.Nothing:
    """Return the span of a private call of Spark, as a context manager; without tracing, one that records nothing."""
    if spans.recorder is None or method not in _OF_AN_ATTEMPT:
        return spans.NOTHING
    attributes = _client(session, client_id, node_id)
    attributes["oncelog.sink"] = request.sink
    return spans.outermost(f"client {method}", spans.Kind.SERVER, attributes=attributes)


def sink_answered(method: str, span: spans.Span | spans.Nothing, answer: _SinkAnswer) -> None:
    """Record a private call's result in its span, before that ends. At the end of a Spark batch's try this decides
    whether its trace is kept."""
    recorder = spans.recorder
    if not isinstance(span, spans.Span) or recorder is None:
        return
    if answer.error_code:
        span.error = f"error {answer.error_code}"
    elif method in _ENDS and span.home.trace is not None:
        recorder.verdict(span.home.trace_id, is_kept=span.home.is_kept)


def _client(session: Session, client_id: str | None, node_id: int) -> spans.Attributes:
    found: spans.Attributes = {
        "messaging.system": "kafka",
        "messaging.client.id": client_id or "",
        "client.address": session.peer,
        "oncelog.node": node_id,
    }
    if session.software_name:
        found["user_agent.original"] = f"{session.software_name} {session.software_version}"
    return found


def answered(call: Call, span: spans.Span | spans.Nothing, response: object) -> None:
    """Record a request's result in its span, before that ends. EndTxn is a transaction's last request, so it also
    decides whether the trace is kept."""
    recorder = spans.recorder
    if not isinstance(span, spans.Span) or recorder is None:
        return
    code = int(getattr(response, "error_code", 0) or 0)
    if code:
        span.set(**{"oncelog.error_code": code})
        span.error = f"error {code}"
    elif call.api_key == END_TXN and span.home.trace is not None:
        recorder.verdict(span.home.trace.trace_id, is_kept=span.home.is_kept)
