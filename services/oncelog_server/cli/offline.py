"""A partition whose leader cannot use its log: how it is known, and the way out."""

from collections.abc import Sequence
from typing import Any, Final

STORAGE_ERROR: Final = "KAFKA_STORAGE_ERROR"


def is_offline(row: dict[str, Any]) -> bool:
    """A partition as REST tells it."""
    return bool(row["failure"]) and row["failure"]["kafka_error_name"] == STORAGE_ERROR


def way_out(rows: Sequence[dict[str, Any]]) -> str:
    """For partitions that are offline: their nodes' logs say why, and the repair shows what it would cost."""
    leaders = sorted({row["leader"] for row in rows})
    nodes = f"node {leaders[0]}" if len(leaders) == 1 else f"nodes {', '.join(map(str, leaders))}"
    return (
        f"the log of {nodes} says why; with the node stopped, "
        "`oncelog storage repair FOLDER` shows what is damaged in its data folder"
    )
