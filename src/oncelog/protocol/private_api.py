"""Calls that Kafka does not have, carried in Kafka frames under private API keys (ADR 0001).

The frame is Kafka's: a flexible request header (v2), then the serialized protobuf request as the rest of the frame;
the answer is a response header v1, then the protobuf response. The keys are told in ApiVersions only to clients whose
software name is `oncelog`, so that no other client ever sees them. One address and one login serve Spark too.
"""

from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.protocol.frames import LENGTH_BYTES, Frame, FrameError

CLIENT_SOFTWARE_NAME: Final = "oncelog"
PRIVATE_VERSION: Final = 0


SinkRequest: TypeAlias = (
    pb.OpenAttemptRequest
    | pb.JoinAttemptRequest
    | pb.SealBranchRequest
    | pb.CommitBatchRequest
    | pb.AbortAttemptRequest
    | pb.DescribeSinkRequest
)
SinkResponse: TypeAlias = (
    pb.OpenAttemptResponse
    | pb.JoinAttemptResponse
    | pb.SealBranchResponse
    | pb.CommitBatchResponse
    | pb.AbortAttemptResponse
    | pb.DescribeSinkResponse
)


class PrivateCall(NamedTuple):
    method: str
    """The method's name in the TransactionCoordinator service; `request.sink` names the shard."""
    request: type[SinkRequest]
    response: type[SinkResponse]


PRIVATE_CALLS: Final[dict[int, PrivateCall]] = {
    20000: PrivateCall("OpenAttempt", pb.OpenAttemptRequest, pb.OpenAttemptResponse),
    20001: PrivateCall("JoinAttempt", pb.JoinAttemptRequest, pb.JoinAttemptResponse),
    20002: PrivateCall("SealBranch", pb.SealBranchRequest, pb.SealBranchResponse),
    20003: PrivateCall("CommitBatch", pb.CommitBatchRequest, pb.CommitBatchResponse),
    20004: PrivateCall("AbortAttempt", pb.AbortAttemptRequest, pb.AbortAttemptResponse),
    20005: PrivateCall("DescribeSink", pb.DescribeSinkRequest, pb.DescribeSinkResponse),
}

KEY_OF_METHOD: Final = {call.method: key for key, call in PRIVATE_CALLS.items()}


def read_private_response(method: str, frame: Frame) -> Any:
    """Return the protobuf response in a response frame: behind correlation id and the tags, which are always empty.

    Raises FrameError when the header is cut or the bytes are no such message.
    """
    if len(frame) <= LENGTH_BYTES or frame[LENGTH_BYTES] != 0:
        raise FrameError(f"the answer to {method} has no valid header")
    response = PRIVATE_CALLS[KEY_OF_METHOD[method]].response()
    try:
        response.ParseFromString(bytes(frame[LENGTH_BYTES + 1 :]))
    except DecodeError as error:
        raise FrameError(f"the answer to {method} is malformed: {error}") from error
    return response
