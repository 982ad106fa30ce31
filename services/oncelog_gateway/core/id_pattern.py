"""Patterns of transactional ids as operators type them: `payments-*`.

Coordinators take regular expressions of RE2 (facts 3). A pattern in which only the star is special always means
something, and nothing in an id has to be escaped.
"""

import re
from typing import Final

STARS_MAX: Final = 3
LENGTH_MAX: Final = 120
"""Escaping may double it and a star takes seven characters: still within what a coordinator takes."""

ID_PATTERN_SCHEMA: Final = rf"^[^*]*(\*[^*]*){{0,{STARS_MAX}}}$"
"""Which patterns are accepted, as a regular expression."""


def as_regular_expression(pattern: str) -> str:
    """For ListTransactions; a star stands for any characters, line ends too. Empty stays empty: no filter."""
    return r"[\s\S]*".join(re.escape(part) for part in pattern.split("*"))
