"""What a coordinator tells on `/metrics`: what its shards decided, and how long transactions took."""

from collections.abc import Iterator

from oncelog.process.figures import Figure, counters_by, histograms_by
from oncelog_coordinator.wiring import CoordinatorRole


def coordinator_figures(role: CoordinatorRole) -> Iterator[Figure]:
    for kind, labels in (("transaction", role.shards.labels), ("group", role.group_shards.labels)):
        yield counters_by(
            f"oncelog_coordinator_{kind}_decisions",
            f"Decisions of {kind} shards taken by this process",
            "decision",
            labels,
        )
    times = role.shards.times
    yield histograms_by(
        "oncelog_coordinator_transaction_seconds",
        "From the start of a transaction to its last marker",
        "outcome",
        times.open_to_complete,
    )
    yield histograms_by(
        "oncelog_coordinator_markers_seconds",
        "From the decision (EndTxn, or a timeout) to the last marker",
        "outcome",
        times.end_to_complete,
    )
