"""The byte layout of stored values. Each value is declared field by field, as Kafka declares its messages.

A `Codec` reads and writes one kind of value: a number, a text, an array, a structure. A `RecordType` puts those of a
record's key and of each version of its value together. All versions make the same record: one that lacks a field has
`absent` in its place. Numbers are big-endian. A text, bytes or an array begin with their length: an int16 or int32 with
-1 for null, or a compact one. A flexible structure ends with tagged fields; unknown ones are passed over (KIP-482).
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from oncelog.protocol.frames import FrameError, read_uvarint
from oncelog.protocol.writing import write_uvarint

_NO_TAGS: Final = b"\0"

DAMAGE: Final = (struct.error, IndexError, ValueError, FrameError)
"""The errors of reading bytes that no writer can have written. The caller says what the bytes should have been."""


class Codec(NamedTuple):
    """Turns one kind of value into bytes, and back."""

    encode: Callable[[Any], bytes]
    read: Callable[..., tuple[Any, int]]
    """(data, position) → the value, and the position behind it.
    A structure's `read` also takes attributes that are known already."""
    letter: str = ""
    """struct's letter for a number; empty for other values. Neighbouring numbers are read and written at once."""
    kind: Callable[[int], Any] | None = None
    """The type that a number becomes, such as a member of an IntEnum."""


def read_whole(codec: Codec, data: bytes, at: int = 0, **known: Any) -> Any:
    """Return the value of all the bytes from `at` on. Raises ValueError for bytes too many."""
    value, end = codec.read(data, at, **known)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes too many")
    return value


# ------------------------------------------------------------------------------------------------ single values


def number(letter: str, kind: Callable[[int], Any] | None = None) -> Codec:
    form = struct.Struct(f">{letter}")

    def read(data: bytes, at: int) -> tuple[Any, int]:
        (found,) = form.unpack_from(data, at)
        return found if kind is None else kind(found), at + form.size

    return Codec(form.pack, read, letter, kind)


INT8: Final = number("b")
INT16: Final = number("h")
INT32: Final = number("i")
INT64: Final = number("q")
UINT32: Final = number("I")
UUID: Final = number("16s")
"""The codec of a UUID, sixteen bytes."""


def _read_compact(data: bytes, at: int) -> tuple[int, int]:
    found, at = read_uvarint(data, at)
    return found - 1, at


COMPACT: Final = Codec(lambda length: write_uvarint(length + 1), _read_compact)
"""The codec of a compact length: the length plus one, as a varint; 0 is null."""


def converted(codec: Codec, make: Callable[[Any], Any], stored: Callable[[Any], Any]) -> Codec:
    """Return the codec of a value that `make` makes of the stored value; `stored` is the way back."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found, at = codec.read(data, at)
        return make(found), at

    return Codec(lambda value: codec.encode(stored(value)), read)


def sized(length: Codec, *, is_text: bool = False, nullable: bool = False) -> Codec:
    """Return the codec of bytes, or of text in UTF-8, behind their length."""
    encode_length, read_length = length[:2]

    def encode(value: Any) -> bytes:
        if value is None:
            assert nullable, "null where a value must be"
            return encode_length(-1)
        data: bytes = value.encode() if is_text else value
        return encode_length(len(data)) + data

    def read(data: bytes, at: int) -> tuple[bytes | str | None, int]:
        size, at = read_length(data, at)
        if size < 0 and nullable:
            return None, at
        end = at + size
        if size < 0 or end > len(data):
            raise ValueError(f"{size} bytes expected at {at}, {len(data) - at} left")
        return data[at:end].decode() if is_text else data[at:end], end

    return Codec(encode, read)


STRING: Final = sized(INT16, is_text=True)
NULLABLE_STRING: Final = sized(INT16, is_text=True, nullable=True)
COMPACT_STRING: Final = sized(COMPACT, is_text=True)
COMPACT_NULLABLE_STRING: Final = sized(COMPACT, is_text=True, nullable=True)


def absent(value: Any) -> Codec:
    """Return the codec of a field that this version does not have: `value` stands for it."""
    return Codec(lambda _: b"", lambda data, at: (value, at))


# ------------------------------------------------------------------------------------------------ arrays


def array(length: Codec, element: Codec) -> Codec:
    """Return the codec of a tuple of elements, behind their number."""

    def encode(elements: Sequence[Any]) -> bytes:
        return length.encode(len(elements)) + b"".join(map(element.encode, elements))

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count, at = _read_count(length, data, at)
        found = []
        for _ in range(count):
            one, at = element.read(data, at)
            found.append(one)
        return tuple(found), at

    return Codec(encode, read)


def keyed_numbers(key: Codec, length: Codec, *, flexible: bool = False) -> Codec:
    """Return the codec of a list of keys, each with its int32s, such as topics with partitions.
    `flexible`: tags end each."""
    tags = _NO_TAGS if flexible else b""

    def encode(found: Iterable[tuple[Any, Sequence[int]]]) -> bytes:
        pieces = [
            key.encode(one)
            + length.encode(len(numbers))
            + struct.pack(f">{len(numbers)}i", *numbers)
            + tags
            for one, numbers in found
        ]
        return length.encode(len(pieces)) + b"".join(pieces)

    def read(data: bytes, at: int) -> tuple[list[tuple[Any, Sequence[int]]], int]:
        count, at = _read_count(length, data, at)
        found: list[tuple[Any, Sequence[int]]] = []
        for _ in range(count):
            one, at = key.read(data, at)
            size, at = _read_count(length, data, at)
            found.append((one, struct.unpack_from(f">{size}i", data, at)))
            at += 4 * size
            if flexible:
                _, at = read_tags(data, at)
        return found, at

    return Codec(encode, read)


def grouped(
    key: Codec, length: Codec, pair: Callable[[Any, int], Any], *, flexible: bool = False
) -> Codec:
    """Return a codec with the bytes of `keyed_numbers`, for a tuple of pairs that `pair` makes of a key and a
    number."""
    keyed = keyed_numbers(key, length, flexible=flexible)

    def encode(pairs: Iterable[tuple[Any, int]]) -> bytes:
        numbers_of: dict[Any, list[int]] = {}
        for one, number in pairs:
            numbers_of.setdefault(one, []).append(number)
        return keyed.encode(numbers_of.items())

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        found, at = keyed.read(data, at)
        return tuple([pair(one, number) for one, numbers in found for number in numbers]), at

    return Codec(encode, read)


def _read_count(length: Codec, data: bytes, at: int) -> tuple[int, int]:
    """Return the number of an array's elements, and where they begin.
    An element has at least a byte, so more is damage."""
    count, at = length.read(data, at)
    if not 0 <= count <= len(data) - at:
        raise ValueError(f"array of {count} elements in {len(data) - at} bytes")
    return count, at


# ------------------------------------------------------------------------------------------------ structures


class Tag(NamedTuple):
    """A tagged field. It is left out where its value is `default`."""

    number: int
    codec: Codec
    default: Any


def structure(
    make: Callable[..., Any],
    tagged: Mapping[str, Tag] | None = None,
    values_of: Callable[[Any], Sequence[Any]] | None = None,
    /,
    **fields: Codec,
) -> Codec:
    """Return the codec of a structure: fields in the order of their bytes; `make` takes their values by name.

    `tagged`: the structure is flexible and ends with these, `{}` with none that we know. None: it is not flexible.
    `values_of`: finds the values in what is written, in this order, where they are not its attributes of these names.
    """
    names = (*fields, *(tagged or ()))
    steps = _steps(tuple(fields.values()))
    if tagged is not None:
        steps.append((slice(len(fields), len(names)), _tags(tuple(tagged.values()))))
    if values_of is None:
        found_of = attrgetter(*names)
        values_of = found_of if len(names) > 1 else lambda value: (found_of(value),)
    encoders = [(place, codec.encode) for place, codec in steps]
    readers = [(names[place], codec.read) for place, codec in steps]

    def encode(value: Any) -> bytes:
        values = values_of(value)
        return b"".join([encode_one(values[place]) for place, encode_one in encoders])

    def read(data: bytes, at: int, **values: Any) -> tuple[Any, int]:
        for name, read_one in readers:
            found, at = read_one(data, at)
            if isinstance(name, str):
                values[name] = found
            else:
                values.update(zip(name, found, strict=True))
        return make(**values), at

    return Codec(encode, read)


def _steps(codecs: Sequence[Codec]) -> list[tuple[Any, Codec]]:
    """Return each codec with the place of its value;
    a run of numbers, which is read and written at once, has a slice."""
    steps: list[tuple[Any, Codec]] = []
    start = 0
    for is_number, found in groupby(codecs, lambda codec: bool(codec.letter)):
        run = list(found)
        end = start + len(run)
        if is_number and len(run) > 1:
            steps.append((slice(start, end), _run(run)))
        else:
            steps += enumerate(run, start)
        start = end
    return steps


def _run(numbers: Sequence[Codec]) -> Codec:
    form = struct.Struct(">" + "".join(one.letter for one in numbers))
    kinds = [(place, one.kind) for place, one in enumerate(numbers) if one.kind is not None]

    def read(data: bytes, at: int) -> tuple[Sequence[Any], int]:
        found: Sequence[Any] = form.unpack_from(data, at)
        if kinds:
            found = list(found)
            for place, kind in kinds:
                found[place] = kind(found[place])
        return found, at + form.size

    return Codec(lambda values: form.pack(*values), read)


def read_tags(data: bytes, at: int) -> tuple[dict[int, bytes], int]:
    found: dict[int, bytes] = {}
    if data[at] == 0:
        return found, at + 1
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        found[tag], at = _TAG_CONTENT.read(data, at)
    return found, at


_TAG_CONTENT: Final = sized(Codec(write_uvarint, read_uvarint))


def _tags(tags: Sequence[Tag]) -> Codec:
    defaults = tuple(tag.default for tag in tags)

    def encode(values: Sequence[Any]) -> bytes:
        if values == defaults:
            return _NO_TAGS
        pieces = [
            write_uvarint(tag.number) + _TAG_CONTENT.encode(tag.codec.encode(value))
            for tag, value in zip(tags, values, strict=True)
            if value != tag.default
        ]
        return write_uvarint(len(pieces)) + b"".join(pieces)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found, at = read_tags(data, at)
        values = [
            read_whole(tag.codec, found[tag.number]) if tag.number in found else tag.default
            for tag in tags
        ]
        return values, at

    return Codec(encode, read)


def nullable(codec: Codec) -> Codec:
    """Return the codec of a structure behind an int8 that says whether it is there (KIP-893)."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        is_there, at = INT8.read(data, at)
        return codec.read(data, at) if is_there > 0 else (None, at)

    return Codec(lambda value: b"\xff" if value is None else b"\1" + codec.encode(value), read)


# ------------------------------------------------------------------------------------------------ records


class RecordType:
    """One type of record in a log. Its key is an int16 type and fields, its value an int16 version and fields.
    A null value removes the key."""

    def __init__(
        self,
        number: int,
        key: Mapping[str, Codec],
        values: Mapping[int, Codec],
        tombstone: Callable[..., Any],
    ) -> None:
        """`key` holds the attributes of the record and of its `tombstone`;
        `values` the structures that make the record, by version."""
        self.number = number
        self.newest_version = max(values)
        self._key = structure(dict, **key)
        self._values = values
        self._tombstone = tombstone
        self._type = INT16.encode(number)
        self._versions = {version: INT16.encode(version) for version in values}

    def encode_key(self, record: Any) -> bytes:
        return self._type + self._key.encode(record)

    def encode_value(self, record: Any, version: int) -> bytes:
        return self._versions[version] + self._values[version].encode(record)

    def decode(self, key: bytes, value: bytes | None, **known: Any) -> Any:
        """Return the record, or its tombstone; None for a later version.
        `known`: attributes that are neither in key nor value."""
        named = read_whole(self._key, key, len(self._type))
        if value is None:
            return self._tombstone(**named)
        version, at = INT16.read(value, 0)
        schema = self._values.get(version)
        return None if schema is None else read_whole(schema, value, at, **named, **known)
