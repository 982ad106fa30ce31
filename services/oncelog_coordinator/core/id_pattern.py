"""The transactional.id pattern of ListTransactions v2: a regular expression that must match the whole id (facts 3).

Kafka uses Java's `matches()`. Python's engine, like Java's, backtracks, and cannot be interrupted: a short pattern such
as `(a+)+b` would stop the coordinator for hours. So a pattern is refused when it repeats a group that itself has a
choice or a repetition, or refers back to a group. So is one with more open-ended repetitions than `REPETITIONS_MAX`;
what is left costs at most a small power of the id's length.
"""

import re
from typing import Final

from oncelog.errors import ErrorCode, KafkaError

PATTERN_CHARACTERS_MAX: Final = 512
REPETITIONS_MAX: Final = 3
MATCHED_CHARACTERS_MAX: Final = 256
"""A pattern with several open-ended repetitions is tried only on ids up to this length."""

_COUNTED: Final = re.compile(r"\{(\d*)(,?)(\d*)\}")
_SMALL_COUNT: Final = 8


class IdPattern:
    """A checked pattern."""

    def __init__(self, pattern: re.Pattern[str], repetitions: int) -> None:
        self._pattern = pattern
        self._length_max = MATCHED_CHARACTERS_MAX if repetitions > 1 else 2**31

    def matches(self, transactional_id: str) -> bool:
        """An id longer than `MATCHED_CHARACTERS_MAX` does not match a pattern of several open-ended repetitions."""
        return (
            len(transactional_id) <= self._length_max
            and self._pattern.fullmatch(transactional_id) is not None
        )


def compile_id_pattern(text: str) -> IdPattern | None:
    """The pattern; None for no filter. Raises KafkaError(INVALID_REGULAR_EXPRESSION) that says what is wrong."""
    if not text:
        return None
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise _refuse(text[:40] + "…", f"is longer than {PATTERN_CHARACTERS_MAX} characters")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise _refuse(text, str(error)) from None
    return IdPattern(pattern, _count_repetitions(text))


def _count_repetitions(text: str) -> int:
    """Open-ended repetitions in a pattern that compiles. Raises KafkaError when it could take exponential time."""
    repetitions = 0
    at = 0
    is_branching = [False]
    closed_group_branches = False
    while at < len(text):
        character = text[at]
        closed_here = False
        if character == "\\":
            if text[at + 1 : at + 2].isdigit() and text[at + 1] != "0":
                raise _refuse(text, "refers back to a group")
            at += 2
        elif character == "[":
            at = _after_class(text, at)
        elif character == "(":
            if text.startswith("(?P=", at):
                raise _refuse(text, "refers back to a group")
            is_branching.append(False)
            at += 1
            if text.startswith("?", at):
                at += 1
        elif character == ")":
            closed_here = True
            closed_group_branches = is_branching.pop()
            is_branching[-1] |= closed_group_branches
            at += 1
        elif character == "|":
            is_branching[-1] = True
            at += 1
        else:
            is_repeat, is_open_ended, end = _repeat(text, at)
            if is_repeat:
                if closed_group_branches:
                    raise _refuse(text, "repeats a group that itself repeats or chooses")
                is_branching[-1] = True
                repetitions += is_open_ended
            at = end
            if is_repeat and text[at : at + 1] in ("?", "+"):
                at += 1
        if not closed_here:
            closed_group_branches = False
    if repetitions > REPETITIONS_MAX:
        raise _refuse(text, f"has more than {REPETITIONS_MAX} open-ended repetitions")
    return repetitions


def _repeat(text: str, at: int) -> tuple[bool, bool, int]:
    """(is a repetition, is open-ended or large, position behind it)."""
    if text[at] in "*+":
        return True, True, at + 1
    if text[at] == "?":
        return True, False, at + 1
    counted = _COUNTED.match(text, at)
    if counted is None:
        return False, False, at + 1
    low, comma, high = counted.groups()
    bound = int(high) if high else (0 if comma else int(low or 0))
    is_open_ended = bool(comma and not high) or bound > _SMALL_COUNT
    return True, is_open_ended, counted.end()


def _after_class(text: str, at: int) -> int:
    """The position behind a character class."""
    at += 1
    if text.startswith("^", at):
        at += 1
    if text.startswith("]", at):
        at += 1
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _refuse(text: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION, f"transactional.id pattern {text!r}: {reason}"
    )
