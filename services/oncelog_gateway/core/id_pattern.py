"""Patterns of transactional ids as operators type them: `payments-*`.

Coordinators take regular expressions of RE2 (facts 3). A pattern in which only the star is special always means
something, and nothing in an id has to be escaped.
"""

import re
from typing import Final

STARS_MAX: Final = 3
LENGTH_MAX: Final = 120
"""Characters of a pattern at most. Escaping may double them and a star takes seven: still within what a coordinator
takes.
"""

ID_PATTERN_SCHEMA: Final = rf"^[^*]*(\*[^*]*){{0,{STARS_MAX}}}$"
"""The regular expression that matches acceptable patterns."""


def as_regular_expression(pattern: str) -> str:
    """Return a pattern as the regular expression of ListTransactions. A star stands for any characters, line ends
    too; an empty pattern stays empty: no filter.
    """
    return r"[\s\S]*".join(re.escape(part) for part in pattern.split("*"))
