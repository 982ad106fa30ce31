"""Lines of text as records: how `oncelog produce` reads them. Nothing here knows a client or a log."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from oncelog.errors import OncelogError

_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
SHOWN_MAX: Final = 60
"""Bytes of a wrong line in its error."""


def unescaped(text: str) -> bytes:
    r"""`\t`, `\n`, `\r`, `\0`, `\\` and `\x1f` as in most shells and languages. Raises ValueError for others."""

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


@dataclass(frozen=True, slots=True)
class Line:
    """One record to write."""

    number: int
    """From 1, as editors count."""
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class LineForm:
    """What a line looks like."""

    key_separator: bytes | None = None
    null_marker: bytes | None = None

    def read(self, lines: Iterable[bytes]) -> Iterator[Line]:
        """Raises OncelogError, with its number, at a line that has another form."""
        for number, line in enumerate(lines, 1):
            yield self._line(number, line.removesuffix(b"\n").removesuffix(b"\r"))

    def _line(self, number: int, line: bytes) -> Line:
        if self.key_separator is None:
            return Line(number, None, self._content(line))
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            shown = line[:SHOWN_MAX].decode("utf-8", "backslashreplace")
            raise OncelogError(
                f"line {number} has no key separator {self.key_separator.decode('utf-8', 'backslashreplace')!r}: "
                f"{shown!r}"
            )
        return Line(number, self._content(key), self._content(value))

    def _content(self, text: bytes) -> bytes | None:
        return None if self.null_marker is not None and text == self.null_marker else text


def ranges(numbers: Iterable[int], most: int = 5) -> str:
    """Of numbers in order: `1 to 4, 7`; so many ranges, and how many more. Empty for none."""
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
