"""Patterns of transactional ids as operators type them: `payments-*`.

They are translated for coordinators, which take RE2 regular expressions (docs/kafka-facts.md, 3). In a pattern only the
star is special, and it may stand at most three times. So no character of an id has to be escaped.
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
    """Return the regular expression for ListTransactions that means the same as this pattern. A star stands for any
    characters, line ends too. An empty pattern stays empty, which is no filter.
    """
    return r"[\s\S]*".join(re.escape(part) for part in pattern.split("*"))
