"""Partitions whose leader cannot use its log, as for damage: how they are recognized, and what to do."""

from collections.abc import Sequence
from typing import Final

from oncelog_gateway.core.trouble import repair_words
from oncelog_server.cli.cluster_answers import PartitionStatus

STORAGE_ERROR: Final = "KAFKA_STORAGE_ERROR"


def is_offline(row: PartitionStatus) -> bool:
    """True if the partition's leader cannot use its log. `row` is the partition as REST shows it."""
    failure = row["failure"]
    return failure is not None and failure["kafka_error_name"] == STORAGE_ERROR


def way_out(rows: Sequence[PartitionStatus]) -> str:
    """Return in words what to do about partitions whose leaders cannot use their logs. The nodes' logs say why, and
    `oncelog storage repair` shows what a repair would cost.
    """
    return repair_words(sorted({row["leader"] for row in rows if row["leader"] is not None}))
