"""The transactional.id pattern of ListTransactions v2: RE2's syntax. It matches whole ids, as in Kafka
(docs/kafka-facts.md, 3).
"""

from collections.abc import Callable

from oncelog.errors import ErrorCode, KafkaError
from oncelog_coordinator.core.topic_patterns import InvalidPattern, check_pattern, full_match


def compile_id_pattern(text: str) -> Callable[[str], object] | None:
    """Return the function that matches transactional.ids with this regular expression; None: the text is empty, all
    match.

    Raises KafkaError(INVALID_REGULAR_EXPRESSION) with the reason.
    """
    if not text:
        return None
    try:
        check_pattern(text)
    except InvalidPattern as invalid:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"transactional.id pattern {shown!r}: {invalid}"
        ) from None
    return full_match(text)
