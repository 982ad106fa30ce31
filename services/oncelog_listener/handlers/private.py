"""The private calls of Spark's sink: protobuf in Kafka frames, passed on to the coordinator that owns the sink (ADR
0001).

A sink is the target of a Spark stream, named by a transactional id that people chose. ACLs check that id: a client that
may write with it may use the sink.
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import acl_name_of
from oncelog.protocol.frames import Frame, FrameError
from oncelog.protocol.private_api import PrivateCall
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.access import log_verdict
from oncelog_listener.call import Session
from oncelog_listener.cluster import PEER_FAILURES, Cluster
from oncelog_listener.shard_calls import TRANSACTION_COORDINATORS, call_shard
from oncelog_listener.traces import OfSink, sink_answered, sink_span

OPERATIONS: Final[Mapping[str, Operation]] = {
    "OpenAttempt": Operation.WRITE,
    "JoinAttempt": Operation.WRITE,
    "SealBranch": Operation.WRITE,
    "CommitBatch": Operation.WRITE,
    "AbortAttempt": Operation.WRITE,
    "DescribeSink": Operation.DESCRIBE,
}
"""The operation on the sink's transactional id that each method needs."""


async def private_call(
    cluster: Cluster,
    call: PrivateCall,
    frame: Frame,
    position: int,
    session: Session,
    client_id: str | None,
) -> bytes:
    """Pass a private call of Spark to the sink's coordinator, and return the serialized response. The protobuf request
    begins at `position` of the frame. Raises FrameError when the bytes are no such request."""
    try:
        request = call.request.FromString(bytes(frame[position:]))
    except DecodeError as error:
        raise FrameError(f"no {call.method} request: {error}") from error
    refusal = _refusal(cluster, session, call.method, request)
    if refusal is not None:
        return _refused(call, *refusal)
    if not request.sink:
        return _refused(call, ErrorCode.INVALID_REQUEST)
    try:
        with sink_span(call.method, request, session, client_id, cluster.node_id) as span:
            answer = await call_shard(
                cluster,
                TRANSACTION_COORDINATORS,
                request.sink,
                lambda coordinator: getattr(coordinator, call.method)(request),
            )
            sink_answered(call.method, span, answer)
    except PEER_FAILURES:
        return _refused(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    encoded: bytes = answer.SerializeToString()
    return encoded


def _refusal(
    cluster: Cluster, session: Session, method: str, request: OfSink
) -> tuple[ErrorCode, str] | None:
    """Return the error code and message if ACLs forbid this call to the client; None: it is allowed."""

    def may(operation: Operation, resource_type: ResourceType, name: str) -> bool:
        arguments = (session.principal, session.host, operation, resource_type, name)
        verdict = cluster.access.decide(*arguments)
        log_verdict(verdict, *arguments, method)
        return verdict.is_allowed

    if not cluster.access.is_checked:
        return None
    name, operation = acl_name_of(request.sink), OPERATIONS[method]
    if not may(operation, ResourceType.TRANSACTIONAL_ID, name):
        return (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            f"{session.principal} needs {operation.name} on the transactional id {name!r}",
        )
    # These partitions are in the transaction from now on, and get its marker.
    topics = (
        {one.topic: None for one in request.last_sequences}
        if isinstance(request, pb.SealBranchRequest)
        else {}
    )
    for topic in topics:
        if not may(Operation.WRITE, ResourceType.TOPIC, topic):
            return (
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{session.principal} needs WRITE on the topic {topic!r}",
            )
    return None


def _refused(call: PrivateCall, code: ErrorCode, message: str = "") -> bytes:
    response = call.response(error_code=code)
    if message and not isinstance(response, pb.DescribeSinkResponse):
        response.error_message = message
    encoded: bytes = response.SerializeToString()
    return encoded
