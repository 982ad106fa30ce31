"""Planted bugs in a log and in what its replicas know of it: offsets, epochs, sequences, the newest record of a key."""

from typing import Final

from oncelog_robustness.planted.bug import Bug, Edit

LOG_BUGS: Final = (
    Bug(
        name="hw-beyond-the-followers-log",
        promise="LSO ≤ HW ≤ LEO: a follower calls nothing committed that it does not have.",
        source="facts 9; KIP-101; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.partition",
                old="        reached = min(offset, self.log.log_end_offset)\n",
                new="        reached = offset\n",
            ),
        ),
        caught_by=("offsets-out-of-order",),
        scenario="morsels",
        first_seed=1,
    ),
    Bug(
        name="hw-as-the-new-leader-has-it",
        promise="The high watermark never goes back on a replica: a new leader may know less of it than its followers.",
        source="KIP-101; KIP-207; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.partition",
                old="        if reached > self.high_watermark:\n",
                new="        if reached != self.high_watermark:\n",
            ),
        ),
        caught_by=("high-watermark-went-back",),
        scenario="handover",
        first_seed=1,
    ),
    Bug(
        name="older-snapshot-of-the-metadata-taken",
        promise="Metadata never goes back: the snapshot of a controller that is behind is not taken.",
        source="ADR 0002; architecture/controller",
        edits=(
            Edit(
                module="oncelog.rpc.metadata",
                old="        if new is old or _is_behind(new, old):\n",
                new="        if new is old:\n",
            ),
            # A controller keeps back what is older, too.
            Edit(
                module="oncelog_controller.watchers",
                old="            if seen == self._image.metadata_offset or not self._image.has(position):\n",
                new="            if seen == self._image.metadata_offset:\n",
            ),
        ),
        caught_by=("leader-epoch-went-back",),
        scenario="blind",
        first_seed=1,
    ),
    Bug(
        name="old-sequence-written-again",
        promise="A late copy of a batch that a leader remembers no more is refused by its sequence.",
        source="facts 9, rule 6; KIP-98",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="    return sequence == last + 1 or (sequence == 0 and last == SEQUENCE_MAX)\n",
                new="    return sequence <= last + 1 or (sequence == 0 and last == SEQUENCE_MAX)\n",
            ),
        ),
        caught_by=("sequence-gap",),
        scenario="copies",
        first_seed=1,
    ),
    Bug(
        name="first-batch-skipped",
        promise="A producer that is new to a partition begins at sequence 0, and a leader takes nothing else of it.",
        source="facts 1.2; KAFKA-15591",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="            return sequence == 0 or self.has_forgotten\n",
                new="            return True\n",
            ),
            Edit(
                module="oncelog.client.core.sequences",
                old="    next_sequence: int = 0\n",
                new="    next_sequence: int = 1\n",
            ),
        ),
        caught_by=("sequence-gap",),
        scenario="copies",
        first_seed=1,
    ),
    Bug(
        name="truncated-batches-stay-in-producer-state",
        promise="A truncation takes the batches that it cuts out of the producer state, too.",
        source="facts 9, rule 5; KIP-101; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.log_replication",
                old="""    log.producers.restore(())
    log.proven_end = 0
    log_recovery.recover(log, recovery_point, log.log_start_offset, now)
""",
                new="""    before = list(log.producers.entries())
    log.producers.restore(())
    log.proven_end = 0
    log_recovery.recover(log, recovery_point, log.log_start_offset, now)
    for entry in before:
        kept = log.producers.get(entry.producer_id)
        if kept is not None and kept.producer_epoch == entry.producer_epoch:
            kept.batches = entry.batches
""",
            ),
        ),
        caught_by=("lost-write", "send-reversal", "inconsistent-offsets"),
        scenario="handover",
        first_seed=101,
    ),
    Bug(
        name="slice-of-another-follower-sent",
        promise="A follower is sent what stands at the offset that it asked for.",
        source="facts 9; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.leader_sessions",
                old="        place = (offset, log.log_end_offset, log.truncation_count)\n",
                new="        place = (log.log_end_offset, log.truncation_count)\n",
            ),
        ),
        caught_by=("hole-in-log",),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="key-not-written-again-dropped",
        promise="Cleaning keeps the last record of a key that was not written again since the last pass.",
        source="facts 5.3; architecture/storage (compaction)",
        edits=(
            Edit(
                module="oncelog_storage.core.offset_map",
                old="        return offset >= self.offsets.get(name, -1)\n",
                new="        return offset == self.offsets.get(name, -1)\n",
            ),
        ),
        caught_by=("newest-of-key",),
        scenario="compaction",
        first_seed=2,
    ),
)
