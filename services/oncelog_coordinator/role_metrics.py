"""The metrics of a coordinator on `/metrics`: the decisions of its shards, and how long transactions took."""

from collections.abc import Iterator

from oncelog.process.role_metrics import RoleMetric, counters_by, gauge, histograms_by
from oncelog_coordinator.wiring import CoordinatorRole


def coordinator_metrics(role: CoordinatorRole) -> Iterator[RoleMetric]:
    for kind, labels in (("transaction", role.shards.labels), ("group", role.group_shards.labels)):
        yield counters_by(
            f"oncelog_coordinator_{kind}_decisions",
            f"Decisions of {kind} shards taken by this process",
            "decision",
            labels,
        )
    yield gauge(
        "oncelog_coordinator_shards_loading",
        "Shards of this process that are not loaded yet; their clients are told to come again",
        role.shards.loading_count + role.group_shards.loading_count,
    )
    yield histograms_by(
        "oncelog_coordinator_shard_load_seconds",
        "From the assignment of a shard to its first answer (Kafka: partition-load-time)",
        "kind",
        {"transaction": role.shards.load_times, "group": role.group_shards.load_times},
    )
    yield histograms_by(
        "oncelog_coordinator_append_seconds",
        "From a decision of a transaction shard to its record being durable",
        "kind",
        {"transaction": role.shards.times.append},
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
