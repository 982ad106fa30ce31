r"""Formats in which `oncelog consume` prints a record.

A format is text with placeholders, as in kcat: `%t` topic, `%p` partition, `%o` offset, `%k` key, `%s` value, `%T`
timestamp in milliseconds, `%K` and `%S` lengths in bytes (-1 for null); `%h` headers, `%%` a percent sign. The escapes
are those of `oncelog produce --key-separator`. A null key or value is printed as the null marker, an empty one as
nothing.
"""

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oncelog_server.cli.input_lines import unescaped

if TYPE_CHECKING:
    from oncelog.client.core.consumer_record import ConsumerRecord

LINES: Final = r"%t-%p@%o\t%k\t%s\n"
VALUES: Final = r"%s\n"

Form = Callable[["ConsumerRecord"], str]


def form_of(text: str, null_marker: str) -> Form:
    """Return a function that formats a record as text. Raises ValueError for a placeholder or an escape that does not
    exist.
    """

    def shown(content: bytes | None) -> str:
        return null_marker if content is None else text_of(content)

    places: dict[str, Form] = {
        "t": lambda record: record.topic,
        "p": lambda record: str(record.partition),
        "o": lambda record: str(record.offset),
        "k": lambda record: shown(record.key),
        "s": lambda record: shown(record.value),
        "T": lambda record: str(record.timestamp_ms),
        "K": lambda record: _length(record.key),
        "S": lambda record: _length(record.value),
        "h": lambda record: ",".join(f"{name}={shown(value)}" for name, value in record.headers),
        "%": lambda record: "%",
    }
    template, shows = "", []
    for piece in re.split(r"(%.?)", text, flags=re.DOTALL):
        if not piece.startswith("%"):
            template += unescaped(piece).decode("utf-8", "surrogateescape").replace("%", "%%")
        elif piece[1:] in places:
            template += "%s"
            shows.append(places[piece[1:]])
        else:
            raise ValueError(
                f"{piece} stands for nothing; there are {', '.join(f'%{one}' for one in places)}"
            )
    return lambda record: template % tuple([show(record) for show in shows])


def json_line(record: "ConsumerRecord") -> str:
    return json.dumps(as_json(record), ensure_ascii=False) + "\n"


def text_of(content: bytes) -> str:
    """Return the text of a key or value; bytes that are not UTF-8 are escaped."""
    return content.decode("utf-8", "backslashreplace")


def as_json(record: "ConsumerRecord") -> dict[str, object]:
    """Return a record as a JSON object. A key or value that is not UTF-8 is given in base64, under `key_base64` or
    `value_base64` instead.
    """
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_named("key", record.key),
        **_named("value", record.value),
        "headers": [{"name": name, **_named("value", value)} for name, value in record.headers],
    }


def _length(content: bytes | None) -> str:
    return "-1" if content is None else str(len(content))


def _named(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode("ascii")}
