"""A reader of the part of EDN that histories use: maps, vectors, lists, sets, keywords, text, numbers, tags.
It is strict about the rest.

This reader is our own, because the maintained package, edn_format, reads 0.1 MB a second, and a history has many.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple


class Keyword(str):
    """A keyword such as `:send`, without its colon."""

    __slots__ = ()


class EdnError(ValueError):
    """A text that is not EDN; the message names the line."""


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKEN: Final = re.compile(
    r"""[\s,]+ | ;[^\n]*
      | (?P<open>[\[({] | \#\{)
      | (?P<close>[\])}])
      | (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<discard>\#_)
      | (?P<tag>\#[A-Za-z][^\s,\[\](){}"]*)
      | (?P<keyword>:[^\s,\[\](){}"]+)
      | (?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?[NM]?(?=[\s,\[\](){}";]|$))
      | (?P<character>\\(?:[a-z]+|.))
      | (?P<symbol>[^\s,\[\](){}"\#\\;:][^\s,\[\](){}";]*)""",
    re.VERBOSE,
)
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_SYMBOLS: Final = {"nil": None, "true": True, "false": False}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
DEPTH_MAX: Final = 100


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """Yield every top-level value (form) of a text as a pair: the number of the line on which it begins, and the value.
    Sets become lists, and tags are dropped."""
    reader = _Reader(text)
    while (token := reader.next()) is not None:
        if token.kind == "discard":
            reader.value(reader.needed(), 0)
            continue
        yield reader.line(token.at), reader.value(token, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0

    def next(self) -> _Token | None:
        """Return the next token; None at the end."""
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                raise self.error(self._at, f"{self._text[self._at : self._at + 20]!r} is no EDN")
            begin, self._at = self._at, found.end()
            if found.lastgroup is not None:
                return _Token(found.lastgroup, found.group(), begin)
        return None

    def needed(self) -> _Token:
        token = self.next()
        if token is None:
            raise self.error(self._at, "the text ends in the middle of a form")
        return token

    def line(self, at: int) -> int:
        """Return the line number of a position in the text. Each call must have a later position than the one
        before."""
        if at >= self._counted:
            self._line += self._text.count("\n", self._counted, at)
            self._counted = at
        return self._line

    def error(self, at: int, what: str) -> EdnError:
        return EdnError(f"line {self.line(at)}: {what}")

    def value(self, token: _Token, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self.error(token.at, f"forms are nested more than {DEPTH_MAX} deep")
        kind, text = token.kind, token.text
        if kind == "open":
            return self._many(token, depth)
        if kind == "keyword":
            return Keyword(text[1:])
        if kind == "number":
            bare = text.rstrip("NM")
            return (
                float(bare) if any(one in bare for one in ".eE") or text[-1] == "M" else int(bare)
            )
        if kind == "text":
            return re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[0]), text[1:-1])
        if kind == "tag":
            return self.value(self.needed(), depth + 1)
        if kind == "character":
            return text[1:]
        if kind == "symbol":
            return _SYMBOLS.get(text, text)
        raise self.error(token.at, f"{text!r} closes or discards what is not there")

    def _many(self, opened: _Token, depth: int) -> Any:
        closes, found = _CLOSES[opened.text], []
        while (token := self.needed()).kind != "close":
            if token.kind == "discard":
                self.value(self.needed(), depth + 1)
            else:
                found.append(self.value(token, depth + 1))
        if token.text != closes:
            raise self.error(token.at, f"{token.text!r} closes a {opened.text!r}")
        if opened.text != "{":
            return found
        if len(found) % 2:
            raise self.error(opened.at, "a map has a key without a value")
        try:
            return dict(zip(map(_hashable, found[::2]), found[1::2], strict=True))
        except TypeError as error:
            raise self.error(opened.at, f"a key cannot be used: {error}") from error


def _hashable(key: Any) -> Any:
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
