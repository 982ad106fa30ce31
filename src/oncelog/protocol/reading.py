"""A decoder of Kafka messages (classes of the library kio) in steps, so that a request of 40,000 elements does not take
ten milliseconds at once.

kio (0.6) reads a message at once, in native code. This module reads in Python only the structures that hold an array;
kio still reads each element. The frame has passed `shape.RequestCheck`, so every length fits.

kio raises KeyError for a tag that it does not know, where Kafka passes over it (KIP-482). With `passes_over_tags` this
module reads every structure, and leaves such a tag out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args, get_origin

from kio._kio_native import entity_reader, get_field_reader, get_reader

from oncelog.protocol.frames import Frame, read_uvarint
from oncelog.protocol.shape import is_structure, without_none

if TYPE_CHECKING:
    from kio.static.protocol import Entity

Steps: TypeAlias = Callable[[Frame, int], Generator[None, None, tuple[Any, int]]]
"""A reader in steps: (frame, position) → (value, position behind it). It stops behind each element of an array."""

_Reader: TypeAlias = "Callable[[Frame, int], tuple[object, int]]"
"""kio's reader: (frame, position) → (value, its size in bytes)."""

_INT32: Final = struct.Struct(">i")


@cache
def message_reading(entity: type[Entity], *, passes_over_tags: bool = False) -> Steps:
    """Return a decoder for this message class that works in steps: a generator that yields between elements. It raises
    KeyError for an unknown tag, unless that is passed over."""
    flexible = entity.__flexible__
    tagged: dict[int, tuple[str, _Reader]] = {}
    plain: list[tuple[str, Steps]] = []
    for field in fields(entity):
        if "tag" not in field.metadata:
            plain.append((field.name, _field(entity, field, flexible, passes_over_tags)))
            continue
        if field.default is MISSING:
            # Only kio knows the default of such a field. No API that is served has one.
            return _in_one_step(entity_reader(entity))
        read = get_field_reader(entity, field, False, True)
        tagged[field.metadata["tag"]] = (field.name, read)

    def steps(frame: Frame, position: int) -> Generator[None, None, tuple[object, int]]:
        values: dict[str, object] = {}
        for name, read in plain:
            values[name], position = yield from read(frame, position)
        if flexible:
            position = _read_tags(frame, position, tagged, values)
        return entity(**values), position

    return steps


def _read_tags(
    frame: Frame, position: int, tagged: dict[int, tuple[str, _Reader]], values: dict[str, object]
) -> int:
    """Read tagged fields into `values`, skip tags that are unknown, and return the position behind all."""
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        if tag in tagged:
            name, read = tagged[tag]
            values[name] = read(frame, position)[0]
        position += size
    return position


def _field(
    entity: type[Entity], field: Field[Any], flexible: bool, passes_over_tags: bool
) -> Steps:
    kind, is_nullable = without_none(field.type)
    if passes_over_tags and is_structure(kind):
        inner = message_reading(kind, passes_over_tags=True)
        return _nullable(inner) if is_nullable else inner
    if get_origin(kind) is not tuple:
        return _in_one_step(get_field_reader(entity, field, False, False))
    element, is_element_nullable = without_none(get_args(kind)[0])
    kafka_type = field.metadata.get("kafka_type")
    if kafka_type:
        read = get_reader(kafka_type, flexible, is_element_nullable)
        return _array(None, read, flexible)
    assert is_structure(element), (field.name, element)
    has_array = any(get_origin(without_none(one.type)[0]) is tuple for one in fields(element))
    if has_array or passes_over_tags:
        inner = message_reading(element, passes_over_tags=passes_over_tags)
        return _array(inner, None, flexible)
    return _array(None, entity_reader(element), flexible)


def _nullable(inner: Steps) -> Steps:
    """Return a decoder for a structure that may be null: the byte before it is -1 for null."""

    def steps(frame: Frame, position: int) -> Generator[None, None, tuple[object, int]]:
        if frame[position] == 0xFF:
            return None, position + 1
        return (yield from inner(frame, position + 1))

    return steps


def _in_one_step(read: _Reader) -> Steps:
    def steps(frame: Frame, position: int) -> Generator[None, None, tuple[object, int]]:
        value, size = read(frame, position)
        return value, position + size
        yield

    return steps


def _array(inner: Steps | None, read: _Reader | None, flexible: bool) -> Steps:
    """Return a decoder of an array. Its elements are decoded by `inner` in steps, or each by `read` at once."""

    def steps(frame: Frame, position: int) -> Generator[None, None, tuple[object, int]]:
        if flexible:
            count, position = read_uvarint(frame, position)
            count -= 1
        else:
            count = _INT32.unpack_from(frame, position)[0]
            position += _INT32.size
        if count < 0:
            return None, position
        elements = []
        for _ in range(count):
            if inner is not None:
                element, position = yield from inner(frame, position)
            elif read is not None:
                element, size = read(frame, position)
                position += size
            elements.append(element)
            yield
        return tuple(elements), position

    return steps
