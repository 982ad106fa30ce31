"""The text of a Java properties file, such as `client.properties`."""

import re
from typing import Final

from oncelog.errors import OncelogError

_ENTRY: Final = re.compile(
    r"(?P<name>(?:[^\\\s=:]|\\.)+)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)(?P<value>.*)"
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, where: str) -> dict[str, str]:
    """Return the names and values of a properties file; a name that stands twice has its last value, as in Java.

    Raises OncelogError that names the file, as `where`, and the line's number. It does not repeat the line: that may be
    a secret.
    """
    found: dict[str, str] = {}
    held, held_from = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        part = line.lstrip(" \t\f")
        if not held:
            if not part or part[0] in "#!":
                continue
            held_from = number
        slashes = len(part) - len(part.rstrip("\\"))
        if slashes % 2:
            held += part[:-1]
            continue
        entry = _ENTRY.fullmatch(held + part)
        held = ""
        if entry is None:
            raise OncelogError(f"{where}, line {held_from} is no NAME=VALUE")
        found[_plain(entry["name"])] = _plain(entry["value"])
    if held:
        raise OncelogError(f"{where}, line {held_from} goes on after the end of the file")
    return found


def _plain(text: str) -> str:
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2]),
        text,
    )
