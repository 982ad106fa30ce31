"""Spark's calls: protobuf in Kafka frames, passed to the coordinator that owns the sink (ADR 0001)."""

from google.protobuf.message import DecodeError

from oncelog.errors import ErrorCode
from oncelog.protocol.frames import Frame, FrameError
from oncelog.protocol.private_api import PrivateCall
from oncelog.rpc.metadata import TRANSACTION
from oncelog_listener.call import Session
from oncelog_listener.cluster import PEER_FAILURES, Cluster
from oncelog_listener.shard_calls import call_shard
from oncelog_listener.traces import sink_answered, sink_span


async def private_call(
    cluster: Cluster,
    call: PrivateCall,
    frame: Frame,
    position: int,
    session: Session,
    client_id: str | None,
) -> bytes:
    """The serialized response. Raises FrameError when the bytes are no such request."""
    try:
        request = call.request.FromString(bytes(frame[position:]))
    except DecodeError as error:
        raise FrameError(f"no {call.method} request: {error}") from error
    if not request.sink:
        return _refused(call, ErrorCode.INVALID_REQUEST)
    try:
        with sink_span(call.method, request, session, client_id, cluster.node_id) as span:
            answer = await call_shard(
                cluster,
                TRANSACTION,
                request.sink,
                lambda coordinator: getattr(coordinator, call.method)(request),
            )
            sink_answered(call.method, span, answer)
    except PEER_FAILURES:
        return _refused(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    encoded: bytes = answer.SerializeToString()
    return encoded


def _refused(call: PrivateCall, code: ErrorCode) -> bytes:
    encoded: bytes = call.response(error_code=code).SerializeToString()
    return encoded
