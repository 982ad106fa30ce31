"""Requests and responses as the proxy sees them: frames in, messages out, and back. No sockets here.

The proxy decodes only the APIs in `DECODED`; every other frame passes through unchanged. It announces lower versions
of some of these: versions that name topics instead of giving their ids, and that this package can decode.
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
"""The highest version that clients may use of each API.
From the next version on Produce, Fetch and TxnOffsetCommit give topic ids."""
DECODED: Final = frozenset(VERSION_MAX)
_NO_ACKS: Final = 0
_UNSUPPORTED_VERSION: Final = 35


@dataclass(slots=True)
class Own:
    """A request that the proxy itself sends to the broker for a lie; no client receives its response."""

    api_key: int
    version: int
    request: Any


@dataclass(slots=True)
class Exchange:
    """A client's request on its way through the proxy to the broker. A lie (a bug that the proxy plants) may
    change it."""

    api_key: int
    version: int
    request: Any
    answer: Any = None
    """The response that the client receives without the broker seeing the request; None: the broker answers."""
    before: list[Own] = field(default_factory=list)
    """Requests that the broker receives first, on the same connection."""
    after: list[Own] = field(default_factory=list)
    note: Any = None
    """A note that the lie keeps until the response comes."""

    @property
    def types(self) -> Any:
        """Return the classes from which a lie builds a response to this request, in the request's version."""
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
        """Decode a frame; return None for an API that is not decoded. Raises FrameError."""
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
    """Return the request as one frame, with its length in front."""
    is_flexible = versions.APIS[api_key].is_flexible(version)
    head = write_request_head(api_key, version, correlation_id, client_id, is_flexible)
    return framed([head, *schema_of(api_key, version).write_request(request)])


def read_response(api_key: int, version: int, frame: Frame) -> tuple[Schema, Any]:
    """Decode a response and return it with the schema by which it was read. That is version 0 for a refused
    ApiVersions request, whatever version was asked. Raises FrameError."""
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
    """Return the response as one frame, with its length in front."""
    has_tags = versions.APIS[schema.api_key].response_has_tags(schema.version)
    return framed_response(correlation_id, has_tags, schema.write_response(response))


def with_known_versions(response: Any) -> Any:
    """Return an ApiVersions response in which each decoded API has no higher version than the proxy can
    decode."""
    keys = tuple(
        replace(one, max_version=min(one.max_version, VERSION_MAX[one.api_key]))
        if one.api_key in VERSION_MAX
        else one
        for one in response.api_keys
    )
    return replace(response, api_keys=keys)
