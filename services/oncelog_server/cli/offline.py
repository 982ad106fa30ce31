"""A partition whose leader cannot use its log: how it is known, and the way out."""

from collections.abc import Sequence
from typing import Any, Final

from oncelog_gateway.core.trouble import repair_words

STORAGE_ERROR: Final = "KAFKA_STORAGE_ERROR"


def is_offline(row: dict[str, Any]) -> bool:
    """A partition as REST tells it."""
    return bool(row["failure"]) and row["failure"]["kafka_error_name"] == STORAGE_ERROR


def way_out(rows: Sequence[dict[str, Any]]) -> str:
    """For partitions that are offline: their nodes' logs say why, and the repair shows what it would cost."""
    return repair_words(sorted({row["leader"] for row in rows}))
