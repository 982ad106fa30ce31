"""Kafka's frames: four bytes of length, then a header and a message. No sockets here: bytes in, frames out.

```
 request:  length i32 | api key i16 | api version i16 | correlation id i32 | client id | [tags] | message
 response: length i32 | correlation id i32 | [tags] | message
```

The tags stand in the flexible versions of an API only (KIP-482). The response of ApiVersions never has them: its reader
does not know yet what the other side speaks (KIP-511, docs/kafka-facts.md, 2).
"""

import struct
from typing import Final, NamedTuple

from oncelog.errors import OncelogError

LENGTH_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">i")
_PREFIX: Final = struct.Struct(">hhi")
_INT16: Final = struct.Struct(">h")
_LENGTH_AND_CORRELATION: Final = struct.Struct(">ii")
_TAGS_MAX: Final = 64

Frame = bytes | memoryview


class FrameError(OncelogError):
    """Raised for bytes that are no Kafka frame. The connection that they came from must be closed."""


class FrameSplitter:
    """Cuts a byte stream into frames, copying only frames that arrive in several pieces.

    The buffered bytes never exceed `size_max_bytes` plus one piece, whatever length a frame claims.
    """

    __slots__ = ("_parts", "_wanted", "buffered_bytes", "size_max_bytes")

    def __init__(self, size_max_bytes: int) -> None:
        self.size_max_bytes = size_max_bytes
        self.buffered_bytes = 0
        """Bytes of the frame that is not complete yet."""
        self._parts: list[bytes] = []
        self._wanted = LENGTH_BYTES

    def feed(self, data: bytes) -> list[memoryview]:
        """Return the frames that `data` completes, without their length, in order; they share its memory.

        Raises FrameError for a negative length or one above the maximum.
        """
        if self.buffered_bytes:
            self._parts.append(data)
            self.buffered_bytes += len(data)
            if self.buffered_bytes < self._wanted:
                return []
            data = b"".join(self._parts)
            self._parts.clear()
        view, position, end = memoryview(data), 0, len(data)
        frames: list[memoryview] = []
        self._wanted = LENGTH_BYTES
        while end - position >= LENGTH_BYTES:
            size = _LENGTH.unpack_from(data, position)[0]
            if not 0 <= size <= self.size_max_bytes:
                raise FrameError(f"frame of {size} bytes; allowed are 0 to {self.size_max_bytes}")
            whole = LENGTH_BYTES + size
            if end - position < whole:
                self._wanted = whole
                break
            frames.append(view[position + LENGTH_BYTES : position + whole])
            position += whole
        self.buffered_bytes = end - position
        if self.buffered_bytes:
            self._parts.append(data[position:] if position else data)
        return frames

    def clear(self) -> None:
        """Forget the incomplete frame."""
        self._parts.clear()
        self.buffered_bytes = 0
        self._wanted = LENGTH_BYTES


class RequestPrefix(NamedTuple):
    """The part of a request header that is the same in every version of every API."""

    api_key: int
    api_version: int
    correlation_id: int


def read_request_prefix(frame: Frame) -> RequestPrefix:
    """Read the fixed part of a request header. Raises FrameError when the frame is too short for it."""
    if len(frame) < _PREFIX.size:
        raise FrameError(f"request of {len(frame)} bytes is shorter than a request header")
    return RequestPrefix._make(_PREFIX.unpack_from(frame))


def read_client_id(frame: Frame, is_flexible: bool) -> tuple[str | None, int]:
    """Return the client id, and where the message starts. The id is a plain nullable string in every header version.

    Raises FrameError when the header runs past the frame.
    """
    position = _PREFIX.size + _INT16.size
    if len(frame) < position:
        raise FrameError("request header ends before its client id")
    length = _INT16.unpack_from(frame, _PREFIX.size)[0]
    client_id = None
    if length >= 0:
        end = position + length
        if end > len(frame):
            raise FrameError(f"client id of {length} bytes runs past its frame")
        client_id = str(frame[position:end], "utf-8", "replace")
        position = end
    if is_flexible:
        position = _skip_tags(frame, position)
    return client_id, position


def _skip_tags(frame: Frame, position: int) -> int:
    count, position = read_uvarint(frame, position)
    if count > _TAGS_MAX:
        raise FrameError(f"{count} tagged fields in a header; at most {_TAGS_MAX} are read")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    if position > len(frame):
        raise FrameError("tagged fields of the header run past the frame")
    return position


def read_uvarint(frame: Frame, position: int) -> tuple[int, int]:
    """Return an unsigned number of at most 35 bits, and the position behind it. Raises FrameError."""
    value = shift = 0
    while shift < 35:
        if position >= len(frame):
            raise FrameError("the bytes end inside a number")
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise FrameError("a number of more than five bytes")


def write_request_head(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, is_flexible: bool
) -> bytes:
    """Return a request header without the frame's length (`framed` puts it before everything)."""
    raw = None if client_id is None else client_id.encode()
    name = _INT16.pack(-1) if raw is None else _INT16.pack(len(raw)) + raw
    return (
        _PREFIX.pack(api_key, api_version, correlation_id) + name + (b"\0" if is_flexible else b"")
    )


def framed(parts: list[bytes]) -> bytes:
    """Return these parts of a message as one frame: their total length in four bytes, then the parts."""
    parts.insert(0, _LENGTH.pack(sum(map(len, parts))))
    return b"".join(parts)


def framed_response(correlation_id: int, has_tags: bool, parts: list[bytes]) -> bytes:
    """Return one response frame; `parts` is the message as its writer left it."""
    size = LENGTH_BYTES + has_tags + sum(map(len, parts))
    head = _LENGTH_AND_CORRELATION.pack(size, correlation_id)
    return b"".join((head + b"\0" if has_tags else head, *parts))


def framed_bytes(message: bytes) -> bytes:
    """Return one frame without any header, as bare SASL messages are sent."""
    return _LENGTH.pack(len(message)) + message


def read_correlation_id(frame: Frame) -> int:
    """Return the correlation id of a response frame. Raises FrameError."""
    if len(frame) < LENGTH_BYTES:
        raise FrameError(f"response of {len(frame)} bytes is shorter than a response header")
    correlation_id: int = _LENGTH.unpack_from(frame)[0]
    return correlation_id
