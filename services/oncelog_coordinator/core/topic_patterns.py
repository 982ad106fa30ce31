"""Regular expressions that name topics (KIP-848): RE2's syntax, and the whole name must match, as in Kafka.

RE2 takes time in proportion to what it reads, even for the worst expression: a client cannot stop the shard with one.
"""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Final

PATTERN_BYTES_MAX: Final = 8_192


class InvalidPattern(ValueError):
    """The text is no regular expression of RE2, or too large for it."""


def check_pattern(pattern: str) -> None:
    """Raise InvalidPattern, with the reason, if the text is no regular expression of RE2 or has too many bytes."""
    size = len(pattern.encode())
    if size > PATTERN_BYTES_MAX:
        raise InvalidPattern(f"it has {size} bytes, the most are {PATTERN_BYTES_MAX}")
    re2, options = _re2()
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        raise InvalidPattern(
            reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        ) from None


def matching_topics(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Return the topics whose names match a pattern that `check_pattern` accepted, sorted.

    RE2's sets of patterns are not used: one that runs out of memory answers that nothing matches.
    """
    matches = full_match(pattern)
    return tuple(sorted(topic for topic in topics if matches(topic)))


def full_match(pattern: str) -> Callable[[str], object]:
    """Return the function that compares a whole text with a pattern that `check_pattern` accepted.

    That function returns None if the text does not match.
    """
    re2, options = _re2()
    matches: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    return matches


def _re2() -> tuple[ModuleType, object]:
    """Return the module `re2`, and the options with which it compiles: it must not log errors. It is imported at the
    first use, because few groups have patterns."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2, options
