from oncelog.api.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionFrame(_message.Message):
    __slots__ = ("calls", "replies", "cancelled", "going_away")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GOING_AWAY_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[SessionCall]
    replies: _containers.RepeatedCompositeFieldContainer[SessionReply]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    going_away: bool
    def __init__(self, calls: _Optional[_Iterable[_Union[SessionCall, _Mapping]]] = ..., replies: _Optional[_Iterable[_Union[SessionReply, _Mapping]]] = ..., cancelled: _Optional[_Iterable[int]] = ..., going_away: _Optional[bool] = ...) -> None: ...

class SessionCall(_message.Message):
    __slots__ = ("call_id", "method", "request", "timeout_ms", "traceparent", "trace")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    method: str
    request: bytes
    timeout_ms: int
    traceparent: str
    trace: _types_pb2.TraceContext
    def __init__(self, call_id: _Optional[int] = ..., method: _Optional[str] = ..., request: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., trace: _Optional[_Union[_types_pb2.TraceContext, _Mapping]] = ...) -> None: ...

class SessionReply(_message.Message):
    __slots__ = ("call_id", "response", "status", "message", "trace")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    response: bytes
    status: int
    message: str
    trace: _types_pb2.TraceContext
    def __init__(self, call_id: _Optional[int] = ..., response: _Optional[bytes] = ..., status: _Optional[int] = ..., message: _Optional[str] = ..., trace: _Optional[_Union[_types_pb2.TraceContext, _Mapping]] = ...) -> None: ...
