"""Reads lines of text as records, for `oncelog produce`. Nothing here knows a client or a log."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from oncelog.errors import OncelogError

_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
SHOWN_MAX: Final = 60
"""Bytes of a wrong line that its error shows."""
_PIECE_BYTES: Final = 64 * 1024


class Source(Protocol):
    """The file or pipe from which `oncelog produce` reads lines."""

    def read1(self, size: int, /) -> bytes: ...


def pieces(source: Source) -> Iterator[list[bytes]]:
    """Yield lists of lines as they can be read, until the end. A line is not held back to wait for later ones."""
    parts: list[bytes] = []
    while more := source.read1(_PIECE_BYTES):
        whole, newline, rest = more.rpartition(b"\n")
        if newline:
            yield b"".join([*parts, whole]).split(b"\n")
            parts = []
        parts.append(rest)
    if last := b"".join(parts):
        yield [last]


def unescaped(text: str) -> bytes:
    r"""Return a text as bytes, with its escapes `\t`, `\n`, `\r`, `\0`, `\\` and `\x1f` read as in most languages.

    Raises ValueError for other escapes.
    """

    def byte_of(found: re.Match[str]) -> bytes:
        name = found[1]
        if len(name) == 3:
            return bytes([int(name[1:], 16)])
        if name not in _ESCAPED:
            raise ValueError(rf"{found[0]} is no escape; there are \t, \n, \r, \0, \\ and \x1f")
        return _ESCAPED[name].encode()

    parts: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(text):
        parts += [text[end : found.start()].encode(), byte_of(found)]
        end = found.end()
    return b"".join([*parts, text[end:].encode()])


class Lines(NamedTuple):
    """Consecutive lines of the input of `oncelog produce`, each read as the key and value of a record to write."""

    first: int
    """The number of the first line; from 1, as editors count."""
    records: list[tuple[bytes | None, bytes | None]]
    """The key and the value of each record."""

    def parts(self, size: int) -> "Iterator[Lines]":
        """Split these records so that each part but the last ends with a line whose number is a multiple of `size`.
        Yields the parts.
        """
        at = 0
        while at < len(self.records):
            end = at + size - (self.first + at - 1) % size
            yield Lines(self.first + at, self.records[at:end])
            at = end


@dataclass(frozen=True, slots=True)
class LineForm:
    """The form in which a line holds key and value: the separator between them, and the text that stands for null.
    Without a separator the whole line is the value.
    """

    key_separator: bytes | None = None
    null_marker: bytes | None = None

    def read(self, pieces: Iterable[list[bytes]]) -> Iterator[Lines]:
        """Yield the records of the lines. A line of another form raises OncelogError with its number, after the lines
        before it were yielded.
        """
        separator, marker = self.key_separator, self.null_marker
        first = 1
        for piece in pieces:
            lines = Lines(first, [])
            first += len(piece)
            for line in piece:
                key: bytes | None = None
                value = line.removesuffix(b"\r")
                if separator is not None:
                    key, found, value = value.partition(separator)
                    if not found:
                        if lines.records:
                            yield lines
                        raise self._wrong(lines.first + len(lines.records), line)
                lines.records.append(
                    (None if key == marker else key, None if value == marker else value)
                )
            yield lines

    def _wrong(self, number: int, line: bytes) -> OncelogError:
        shown = line[:SHOWN_MAX].decode("utf-8", "backslashreplace")
        separator = (self.key_separator or b"").decode("utf-8", "backslashreplace")
        return OncelogError(f"line {number} has no key separator {separator!r}: {shown!r}")


def ranges(numbers: Iterable[int], most: int = 5) -> str:
    """Return ascending numbers as ranges: `1 to 4, 7`. It has at most `most` ranges, and says how many more there
    are. Empty for no numbers.
    """
    found: list[str] = []
    count = 0
    low = high = None
    for one in numbers:
        if high is not None and one == high + 1:
            high = one
            continue
        if low is not None:
            count += 1
            found += [_range(low, high)] if count <= most else []
        low = high = one
    if low is not None:
        count += 1
        found += [_range(low, high)] if count <= most else []
    more = f" and {count - most} more ranges" if count > most else ""
    return ", ".join(found) + more


def _range(low: int, high: int | None) -> str:
    return str(low) if low == high else f"{low} to {high}"
