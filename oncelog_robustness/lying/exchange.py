"""Requests and responses as the proxy sees them: frames in, messages out, and back. No sockets here.

The proxy decodes only the APIs in `DECODED`; every other frame passes through as it is. It tells clients lower versions
of some of these: those that name topics instead of giving their ids, and those that this package can decode.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from oncelog.protocol import versions
from oncelog.protocol.frames import (
    LENGTH_BYTES,
    Frame,
    RequestPrefix,
    framed,
    framed_response,
    read_client_id,
    read_request_prefix,
    read_uvarint,
    write_request_head,
)
from oncelog.protocol.messages import Schema, schema_of

VERSION_MAX: Final[Mapping[int, int]] = {
    **{
        key: versions.APIS[key].max_version
        for key in (
            versions.METADATA,
            versions.FIND_COORDINATOR,
            versions.API_VERSIONS,
            versions.INIT_PRODUCER_ID,
            versions.ADD_PARTITIONS_TO_TXN,
            versions.END_TXN,
            versions.DESCRIBE_CLUSTER,
        )
    },
    versions.PRODUCE: 12,
    versions.FETCH: 12,
    versions.TXN_OFFSET_COMMIT: 5,
}
"""From the next version on Produce, Fetch and TxnOffsetCommit give topic ids."""
DECODED: Final = frozenset(VERSION_MAX)
_NO_ACKS: Final = 0
_UNSUPPORTED_VERSION: Final = 35


@dataclass(slots=True)
class Own:
    """A request of the proxy's own; nobody receives its response."""

    api_key: int
    version: int
    request: Any


@dataclass(slots=True)
class Exchange:
    """A client's request on its way to the broker. A lie may change it."""

    api_key: int
    version: int
    request: Any
    answer: Any = None
    """Set: the client receives this response, and the broker never sees the request."""
    before: list[Own] = field(default_factory=list)
    """What the broker receives first, on the same connection."""
    after: list[Own] = field(default_factory=list)
    note: Any = None
    """What the lie wants to know when the response comes."""

    @property
    def types(self) -> Any:
        """Constructors of the response, of whatever version."""
        return schema_of(self.api_key, self.version).response_types

    @property
    def has_response(self) -> bool:
        return self.api_key != versions.PRODUCE or self.request.acks != _NO_ACKS


@dataclass(frozen=True, slots=True)
class RequestFrame:
    prefix: RequestPrefix
    client_id: str | None
    request: Any

    @classmethod
    def of(cls, frame: Frame) -> "RequestFrame | None":
        """None for an API that is not decoded. Raises FrameError."""
        prefix = read_request_prefix(frame)
        if prefix.api_key not in DECODED:
            return None
        is_flexible = versions.APIS[prefix.api_key].is_flexible(prefix.api_version)
        client_id, position = read_client_id(frame, is_flexible)
        schema = schema_of(prefix.api_key, prefix.api_version)
        return cls(prefix, client_id, schema.read_request(frame, position))


def request_bytes(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Any
) -> bytes:
    """One frame, with its length."""
    is_flexible = versions.APIS[api_key].is_flexible(version)
    head = write_request_head(api_key, version, correlation_id, client_id, is_flexible)
    return framed([head, *schema_of(api_key, version).write_request(request)])


def read_response(api_key: int, version: int, frame: Frame) -> tuple[Schema, Any]:
    """The message and the schema it is of: a broker refuses ApiVersions in version 0. Raises FrameError."""
    schema = schema_of(api_key, version)
    position = LENGTH_BYTES
    if versions.APIS[api_key].response_has_tags(version):
        _, position = read_uvarint(frame, position)
    if api_key == versions.API_VERSIONS and _refuses(frame):
        schema = schema_of(api_key, 0)
    return schema, schema.read_response(frame, position)


def _refuses(frame: Frame) -> bool:
    return int.from_bytes(frame[LENGTH_BYTES : LENGTH_BYTES + 2], "big") == _UNSUPPORTED_VERSION


def response_bytes(schema: Schema, correlation_id: int, response: Any) -> bytes:
    """One frame, with its length."""
    has_tags = versions.APIS[schema.api_key].response_has_tags(schema.version)
    return framed_response(correlation_id, has_tags, schema.write_response(response))


def with_known_versions(response: Any) -> Any:
    """An ApiVersions response that tells of the decoded APIs only versions that the proxy can decode."""
    keys = tuple(
        replace(one, max_version=min(one.max_version, VERSION_MAX[one.api_key]))
        if one.api_key in VERSION_MAX
        else one
        for one in response.api_keys
    )
    return replace(response, api_keys=keys)
