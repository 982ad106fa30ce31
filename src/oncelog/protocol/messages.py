"""Kafka's messages, one `Schema` per API and version, over kio's generated classes.

kio has a module per version, and most versions of a message differ by one field. `Schema.request_types` and
`response_types` hide that: each class is a constructor that takes the fields of every version and drops those this
version does not have. A field that no served version has is a TypeError. An error code is given as a number and becomes
the code that this version knows. A response is not throttled unless it says so. So a handler is written once. Loading a
schema takes milliseconds, so it happens when a version is first spoken.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from oncelog.protocol.error_versions import error_for_version
from oncelog.protocol.frames import Frame, FrameError
from oncelog.protocol.newer_messages import request_class, response_class
from oncelog.protocol.reading import message_reading
from oncelog.protocol.shape import RequestCheck, structure_of
from oncelog.protocol.versions import APIS
from oncelog.protocol.writing import message_steps, message_writer

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

_UNKNOWN_TAG: Final = KeyError
"""The error that kio raises for a tagged field that it does not know."""


class Schema:
    """The classes, reader and writers of one API at one version."""

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
        """Load the classes. Raises kio's UnknownAPIKey or UnknownEntity: callers look into the version table first."""
        self.api_key = api_key
        self.version = version
        self.request: Any = request_class(api_key, version)
        self.response: Any = response_class(api_key, version)
        self.request_types = _constructors(self.request, api_key, version)
        self.response_types = _constructors(self.response, api_key, version)
        self.check_request = RequestCheck(self.request)
        """Checks the request that starts at a position, and returns its number of array elements. Raises FrameError."""
        self._read_request: Callable[[Any, int], Any] = entity_reader(self.request)
        self._write_response = message_writer(self.response)
        self._read_in_steps: Any = None
        self._write_in_steps: Any = None
        self._read_response: Any = None
        self._write_request: Any = None

    def read_request(self, frame: Frame, position: int) -> Any:
        """Return the request that starts at `position`. Raises FrameError when the bytes are no such message.

        Bytes behind the message are ignored, as Kafka ignores them.
        """
        self.check_request(frame, position)
        return self.read_checked(frame, position)

    def read_checked(self, frame: Frame, position: int) -> Any:
        """Return the request that `check_request` found to be whole. Raises FrameError."""
        return self._read(self._read_request, self.request, frame, position)

    def reading_checked(self, frame: Frame, position: int) -> Generator[None, None, Any]:
        """Read a request as `read_checked` does, in steps: it stops behind each element of an array."""
        if self._read_in_steps is None:
            self._read_in_steps = message_reading(self.request)
        try:
            request, _ = yield from self._read_in_steps(frame, position)
        except _UNKNOWN_TAG:
            request = yield from self._passing_over_tags(self.request, frame, position)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        return request

    def read_response(self, frame: Frame, position: int) -> Any:
        """Return the response that starts at `position`, from a server that is trusted. Raises FrameError."""
        if self._read_response is None:
            self._read_response = entity_reader(self.response)
        return self._read(self._read_response, self.response, frame, position)

    def _read(
        self, reader: Callable[[Any, int], Any], entity: Any, frame: Frame, position: int
    ) -> Any:
        try:
            return reader(frame, position)[0]
        except _UNKNOWN_TAG:
            return drained(self._passing_over_tags(entity, frame, position))
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _passing_over_tags(
        self, entity: Any, frame: Frame, position: int
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

    def write_response(self, response: Any) -> list[bytes]:
        """Return the pieces of the encoded response: a megabyte of records is copied once, when they are joined."""
        parts: list[bytes] = []
        self._write_response(parts, response)
        return parts

    def writing_response(self, parts: list[bytes], response: Any) -> Iterator[None]:
        """Append the pieces of the encoded response to `parts`, in steps: it stops behind each element of an array."""
        if self._write_in_steps is None:
            self._write_in_steps = message_steps(self.response)
        steps: Iterator[None] = self._write_in_steps(parts, response)
        return steps

    def write_request(self, request: Any) -> list[bytes]:
        """Return the pieces of the encoded request."""
        if self._write_request is None:
            self._write_request = message_writer(self.request)
        parts: list[bytes] = []
        self._write_request(parts, request)
        return parts


def drained(steps: Generator[None, None, Any]) -> Any:
    """Take all steps at once, and return their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


@lru_cache(maxsize=_SCHEMAS_MAX)
def schema_of(api_key: int, version: int) -> Schema:
    """Return the schema, loaded at its first use (2 to 8 ms)."""
    return Schema(api_key, version)


def _constructors(entity: Any, api_key: int, version: int) -> Any:
    """Return the constructors of a message and of the structures in it; `version` is theirs."""
    return SimpleNamespace(
        version=version,
        **{
            one.__name__: _constructor(one, api_key, version, entity.__type__)
            for one in _structures(entity)
        },
    )


def _structures(entity: Any) -> Iterator[Any]:
    yield entity
    for one in fields(entity):
        structure = structure_of(one.type)
        if structure is not None:
            yield from _structures(structure)


def _constructor(entity: Any, api_key: int, version: int, kind: EntityType) -> Callable[..., Any]:
    known = frozenset(field.name for field in fields(entity))
    codes = tuple(field.name for field in fields(entity) if field.type is ErrorCode)
    has_throttle = _THROTTLE in known

    def construct(**values: Any) -> Any:
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
    """Return those of the names that the structure has in no served version. Most names stand in the newest version."""
    load = response_class if kind is EntityType.response else request_class
    api = APIS[api_key]
    for version in range(api.max_version, api.served_min - 1, -1):
        for one in _structures(load(api_key, version)):
            if one.__name__ == structure:
                names -= {field.name for field in fields(one)}
        if not names:
            break
    return tuple(sorted(names))


def _wire_error(api_key: int, version: int, error_code: int) -> ErrorCode:
    known = error_for_version(api_key, version, error_code)
    return _WIRE_ERRORS.get(known, ErrorCode.unknown_server_error)
