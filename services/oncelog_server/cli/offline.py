"""Partitions whose leader cannot use its log: how they are recognized, and the way out."""

from collections.abc import Sequence
from typing import Any, Final

from oncelog_gateway.core.trouble import repair_words

STORAGE_ERROR: Final = "KAFKA_STORAGE_ERROR"


def is_offline(row: dict[str, Any]) -> bool:
    """True if the partition's leader cannot use its log. `row` is the partition as REST shows it."""
    return bool(row["failure"]) and row["failure"]["kafka_error_name"] == STORAGE_ERROR


def way_out(rows: Sequence[dict[str, Any]]) -> str:
    """Return the way out for partitions that are offline: their nodes' logs say why, and the repair shows what it
    would cost.
    """
    return repair_words(sorted({row["leader"] for row in rows}))
