"""The byte layout of stored values. Each value is declared field by field, as Kafka declares its messages.

A `CodecOf` reads and writes one kind of value: a number, a text, an array, a structure. A `RecordType` puts those of a
record's key and of each version of its value together. All versions make the same record: one that lacks a field has
`absent` in its place. Numbers are big-endian. A text, bytes or an array begin with their length: an int16 or int32 with
-1 for null, or a compact one. A flexible structure ends with tagged fields; unknown ones are passed over (KIP-482).
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

from oncelog.protocol.frames import FrameError, read_uvarint
from oncelog.protocol.writing import write_uvarint

_NO_TAGS: Final = b"\0"

DAMAGE: Final = (struct.error, IndexError, ValueError, FrameError)
"""The errors of reading bytes that no writer can have written. The caller says what the bytes should have been."""


ValueT = TypeVar("ValueT")
StoredT = TypeVar("StoredT")
KeyT = TypeVar("KeyT")


class CodecOf(NamedTuple, Generic[ValueT]):
    """Turns one kind of value into bytes, and back."""

    encode: Callable[[ValueT], bytes]
    read: Callable[..., tuple[ValueT, int]]
    """(data, position) → the value, and the position behind it.
    A structure's `read` also takes attributes that are known already."""
    letter: str = ""
    """struct's letter for a number; empty for other values. Neighbouring numbers are read and written at once."""
    kind: Callable[[int], ValueT] | None = None
    """The type that a number becomes, such as a member of an IntEnum."""


Value: TypeAlias = Any
"""A value of a field. The fields of a structure have values of many types, which only its codecs know."""
Codec: TypeAlias = CodecOf[Value]
"""A codec of a field, or of any other value."""


def read_whole(codec: CodecOf[ValueT], data: bytes, at: int = 0, **known: object) -> ValueT:
    """Return the value of all the bytes from `at` on. Raises ValueError for bytes too many."""
    value, end = codec.read(data, at, **known)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes too many")
    return value


# ------------------------------------------------------------------------------------------------ single values


@overload
def number(letter: str) -> CodecOf[int]: ...
@overload
def number(letter: str, kind: Callable[[int], ValueT]) -> CodecOf[ValueT]: ...
def number(letter: str, kind: Callable[[int], Value] | None = None) -> Codec:
    """Return the codec of a number that struct writes by `letter`; with `kind`, of what that makes of the number."""
    form = struct.Struct(f">{letter}")

    def read(data: bytes, at: int) -> tuple[Value, int]:
        (found,) = form.unpack_from(data, at)
        return found if kind is None else kind(found), at + form.size

    return CodecOf(form.pack, read, letter, kind)


INT8: Final = number("b")
INT16: Final = number("h")
INT32: Final = number("i")
INT64: Final = number("q")
UINT32: Final = number("I")
UUID: Final[Codec] = number("16s")
"""The codec of a UUID, sixteen bytes."""


def _read_compact(data: bytes, at: int) -> tuple[int, int]:
    found, at = read_uvarint(data, at)
    return found - 1, at


COMPACT: Final = CodecOf(lambda length: write_uvarint(length + 1), _read_compact)
"""The codec of a compact length: the length plus one, as a varint; 0 is null."""


def converted(
    codec: CodecOf[StoredT], make: Callable[[StoredT], ValueT], stored: Callable[[ValueT], Value]
) -> CodecOf[ValueT]:
    """Return the codec of values that are stored in another form: `make` turns what `codec` reads into the value.

    `stored` is the way back. It may give what `codec` writes alike: a list where a tuple is read.
    """

    def read(data: bytes, at: int) -> tuple[ValueT, int]:
        found, at = codec.read(data, at)
        return make(found), at

    return CodecOf(lambda value: codec.encode(stored(value)), read)


@overload
def sized(length: CodecOf[int]) -> CodecOf[bytes]: ...
@overload
def sized(length: CodecOf[int], *, nullable: Literal[True]) -> CodecOf[bytes | None]: ...
@overload
def sized(length: CodecOf[int], *, is_text: Literal[True]) -> CodecOf[str]: ...
@overload
def sized(
    length: CodecOf[int], *, is_text: Literal[True], nullable: Literal[True]
) -> CodecOf[str | None]: ...
def sized(length: CodecOf[int], *, is_text: bool = False, nullable: bool = False) -> Codec:
    """Return the codec of bytes, or of text in UTF-8, with their length before them."""
    encode_length, read_length = length[:2]

    def encode(value: Value) -> bytes:
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

    return CodecOf(encode, read)


STRING: Final = sized(INT16, is_text=True)
NULLABLE_STRING: Final = sized(INT16, is_text=True, nullable=True)
COMPACT_STRING: Final = sized(COMPACT, is_text=True)
COMPACT_NULLABLE_STRING: Final = sized(COMPACT, is_text=True, nullable=True)


def absent(value: ValueT) -> CodecOf[ValueT]:
    """Return the codec of a field that this version does not have: nothing is written, and a read gives `value`."""
    return CodecOf(lambda _: b"", lambda data, at: (value, at))


# ------------------------------------------------------------------------------------------------ arrays


def array(length: CodecOf[int], element: CodecOf[ValueT]) -> CodecOf[tuple[ValueT, ...]]:
    """Return the codec of a tuple of elements, with their number before them."""

    def encode(elements: Sequence[ValueT]) -> bytes:
        return length.encode(len(elements)) + b"".join(map(element.encode, elements))

    def read(data: bytes, at: int) -> tuple[tuple[ValueT, ...], int]:
        count, at = _read_count(length, data, at)
        found = []
        for _ in range(count):
            one, at = element.read(data, at)
            found.append(one)
        return tuple(found), at

    return CodecOf(encode, read)


def keyed_numbers(
    key: CodecOf[KeyT], length: CodecOf[int], *, flexible: bool = False
) -> CodecOf[Iterable[tuple[KeyT, Sequence[int]]]]:
    """Return the codec of a list of keys, each with its int32s, such as topics with partitions.

    `flexible`: each ends with tagged fields (KIP-482).
    """
    tags = _NO_TAGS if flexible else b""

    def encode(found: Iterable[tuple[KeyT, Sequence[int]]]) -> bytes:
        pieces = [
            key.encode(one)
            + length.encode(len(numbers))
            + struct.pack(f">{len(numbers)}i", *numbers)
            + tags
            for one, numbers in found
        ]
        return length.encode(len(pieces)) + b"".join(pieces)

    def read(data: bytes, at: int) -> tuple[list[tuple[KeyT, Sequence[int]]], int]:
        count, at = _read_count(length, data, at)
        found: list[tuple[KeyT, Sequence[int]]] = []
        for _ in range(count):
            one, at = key.read(data, at)
            size, at = _read_count(length, data, at)
            found.append((one, struct.unpack_from(f">{size}i", data, at)))
            at += 4 * size
            if flexible:
                _, at = read_tags(data, at)
        return found, at

    return CodecOf(encode, read)


def grouped(
    key: CodecOf[KeyT],
    length: CodecOf[int],
    pair: Callable[[KeyT, int], ValueT],
    *,
    flexible: bool = False,
) -> CodecOf[tuple[ValueT, ...]]:
    """Return the codec of a tuple of pairs that are stored as `keyed_numbers` stores them: grouped by key.

    `pair` makes a pair of a key and a number.
    """
    keyed = keyed_numbers(key, length, flexible=flexible)

    def encode(pairs: Iterable[Value]) -> bytes:
        numbers_of: dict[KeyT, list[int]] = {}
        for one, number in pairs:
            numbers_of.setdefault(one, []).append(number)
        return keyed.encode(numbers_of.items())

    def read(data: bytes, at: int) -> tuple[tuple[ValueT, ...], int]:
        found, at = keyed.read(data, at)
        return tuple([pair(one, number) for one, numbers in found for number in numbers]), at

    return CodecOf(encode, read)


def _read_count(length: CodecOf[int], data: bytes, at: int) -> tuple[int, int]:
    """Return the number of an array's elements, and where they begin.
    An element has at least a byte, so more is damage."""
    count, at = length.read(data, at)
    if not 0 <= count <= len(data) - at:
        raise ValueError(f"array of {count} elements in {len(data) - at} bytes")
    return count, at


# ------------------------------------------------------------------------------------------------ structures


class Tag(NamedTuple):
    """A tagged field of a flexible structure (KIP-482). It is not written where its value is `default`."""

    number: int
    codec: Codec
    default: object


def structure(
    make: Callable[..., ValueT],
    tagged: Mapping[str, Tag] | None = None,
    values_of: Callable[[ValueT], Sequence[Value]] | None = None,
    /,
    **fields: Codec,
) -> CodecOf[ValueT]:
    """Return the codec of a structure: fields in the order of their bytes; `make` takes their values by name.

    `tagged`: None means that the structure is not flexible. Otherwise it ends with these tagged fields, `{}` with none
    that we know. `values_of` returns the values to write, in this order, where they are not attributes of these names.
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

    def encode(value: ValueT) -> bytes:
        values = values_of(value)
        return b"".join([encode_one(values[place]) for place, encode_one in encoders])

    def read(data: bytes, at: int, **values: Value) -> tuple[ValueT, int]:
        for name, read_one in readers:
            found, at = read_one(data, at)
            if isinstance(name, str):
                values[name] = found
            else:
                values.update(zip(name, found, strict=True))
        return make(**values), at

    return CodecOf(encode, read)


def _steps(codecs: Sequence[Codec]) -> list[tuple[int | slice, Codec]]:
    """Return each codec of a structure's fields with the index of its value.

    A run of numbers becomes one codec with a slice, because they are read and written at once.
    """
    steps: list[tuple[int | slice, Codec]] = []
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


def _run(numbers: Sequence[Codec]) -> CodecOf[Sequence[Value]]:
    form = struct.Struct(">" + "".join(one.letter for one in numbers))
    kinds = [(place, one.kind) for place, one in enumerate(numbers) if one.kind is not None]

    def read(data: bytes, at: int) -> tuple[Sequence[Value], int]:
        found: Sequence[Value] = form.unpack_from(data, at)
        if kinds:
            found = list(found)
            for place, kind in kinds:
                found[place] = kind(found[place])
        return found, at + form.size

    return CodecOf(lambda values: form.pack(*values), read)


def read_tags(data: bytes, at: int) -> tuple[dict[int, bytes], int]:
    found: dict[int, bytes] = {}
    if data[at] == 0:
        return found, at + 1
    count, at = read_uvarint(data, at)
    for _ in range(count):
        tag, at = read_uvarint(data, at)
        found[tag], at = _TAG_CONTENT.read(data, at)
    return found, at


_TAG_CONTENT: Final = sized(CodecOf(write_uvarint, read_uvarint))


def _tags(tags: Sequence[Tag]) -> CodecOf[Sequence[Value]]:
    defaults = tuple(tag.default for tag in tags)

    def encode(values: Sequence[Value]) -> bytes:
        if values == defaults:
            return _NO_TAGS
        pieces = [
            write_uvarint(tag.number) + _TAG_CONTENT.encode(tag.codec.encode(value))
            for tag, value in zip(tags, values, strict=True)
            if value != tag.default
        ]
        return write_uvarint(len(pieces)) + b"".join(pieces)

    def read(data: bytes, at: int) -> tuple[list[Value], int]:
        found, at = read_tags(data, at)
        values = [
            read_whole(tag.codec, found[tag.number]) if tag.number in found else tag.default
            for tag in tags
        ]
        return values, at

    return CodecOf(encode, read)


def nullable(codec: CodecOf[ValueT]) -> CodecOf[ValueT | None]:
    """Return the codec of a structure or null: an int8 before it says whether it is there (KIP-893)."""

    def read(data: bytes, at: int) -> tuple[ValueT | None, int]:
        is_there, at = INT8.read(data, at)
        return codec.read(data, at) if is_there > 0 else (None, at)

    return CodecOf(lambda value: b"\xff" if value is None else b"\1" + codec.encode(value), read)


# ------------------------------------------------------------------------------------------------ records


class RecordType:
    """One type of record in an internal topic: how its key and each version of its value lie in bytes.

    The key is an int16 type and fields, the value an int16 version and fields. A null value removes the key.
    """

    def __init__(
        self,
        number: int,
        key: Mapping[str, Codec],
        values: Mapping[int, Codec],
        tombstone: Callable[..., object],
    ) -> None:
        """Declare the record: `key` has its key's fields by name, `values` the structure of each version of its value.

        `tombstone` makes the record of a null value, from the key's fields.
        """
        self.number = number
        self.newest_version = max(values)
        self._key: Codec = structure(dict, **key)
        self._values = values
        self._tombstone = tombstone
        self._type = INT16.encode(number)
        self._versions = {version: INT16.encode(version) for version in values}

    def encode_key(self, record: object) -> bytes:
        return self._type + self._key.encode(record)

    def encode_value(self, record: object, version: int) -> bytes:
        return self._versions[version] + self._values[version].encode(record)

    def decode(self, key: bytes, value: bytes | None, **known: object) -> Value:
        """Return the record, or its tombstone; None for a value of a version that is not known here.

        `known`: attributes that are neither in key nor value.
        """
        named = read_whole(self._key, key, len(self._type))
        if value is None:
            return self._tombstone(**named)
        version, at = INT16.read(value, 0)
        schema = self._values.get(version)
        return None if schema is None else read_whole(schema, value, at, **named, **known)
