"""Kafka's messages, one `Schema` per API and version, over the generated classes of the library kio.

kio has a module per version, and most versions of a message differ by one field. `Schema.request_types` and
`response_types` hide that: each class is a constructor that takes the fields of every version and drops those this
version does not have. A field that no served version has is a TypeError. An error code is given as a number and becomes
the code that this version knows. A response is not throttled unless it says so. So a handler is written once. Loading a
schema takes milliseconds, so it happens when a version is first spoken.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, overload

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.constants import EntityType
from typing_extensions import TypeVar

from oncelog.protocol.error_versions import error_for_version
from oncelog.protocol.frames import Frame, FrameError
from oncelog.protocol.newer_messages import request_class, response_class
from oncelog.protocol.reading import Steps as Reading
from oncelog.protocol.reading import message_reading
from oncelog.protocol.shape import RequestCheck, structure_of
from oncelog.protocol.versions import APIS
from oncelog.protocol.writing import Steps, Writer, message_steps, message_writer

if TYPE_CHECKING:
    from kio.static.protocol import Entity, Payload

    from oncelog.protocol import kafka_messages as kafka

_SCHEMAS_MAX: Final = 512
"""The number of schemas that are kept: more than all versions of all APIs that are served.
It is a bound, not a setting."""

_DROPPED_MAX: Final = 4096
"""The number of sets of missing fields that are kept. It is a bound, not a setting."""

_UNREADABLE: Final = (SerialError, ValueError, OverflowError, TypeError)
"""The errors that kio raises for bytes that are no such message: its own first, then those of conversions to Python
values."""

_WIRE_ERRORS: Final[Mapping[int, ErrorCode]] = {int(error): error for error in ErrorCode}
"""Number → kio's enum of Kafka's error codes, which its messages take."""

_THROTTLE: Final = "throttle_time"
_NOT_THROTTLED: Final = timedelta(0)

_Reader: TypeAlias = Callable[[Frame, int], tuple[Any, int]]
"""kio's reader of a class: (frame, position) → (message, its size in bytes)."""

_UNKNOWN_TAG: Final = KeyError
"""The error that kio raises for a tagged field that it does not know."""


ResultT = TypeVar("ResultT")
RequestTypesT = TypeVar("RequestTypesT", default=Any)
RequestT = TypeVar("RequestT", default=Any)
ResponseTypesT = TypeVar("ResponseTypesT", default=Any)
ResponseT = TypeVar("ResponseT", default=Any)


class Schema(Generic[RequestTypesT, RequestT, ResponseTypesT, ResponseT]):
    """The decoder and encoder of one Kafka API at one version, over the classes of the library kio.

    Its types are those of the API's key (ADR 0055). Where the key is only a number, they are not known.
    """

    __slots__ = (
        "_read_in_steps",
        "_read_request",
        "_read_response",
        "_write_in_steps",
        "_write_request",
        "_write_response",
        "api_key",
        "check_request",
        "request",
        "request_types",
        "response",
        "response_types",
        "version",
    )

    def __init__(self, api_key: int, version: int) -> None:
        """Load the message classes of this API and version. Raises UnknownAPIKey or UnknownEntity (of the library kio):
        callers look into the version table first."""
        self.api_key = api_key
        self.version = version
        self.request = request_class(api_key, version)
        self.response = response_class(api_key, version)
        self.request_types: RequestTypesT = _constructors(self.request, api_key, version)
        self.response_types: ResponseTypesT = _constructors(self.response, api_key, version)
        self.check_request = RequestCheck(self.request)
        """Checks the request that starts at a position, and returns its number of array elements. Raises FrameError."""
        self._read_request: _Reader = entity_reader(self.request)
        self._write_response = message_writer(self.response)
        self._read_in_steps: Reading | None = None
        self._write_in_steps: Steps | None = None
        self._read_response: _Reader | None = None
        self._write_request: Writer | None = None

    def read_request(self, frame: Frame, position: int) -> RequestT:
        """Return the request that starts at `position`. Raises FrameError when the bytes are no such message.

        Bytes behind the message are ignored, as Kafka ignores them.
        """
        self.check_request(frame, position)
        return self.read_checked(frame, position)

    def read_checked(self, frame: Frame, position: int) -> RequestT:
        """Return the request that `check_request` has found to have good lengths. Raises FrameError."""
        request: RequestT = self._read(self._read_request, self.request, frame, position)
        return request

    def reading_checked(self, frame: Frame, position: int) -> Generator[None, None, RequestT]:
        """Read a request as `read_checked` does, as a generator: it yields after each element of an array, so other
        tasks can run."""
        if self._read_in_steps is None:
            self._read_in_steps = message_reading(self.request)
        request: RequestT
        try:
            request, _ = yield from self._read_in_steps(frame, position)
        except _UNKNOWN_TAG:
            request = yield from self._passing_over_tags(self.request, frame, position)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        return request

    def read_response(self, frame: Frame, position: int) -> ResponseT:
        """Return the response that starts at `position`, from a server that is trusted. Raises FrameError."""
        if self._read_response is None:
            self._read_response = entity_reader(self.response)
        response: ResponseT = self._read(self._read_response, self.response, frame, position)
        return response

    def _read(self, reader: _Reader, entity: type[Payload], frame: Frame, position: int) -> Any:
        """Decode a message of this class. The result has the type that all its versions share."""
        try:
            return reader(frame, position)[0]
        except _UNKNOWN_TAG:
            return drained(self._passing_over_tags(entity, frame, position))
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _passing_over_tags(
        self, entity: type[Payload], frame: Frame, position: int
    ) -> Generator[None, None, Any]:
        """Return the message of a newer peer, without the tagged fields that are not known here (KIP-482)."""
        try:
            message, _ = yield from message_reading(entity, passes_over_tags=True)(frame, position)
        except (_UNKNOWN_TAG, *_UNREADABLE) as error:
            raise self._unreadable(error) from error
        return message

    def _unreadable(self, error: Exception) -> FrameError:
        return FrameError(
            f"no message of api key {self.api_key} version {self.version}: "
            f"{type(error).__name__} {error}"
        )

    def write_response(self, response: ResponseT) -> list[bytes]:
        """Return the pieces of the encoded response: a megabyte of records is copied once, when they are joined."""
        parts: list[bytes] = []
        self._write_response(parts, response)
        return parts

    def writing_response(self, parts: list[bytes], response: ResponseT) -> Iterator[None]:
        """Append the pieces of the encoded response to `parts`, as a generator: it yields after each element of an
        array."""
        if self._write_in_steps is None:
            self._write_in_steps = message_steps(self.response)
        return self._write_in_steps(parts, response)

    def write_request(self, request: RequestT) -> list[bytes]:
        """Return the pieces of the encoded request."""
        if self._write_request is None:
            self._write_request = message_writer(self.request)
        parts: list[bytes] = []
        self._write_request(parts, request)
        return parts


def drained(steps: Generator[None, None, ResultT]) -> ResultT:
    """Run a generator of steps to its end at once, and return its result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: ResultT = end.value
        return result


class _SchemaOf(Protocol):
    """The type of `schema_of`: `lru_cache` loses how the result's type follows from the key's."""

    @overload
    def __call__(
        self,
        api_key: kafka.ApiKey[RequestTypesT, RequestT, ResponseTypesT, ResponseT],
        version: int,
        /,
    ) -> Schema[RequestTypesT, RequestT, ResponseTypesT, ResponseT]: ...
    @overload
    def __call__(self, api_key: int, version: int, /) -> Schema: ...
    def __call__(self, api_key: int, version: int, /) -> Schema: ...


schema_of: Final[_SchemaOf] = lru_cache(maxsize=_SCHEMAS_MAX)(Schema)
"""Return the schema of (API key, version), loaded at its first use (2 to 8 ms)."""


def _constructors(entity: type[Entity], api_key: int, version: int) -> Any:
    """Return a namespace with the constructors of a message and of its structures, all of this version."""
    return SimpleNamespace(
        version=version,
        **{
            one.__name__: _constructor(one, api_key, version, entity.__type__)
            for one in structures(entity)
        },
    )


def structures(entity: type[Entity]) -> Iterator[type[Entity]]:
    """Yield the class of a message, and those of the structures in it."""
    yield entity
    for one in fields(entity):
        structure = structure_of(one.type)
        if structure is not None:
            yield from structures(structure)


def _constructor(
    entity: type[Entity], api_key: int, version: int, kind: EntityType
) -> Callable[..., Entity]:
    known = frozenset(field.name for field in fields(entity))
    codes = tuple(field.name for field in fields(entity) if field.type is ErrorCode)
    has_throttle = _THROTTLE in known

    def construct(**values: Any) -> Entity:
        if not values.keys() <= known:
            dropped = frozenset(values.keys() - known)
            unknown = _of_no_version(api_key, kind, entity.__name__, dropped)
            if unknown:
                raise TypeError(f"no version of {entity.__name__} has {', '.join(unknown)}")
            values = {name: value for name, value in values.items() if name in known}
        for name in codes:
            if name in values:
                code = values[name]
                values[name] = _wire_error(api_key, version, code) if code else ErrorCode.none
        if has_throttle and _THROTTLE not in values:
            values[_THROTTLE] = _NOT_THROTTLED
        return entity(**values)

    return construct


@lru_cache(maxsize=_DROPPED_MAX)
def _of_no_version(
    api_key: int, kind: EntityType, structure: str, names: frozenset[str]
) -> tuple[str, ...]:
    """Return those field names that the structure has in no served version: using one is a mistake. Most names stand in
    the newest version."""
    load = response_class if kind is EntityType.response else request_class
    api = APIS[api_key]
    for version in range(api.max_version, api.served_min - 1, -1):
        for one in structures(load(api_key, version)):
            if one.__name__ == structure:
                names -= {field.name for field in fields(one)}
        if not names:
            break
    return tuple(sorted(names))


def _wire_error(api_key: int, version: int, error_code: int) -> ErrorCode:
    known = error_for_version(api_key, version, error_code)
    return _WIRE_ERRORS.get(known, ErrorCode.unknown_server_error)
