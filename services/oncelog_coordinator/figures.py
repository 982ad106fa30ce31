"""What a coordinator tells on `/metrics`: what its shards decided."""

from collections.abc import Iterator

from oncelog.process.figures import Figure, counters_by
from oncelog_coordinator.wiring import CoordinatorRole


def coordinator_figures(role: CoordinatorRole) -> Iterator[Figure]:
    for kind, labels in (("transaction", role.shards.labels), ("group", role.group_shards.labels)):
        yield counters_by(
            f"oncelog_coordinator_{kind}_decisions",
            f"Decisions of {kind} shards taken by this process",
            "decision",
            labels,
        )
