"""The check that the lengths inside a request fit the request, before the library kio reads it.

kio's native reader (0.6) reserves memory for as many elements as an array claims to have, and a failed reservation
ends the process: thirty bytes from anyone could do that. So each request's lengths are walked first. The walk is
compiled once per message from kio's own classes: neighbouring fields of fixed size become one skip, an array of numbers
one check.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, Union, get_args, get_origin

from oncelog.protocol.frames import Frame, FrameError, read_uvarint

if TYPE_CHECKING:
    from kio.static.protocol import Entity

ELEMENTS_MAX: Final = 40_000
"""The most elements in all arrays of one request. A Fetch of 10,000 partitions in as many topics has 20,000.

An element costs about a microsecond and some two hundred bytes; `reading.py` reads so many in steps.
"""

Walk = Callable[[Frame, int, list[int]], int]
"""A function of (frame, position, [elements that may still come]) that returns the position behind its piece.

Raises FrameError, IndexError or struct.error.
"""

Steps = Callable[[Frame, int, list[int]], Generator[None, None, int]]
"""A Walk that stops behind each element of an array, so that other work can go on in between."""

_FIXED_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_TAGS_MAX: Final = 64


class _Piece(NamedTuple):
    fixed_bytes: int
    """The piece's size in bytes if it is always the same, else 0."""
    least_bytes: int
    """The least size of the piece in bytes."""
    walk: Walk | None
    """The walk over the piece; None when its size is fixed."""
    steps: Steps | None = None
    """The walk in steps; None when the piece holds no array whose elements are walked over one by one."""


class RequestCheck:
    """Checks the lengths in a request of one message class, which starts at a position of a frame.

    Called, or in steps, it returns the number of elements in the message's arrays. It raises FrameError.
    """

    def __init__(self, entity: type[Entity]) -> None:
        piece = _entity(entity)
        self._walk, self._steps = piece.walk, piece.steps

    def __call__(self, frame: Frame, position: int) -> int:
        left = [ELEMENTS_MAX]
        try:
            end = position if self._walk is None else self._walk(frame, position, left)
        except (IndexError, struct.error):
            raise _too_short() from None
        return _counted(frame, end, left)

    def in_steps(self, frame: Frame, position: int) -> Generator[None, None, int]:
        """Check a large request as a generator, which yields now and then: the check costs about a microsecond for each
        element."""
        if self._steps is None:
            return self(frame, position)
        left = [ELEMENTS_MAX]
        try:
            end = yield from self._steps(frame, position, left)
        except (IndexError, struct.error):
            raise _too_short() from None
        return _counted(frame, end, left)


def _too_short() -> FrameError:
    return FrameError("the message ends before its fields do")


def _counted(frame: Frame, end: int, left: list[int]) -> int:
    if end > len(frame):
        raise FrameError(f"the message's fields end {end - len(frame)} bytes behind its frame")
    return ELEMENTS_MAX - left[0]


def _entity(entity: type[Entity]) -> _Piece:
    flexible = entity.__flexible__
    pieces = [_field(one, flexible) for one in fields(entity) if "tag" not in one.metadata]
    least = sum(piece.least_bytes for piece in pieces) + flexible
    stages = _merged(pieces)
    if flexible:
        stages.append((_skip_tags, None))
    elif all(piece.walk is None for piece in pieces):
        return _Piece(least, least, None)
    walks = [walk for walk, _ in stages]

    def walk(frame: Frame, position: int, left: list[int]) -> int:
        for step in walks:
            position = step(frame, position, left)
        return position

    def steps(frame: Frame, position: int, left: list[int]) -> Generator[None, None, int]:
        for step, inner in stages:
            if inner is None:
                position = step(frame, position, left)
            else:
                position = yield from inner(frame, position, left)
        return position

    has_steps = any(inner is not None for _, inner in stages)
    return _Piece(0, least, walks[0] if len(walks) == 1 else walk, steps if has_steps else None)


def _merged(pieces: list[_Piece]) -> list[tuple[Walk, Steps | None]]:
    stages: list[tuple[Walk, Steps | None]] = []
    skipped = 0
    for piece in pieces:
        if piece.walk is None:
            skipped += piece.fixed_bytes
            continue
        if skipped:
            stages.append((_skip(skipped), None))
            skipped = 0
        stages.append((piece.walk, piece.steps))
    if skipped:
        stages.append((_skip(skipped), None))
    return stages


def _field(field: Field[Any], flexible: bool) -> _Piece:
    kind, is_nullable = without_none(field.type)
    kafka_type = field.metadata.get("kafka_type")
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        piece = _primitive(kafka_type, flexible) if kafka_type else _entity(element)
        return _array(piece, flexible, is_nullable)
    if kafka_type:
        return _primitive(kafka_type, flexible)
    assert is_structure(kind), (field.name, kind)
    return _nullable(_entity(kind)) if is_nullable else _entity(kind)


def without_none(kind: object) -> tuple[object, bool]:
    """Return the type of a field without its None, and True if it had one."""
    if get_origin(kind) in (UnionType, Union):
        rest = [one for one in get_args(kind) if one is not NoneType]
        assert len(rest) == 1, kind
        return rest[0], True
    return kind, False


def is_structure(kind: object) -> TypeGuard[type[Entity]]:
    """True if a field's type is the class of a nested structure."""
    return isinstance(kind, type) and is_dataclass(kind)


def structure_of(kind: object) -> type[Entity] | None:
    """Return the class of the structure in a field of this type, or in its array; None for any other field."""
    inner, _ = without_none(kind)
    if get_origin(inner) is tuple:
        inner, _ = without_none(get_args(inner)[0])
    return inner if is_structure(inner) else None


def _primitive(kafka_type: str, flexible: bool) -> _Piece:
    size = _FIXED_SIZES.get(kafka_type)
    if size is not None:
        return _Piece(size, size, None)
    if flexible:
        return _Piece(0, 1, _skip_compact)
    assert kafka_type in ("string", "bytes", "records"), kafka_type
    length = _INT16 if kafka_type == "string" else _INT32

    def walk(frame: Frame, position: int, left: list[int]) -> int:
        found: int = length.unpack_from(frame, position)[0]
        return position + length.size + max(found, 0)

    return _Piece(0, length.size, walk)


def _nullable(piece: _Piece) -> _Piece:
    """Return the check of a field that may be null: only -1 means null, as for the library kio. (Kafka takes any
    negative byte.)"""

    def walk(frame: Frame, position: int, left: list[int]) -> int:
        is_null = frame[position] == 0xFF
        position += 1
        if is_null:
            return position
        return (
            position + piece.fixed_bytes
            if piece.walk is None
            else piece.walk(frame, position, left)
        )

    return _Piece(0, 1, walk)


def _array(piece: _Piece, flexible: bool, is_nullable: bool) -> _Piece:
    least, element, inner = max(1, piece.least_bytes), piece.walk, piece.steps

    def length(frame: Frame, position: int, left: list[int]) -> tuple[int, int]:
        """Return the number of an array's elements, and the position of the first. Subtract the number from what is
        `left` of the request's maximum."""
        if flexible:
            count, position = read_uvarint(frame, position)
            count -= 1
        else:
            count = _INT32.unpack_from(frame, position)[0]
            position += _INT32.size
        if count < 0:
            if not is_nullable:
                # kio would read None where its own class promises a tuple.
                raise FrameError("an array is null that may not be")
            return 0, position
        if count > (len(frame) - position) // least:
            raise FrameError(
                f"an array claims {count} elements; {len(frame) - position} bytes are left"
            )
        left[0] -= count
        if left[0] < 0:
            raise FrameError(f"more than {ELEMENTS_MAX} elements in the arrays of one request")
        return count, position

    def walk(frame: Frame, position: int, left: list[int]) -> int:
        count, position = length(frame, position, left)
        if element is None:
            return position + count * piece.fixed_bytes
        for _ in range(count):
            position = element(frame, position, left)
        return position

    def steps(frame: Frame, position: int, left: list[int]) -> Generator[None, None, int]:
        count, position = length(frame, position, left)
        for _ in range(count):
            if inner is not None:
                position = yield from inner(frame, position, left)
            elif element is not None:
                position = element(frame, position, left)
            yield
        return position

    return _Piece(0, 1 if flexible else _INT32.size, walk, None if element is None else steps)


def _skip(size: int) -> Walk:
    return lambda frame, position, left: position + size


def _skip_compact(frame: Frame, position: int, left: list[int]) -> int:
    length = frame[position]
    if length < 0x80:
        return position + 1 + max(length - 1, 0)
    length, position = read_uvarint(frame, position)
    return position + length - 1


def _skip_tags(frame: Frame, position: int, left: list[int]) -> int:
    if frame[position] == 0:
        return position + 1
    count, position = read_uvarint(frame, position)
    if count > _TAGS_MAX:
        raise FrameError(f"{count} tagged fields; at most {_TAGS_MAX} are read")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    return position
