"""Keys and values of records as text where they are UTF-8, else in base64, with a limit on the bytes of each."""

import base64
import json
from typing import Final, NamedTuple

_UTF8_BYTES_MAX: Final = 4
"""Maximum size of one UTF-8 character in bytes."""
PREVIEW_LENGTH: Final = 300
PREVIEW_BYTES: Final = 32
_HEX_LINE: Final = 16
_SCHEMA_HEAD: Final = 5
"""Bytes before a value with a schema id: a zero and the four bytes of the id."""


class Content(NamedTuple):
    text: str | None
    """The content as text; None: it is null, or is not UTF-8."""
    base64: str | None
    """The content in base64; None: it is null, or is UTF-8."""
    size_bytes: int | None
    """Bytes of the whole content, also where it is cut; None: it is null."""
    is_cut: bool


NULL: Final = Content(None, None, None, False)


def content_of(data: bytes | None, bytes_max: int) -> Content:
    """Return the first `bytes_max` bytes of a key or a value, as text if they are UTF-8, else in base64. A text is
    never cut within a character.
    """
    if data is None:
        return NULL
    is_cut = len(data) > bytes_max
    shown = data[:bytes_max]
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        within_last = is_cut and error.start > len(shown) - _UTF8_BYTES_MAX
        if not within_last or error.reason != "unexpected end of data":
            return Content(None, base64.b64encode(shown).decode("ascii"), len(data), is_cut)
        text = shown[: error.start].decode()
    return Content(text, None, len(data), is_cut)


def as_json(text: str) -> str | None:
    """Return the text as JSON with indentation; None if it is no JSON object or array.

    It is shown beside the text, never instead of it: numbers and repeated names may come out changed.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        shown = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    # Half of a pair, such as \ud800, is JSON and no UTF-8.
    return shown.encode(errors="backslashreplace").decode()


def preview_of(text: str) -> str:
    """Return the beginning of the text in one line."""
    line = " ".join(text[: 2 * PREVIEW_LENGTH].split())
    return line if len(line) <= PREVIEW_LENGTH else f"{line[:PREVIEW_LENGTH]}…"


def hex_preview(data: bytes) -> str:
    more = " …" if len(data) > PREVIEW_BYTES else ""
    return data[:PREVIEW_BYTES].hex(" ") + more


def hex_dump(data: bytes) -> str:
    """Return the bytes as a hex dump: sixteen a line, with the offset, the bytes, and their ASCII."""
    lines = []
    for at in range(0, len(data), _HEX_LINE):
        part = data[at : at + _HEX_LINE]
        left, right = part[: _HEX_LINE // 2].hex(" "), part[_HEX_LINE // 2 :].hex(" ")
        shown = "".join(chr(one) if 0x20 <= one < 0x7F else "." for one in part)
        lines.append(f"{at:06x}  {left:23}  {right:23}  {shown}")
    return "\n".join(lines)


def schema_id(data: bytes) -> int | None:
    """Return the schema id that Confluent's serializers write before a value. None: this is no such value, or is
    text.
    """
    if len(data) <= _SCHEMA_HEAD or data[0]:
        return None
    return int.from_bytes(data[1:_SCHEMA_HEAD], "big")
