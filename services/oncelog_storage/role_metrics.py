"""The metrics of a storage process for its `/metrics`: replication, topics, produce times and cleaning."""

from collections.abc import Iterator
from operator import attrgetter

from oncelog.process.role_metrics import RoleMetric, counter, counters_by, gauge, histograms_by
from oncelog_storage.wiring import StorageRole


def storage_metrics(role: StorageRole) -> Iterator[RoleMetric]:
    """Yield the metrics of a storage process, which reads them on its event loop.

    A follower has one lag, its largest: partitions may be many thousands.
    """
    replication = role.replication
    found, proposals = replication.metrics(), replication.proposals
    for name, text, value in (
        ("leaders", "Partitions led here", replication.leader_count),
        (
            "under_replicated_partitions",
            "Led here with a replica that is not in sync",
            found.under_replicated_count,
        ),
        (
            "under_min_isr_partitions",
            "Led here with too few in sync to take acks=all",
            found.under_min_isr_count,
        ),
        (
            "partitions_with_late_transactions",
            "Led here, with a transaction silent for longer than any may be open and five minutes (KIP-664)",
            found.late_count,
        ),
    ):
        yield gauge(f"oncelog_storage_{name}", text, value)
    for name, text, value in (
        ("isr_shrinks", "Replicas proposed to leave the ISR", proposals.shrink_count),
        ("isr_expands", "Replicas proposed to join the ISR", proposals.expand_count),
        ("repairs", "Replicas repaired from another one", replication.repair_count),
    ):
        yield counter(f"oncelog_storage_{name}", text, value)
    all_hosted = list(role.replicas())
    for name, text, value in (
        (
            "offline_partitions",
            "Held here and not served: their files are damaged or missing",
            sum(hosted.offline is not None for hosted in all_hosted),
        ),
        (
            "set_aside_bytes",
            "Cut off logs when this process opened them, and kept in files beside",
            sum(hosted.log.set_aside_bytes for hosted in all_hosted),
        ),
        (
            "set_aside_records",
            "Of these, records that can be read",
            sum(hosted.log.set_aside_records for hosted in all_hosted),
        ),
    ):
        yield gauge(f"oncelog_storage_{name}", text, value)
    lag: dict[tuple[str, ...], float] = {}
    for (_, _, node_id), records in found.follower_lag.items():
        follower = (str(node_id),)
        lag[follower] = max(lag.get(follower, 0), records)
    yield RoleMetric(
        "oncelog_storage_follower_lag_records",
        "Records that a follower has not yet, of the partition led here where they are most",
        lag,
        ("follower",),
    )
    yield from _topic_metrics(role)
    yield from _produce_metrics(role)
    yield from _cleaner_metrics(role)


def _topic_metrics(role: StorageRole) -> Iterator[RoleMetric]:
    used = [(topic or "(others)", counts) for topic, counts in role.counts.used()]
    for name, text, read in (
        (
            "produced_records",
            "Records that clients wrote to partitions led here",
            attrgetter("produced_records"),
        ),
        ("produced_bytes", "Of these the batches", attrgetter("produced_bytes")),
        (
            "consumed_records",
            "Offsets of what consumers were given: markers and aborted records as well",
            attrgetter("consumed_records"),
        ),
        ("consumed_bytes", "Of these the batches", attrgetter("consumed_bytes")),
    ):
        values = {topic: read(counts) for topic, counts in used}
        yield counters_by(f"oncelog_storage_topic_{name}", text, "topic", values)


def _produce_metrics(role: StorageRole) -> Iterator[RoleMetric]:
    yield histograms_by(
        "oncelog_storage_produce_seconds",
        "From a produce request at the leader to its answer: append, verification, replication",
        "acks",
        role.produce_times.produce,
    )
    yield histograms_by(
        "oncelog_storage_replication_seconds",
        "Of a produce request, from the append to its records being on every replica in sync (acks=1: written here)",
        "acks",
        {str(acks): one for acks, one in role.produce_times.replication.items()},
    )
    yield histograms_by(
        "oncelog_storage_verification_seconds",
        "Waiting for the coordinator before the first batch of a transaction in a partition",
        "kind",
        {"transaction": role.produce_times.verification},
    )


def _cleaner_metrics(role: StorageRole) -> Iterator[RoleMetric]:
    cleaned = role.maintenance.cleaner.metrics
    yield gauge(
        "oncelog_storage_cleanable_bytes", "Sealed and not cleaned", cleaned.cleanable_bytes
    )
    yield gauge(
        "oncelog_storage_uncleanable_partitions",
        "Whose cleaning failed",
        cleaned.uncleanable_partitions,
    )
    yield counter("oncelog_storage_cleaner_passes", "Passes over a partition", cleaned.passes)
    yield counter("oncelog_storage_cleaner_read_bytes", "Read to clean", cleaned.bytes_read)
    yield counter(
        "oncelog_storage_cleaner_saved_bytes", "What cleaned logs are shorter", cleaned.bytes_saved
    )
