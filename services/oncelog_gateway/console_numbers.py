"""The one rule for long numbers on pages: offsets, counts and sizes have their digits in groups of three.

The gap between two groups is a margin, no character. So a number that is copied has its digits alone, and a line does
not break inside it. Names keep their digits together: topics, producer ids, epochs, nodes, ports, dates.
"""

import re
from typing import Final

from markupsafe import Markup, escape

THIN_SPACE: Final = "\u202f"
"""The space between groups of digits where a margin is not possible: in a picture's text. No line breaks at it."""
_NUMBER: Final = re.compile(
    r"(?<![\w.:/'\"-])(?<!producer )(?<!epoch )(?<!node )(?<!shard )(?<!schema )(?<![A-Z][a-z]{2} )"
    r"\d{4,}(?![\w:/'\"-])"
)
"""A number in a sentence that is no part of a name and no year after a month."""


def digits(value: int | str) -> Markup:
    """Return HTML that shows a number, or the numbers within a text, in groups of three digits. Other text
    is escaped.
    """
    text = str(value)
    parts, end = [], 0
    for found in _NUMBER.finditer(text):
        first, *others = _groups(found[0])
        shown = first + "".join(f"<span>{one}</span>" for one in others)
        parts += [escape(text[end : found.start()]), Markup(f'<span class="num">{shown}</span>')]
        end = found.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


def thin_digits(text: str) -> str:
    """Return a text whose numbers are grouped by thin spaces, for pictures, which can contain no HTML."""
    return _NUMBER.sub(lambda found: THIN_SPACE.join(_groups(found[0])), text)


def _groups(number: str) -> list[str]:
    """Split a number's digits into groups of three from the right; the first group may be shorter."""
    start = len(number) % 3 or 3
    return [number[:start], *(number[at : at + 3] for at in range(start, len(number), 3))]
