r"""How `oncelog consume` prints a record.

A format is text with places in it, as in kcat: `%t` topic, `%p` partition, `%o` offset, `%k` key, `%s` value, `%T`
timestamp in milliseconds, `%K` and `%S` lengths in bytes (-1 for null); `%h` headers, `%%` a percent sign. The escapes
are those of `oncelog produce --key-separator`. A null key or value is the null marker; an empty one is empty.
"""

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from oncelog_server.cli.input_lines import unescaped

if TYPE_CHECKING:
    from confluent_kafka import Message

LINES: Final = r"%t-%p@%o\t%k\t%s\n"
VALUES: Final = r"%s\n"

Form = Callable[["Message"], str]


def form_of(text: str, null_marker: str) -> Form:
    """Raises ValueError for a place or an escape that there is not."""

    def shown(content: str | bytes | None) -> str:
        found = _bytes(content)
        return null_marker if found is None else text_of(found)

    places: dict[str, Callable[[Message], str]] = {
        "t": lambda message: str(message.topic()),
        "p": lambda message: str(message.partition()),
        "o": lambda message: str(message.offset()),
        "k": lambda message: shown(message.key()),
        "s": lambda message: shown(message.value()),
        "T": lambda message: str(message.timestamp()[1]),
        "K": lambda message: _length(message.key()),
        "S": lambda message: _length(message.value()),
        "h": lambda message: ",".join(
            f"{header[0]}={shown(header[1])}" for header in message.headers() or ()
        ),
        "%": lambda message: "%",
    }
    parts: list[str | Callable[[Message], str]] = []
    for piece in re.split(r"(%.?)", text, flags=re.DOTALL):
        if not piece.startswith("%"):
            parts.append(unescaped(piece).decode("utf-8", "surrogateescape"))
        elif piece[1:] in places:
            parts.append(places[piece[1:]])
        else:
            raise ValueError(
                f"{piece} stands for nothing; there are {', '.join(f'%{one}' for one in places)}"
            )
    return lambda message: "".join(
        part if isinstance(part, str) else part(message) for part in parts
    )


def json_line(message: "Message") -> str:
    return json.dumps(as_json(message), ensure_ascii=False) + "\n"


def text_of(content: bytes) -> str:
    """Of a key or value; bytes that are not UTF-8 are escaped."""
    return content.decode("utf-8", "backslashreplace")


def as_json(message: "Message") -> dict[str, Any]:
    """A record; a key or value that is not UTF-8 is under `key_base64` or `value_base64` instead."""
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
        **_named("key", _bytes(message.key())),
        **_named("value", _bytes(message.value())),
        "headers": [
            {"name": header[0], **_named("value", _bytes(header[1]))}
            for header in message.headers() or ()
        ],
    }


def _length(content: str | bytes | None) -> str:
    found = _bytes(content)
    return "-1" if found is None else str(len(found))


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _named(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode("ascii")}
