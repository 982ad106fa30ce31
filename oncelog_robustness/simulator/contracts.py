"""The contracts of an older version: the protobuf messages, fields, methods and record fields that it knows.
A simulated process that is given them can send and understand nothing else:

    older = older_contracts("last", without=("RequestOrigin",))
    process.contracts = older

Such a process runs today's code behind its contracts. Each message that it sends or receives keeps only the fields
that the older version knows. A method that the older version lacks does not exist. An enum's number stays, known or
not, as in proto3. So a run shows how today's code works with peers that omit new fields and ignore them. It does not
show bugs of the older code.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from oncelog.errors import OncelogError

PACKAGE: Final = "oncelog.api.v1"
SESSION_PATH: Final = f"/{PACKAGE}.Peer/Session"
_NEEDED_BY_SESSIONS: Final = {
    "SessionFrame": {"calls", "replies", "cancelled"},
    "SessionCall": {"call_id", "method", "request"},
    "SessionReply": {"call_id", "response", "status"},
}
_NOT_THERE: Final = "~"
"""A suffix for the path of a method that the older version lacks. Nobody serves such a path, so today's code
does as if it had no such method."""


class Contracts:
    """The message and record schemas of one version of oncelog, which cut away whatever that version does not
    know. `tags` are the tagged fields of transaction records that it knows."""

    def __init__(self, name: str, files: FileDescriptorSet, tags: frozenset[int]) -> None:
        self.name = name
        self.tags = tags
        self.messages = 0
        """The number of messages that have passed."""
        self.messages_cut = 0
        """The number of messages that lost a field."""
        self.records_cut = 0
        """The number of transaction records, written or read, that lost a field."""
        self._methods = _methods(files)
        session = self._methods.get(SESSION_PATH)
        if session is None:
            raise OncelogError(
                f"the contracts {name} have no Peer.Session, over which every call goes: keep it"
            )
        self.frame = session[0]
        _check_session(name, self.frame)

    def method(self, path: str) -> tuple[Any, Any] | None:
        """Return the classes of the method's request and response; None if there is no such method."""
        return self._methods.get(path)

    def passed(self, kind: Any, payload: bytes) -> bytes:
        """Return the encoded message `payload`, of the protobuf class `kind`, without the fields that the
        version does not know. Bytes that cannot be decoded are returned unchanged: their receiver refuses
        them."""
        try:
            message = kind.FromString(payload)
        except DecodeError:
            return payload
        message.DiscardUnknownFields()
        return self.counted(payload, message)

    def counted(self, before: bytes, message: Any) -> bytes:
        after: bytes = message.SerializeToString(deterministic=True)
        self.messages += 1
        self.messages_cut += len(after) < len(before)
        return after


class Spoken:
    """One gRPC call that a process of an older version makes or serves. It cuts from each request and
    response what the contracts of that version do not know."""

    def __init__(self, contracts: Contracts, path: str) -> None:
        self._contracts = contracts
        known = contracts.method(path)
        self.path = path if known is not None else path + _NOT_THERE
        """The method's path on the wire."""
        self._is_session = path == SESSION_PATH
        self._request: Any = None
        self._answer: Any = None
        if known is not None:
            self._request, self._answer = known
        self._awaited: dict[int, Any] = {}
        """The class of the response that each call within a session waits for, by call id."""

    def request(self, payload: bytes) -> bytes:
        return self._passed(self._request, payload)

    def answer(self, payload: bytes) -> bytes:
        return self._passed(self._answer, payload)

    def _passed(self, kind: Any, payload: bytes) -> bytes:
        if kind is None:
            return payload
        if self._is_session:
            return self._frame(payload)
        return self._contracts.passed(kind, payload)

    def _frame(self, payload: bytes) -> bytes:
        """Return a frame of a session with the calls and responses in it cut as well. A session is the stream
        between two processes that carries all their calls, each as bytes within a frame."""
        contracts = self._contracts
        frame = contracts.frame.FromString(payload)
        frame.DiscardUnknownFields()
        for call in frame.calls:
            known = contracts.method(call.method)
            if known is None:
                call.method += _NOT_THERE
                continue
            call.request = contracts.passed(known[0], call.request)
            self._awaited[call.call_id] = known[1]
        for call_id in frame.cancelled:
            self._awaited.pop(call_id, None)
        for reply in frame.replies:
            kind = self._awaited.pop(reply.call_id, None)
            if kind is not None and not reply.status:
                reply.response = contracts.passed(kind, reply.response)
        return contracts.counted(payload, frame)


# ------------------------------------------------------------------------------------------------- descriptors


def _methods(files: FileDescriptorSet) -> Mapping[str, tuple[Any, Any]]:
    pool = DescriptorPool()
    for file in _in_order(files):
        pool.AddSerializedFile(file.SerializeToString())
    found: dict[str, tuple[Any, Any]] = {}
    for file in files.file:
        for service in pool.FindFileByName(file.name).services_by_name.values():
            for method in service.methods:
                classes = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
                found[f"/{service.full_name}/{method.name}"] = classes
    return found


def _in_order(files: FileDescriptorSet) -> Iterable[Any]:
    """Yield each file after those that it imports."""
    left = {file.name: file for file in files.file}
    while left:
        name = next(
            name for name, file in left.items() if not any(one in left for one in file.dependency)
        )
        yield left.pop(name)


def _check_session(name: str, frame: Any) -> None:
    fields = frame.DESCRIPTOR.fields_by_name
    parts = {"SessionFrame": set(fields)}
    for part, field in (("SessionCall", "calls"), ("SessionReply", "replies")):
        if field in fields:
            parts[part] = set(fields[field].message_type.fields_by_name)
    for part, needed in _NEEDED_BY_SESSIONS.items():
        missing = sorted(needed - parts.get(part, set()))
        if missing:
            raise OncelogError(
                f"the contracts {name} have no {part}.{missing[0]}, without which no call can be made: keep it"
            )
