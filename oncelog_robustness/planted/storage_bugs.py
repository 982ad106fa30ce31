"""Planted bugs of partitions: in producer state, in what is committed, in what is read, and in
what survives a restart."""

from typing import Final

from oncelog_robustness.planted.bug import Bug, Edit

STORAGE_BUGS: Final = (
    Bug(
        name="hw-without-followers",
        promise="The high watermark passes a record only when every in-sync replica has it.",
        source="facts 9; KIP-101; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.leader_state",
                old="""            if end_offset < smallest:
                smallest = end_offset
""",
                new="""            if end_offset > smallest:
                smallest = end_offset
""",
            ),
        ),
        caught_by=("lost-write", "committed-records-gone", "replicas-differ"),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="acks-all-answered-by-the-leader-alone",
        promise="With acks=all a batch is acknowledged when it is committed, not when the leader has written it.",
        source="architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.producing",
                old="        return Wanted.COMMITTED if self._acks == ACKS_ALL else Wanted.WRITTEN\n",
                new="        return Wanted.WRITTEN\n",
            ),
        ),
        caught_by=("lost-write",),
        scenario="cut-off",
        first_seed=1,
    ),
    Bug(
        name="lso-passes-an-unreplicated-marker",
        promise="A marker that is not replicated leaves its transaction undecided: the LSO stays before it.",
        source="facts 9",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="        self._unreplicated[first_offset] = marker_offset\n",
                new="",
            ),
        ),
        caught_by=("lso-passed-undecided",),
        scenario="failover",
        first_seed=3,
    ),
    Bug(
        name="truncation-by-high-watermark",
        promise="Where two histories part is decided by leader epochs, never by offsets or high watermarks.",
        source="KIP-101; KIP-595; ADR 0006",
        edits=(
            Edit(
                module="oncelog_storage.core.partition",
                old="""        if epoch < last_epoch or end_offset < fetch_offset:
            return Divergence(epoch, end_offset)
        return None
""",
                new="""        if log.log_end_offset < fetch_offset:
            return Divergence(epoch, self.high_watermark)
        return None
""",
            ),
        ),
        caught_by=("replicas-differ",),
        scenario="failover",
        first_seed=2,
    ),
    Bug(
        name="aborted-index-lost-on-roll",
        promise="Aborted transactions of a sealed segment stay known until its index file has them.",
        source="facts 5.3; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.log",
                old="        self.segments[-1].end_offset = self.log_end_offset\n",
                new=(
                    "        self.segments[-1].end_offset = self.log_end_offset\n"
                    "        self.segments[-1].unload()\n"
                ),
            ),
            Edit(
                module="oncelog_storage.core.segment_state",
                old="""        if self.is_written:
            self._indexes = None
""",
                new="        self._indexes = None\n",
            ),
        ),
        caught_by=("aborted-read",),
        scenario="rolls",
        first_seed=2,
    ),
    Bug(
        name="snapshot-drops-open-transactions",
        promise="A producer snapshot taken in mid-transaction says where that transaction begins.",
        source="facts 5.4",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_snapshot",
                old="                entry.current_txn_first_offset,\n            )\n",
                new="                -1,\n            )\n",
            ),
        ),
        caught_by=(
            "aborted-read",
            "pre-committed-read",
            "lso-passed-undecided",
        ),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="new-leader-forgets-producers",
        promise="Producer state survives the failover of the leader that keeps it.",
        source="facts 9",
        edits=(
            Edit(
                module="oncelog_storage.core.partition",
                old="        self._learn_coordinator_epoch()\n",
                new="        self._learn_coordinator_epoch()\n        self.log.producers.restore(())\n",
            ),
        ),
        caught_by=(
            "aborted-read",
            "pre-committed-read",
            "lso-passed-undecided",
        ),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="repeated-batch-appended-again",
        promise="A batch that is sent again is answered with its first offset and not appended again.",
        source="facts 9, rule 5; KIP-98",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="        for kept in entry.batches:\n",
                new="        for kept in ():\n",
            ),
            Edit(
                module="oncelog_storage.core.producer_state",
                old="    return sequence == last + 1 or (sequence == 0 and last == SEQUENCE_MAX)\n",
                new="    return sequence <= last + 1 or (sequence == 0 and last == SEQUENCE_MAX)\n",
            ),
        ),
        caught_by=("duplicate",),
        scenario="failover",
        first_seed=3,
    ),
    Bug(
        name="late-marker-ends-the-next-transaction",
        promise="A marker that was held up until the producer's next transaction runs does not end that one.",
        source="facts 9; architecture/storage (verification)",
        edits=(
            Edit(
                module="oncelog_storage.core.verification",
                old="if not transaction_start_ms or not (",
                new="if transaction_start_ms or not (",
            ),
        ),
        caught_by=(
            "two-outcomes",
            "lost-write",
            "torn-transaction",
            "aborted-read",
        ),
        scenario="frozen",
        first_seed=9,
    ),
    Bug(
        name="late-marker-after-an-election",
        promise="A leader that did not let a transaction in asks when it began, before a marker of TV1 ends it.",
        source="facts 9; architecture/storage (verification)",
        edits=(
            Edit(
                module="oncelog_storage.core.verification",
                old="if known is None:\n            return None\n",
                new="if known is None:\n            return False\n",
            ),
        ),
        caught_by=(
            "two-outcomes",
            "lost-write",
            "torn-transaction",
            "aborted-read",
        ),
        scenario="asleep",
        first_seed=1,
    ),
    Bug(
        name="marker-of-an-older-coordinator-accepted",
        promise="A partition refuses markers of a coordinator epoch below the last one it has seen for a producer.",
        source="facts 9, Markers",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="        if coordinator_epoch < entry.coordinator_epoch:\n",
                new="        if coordinator_epoch < NO_COORDINATOR_EPOCH:\n",
            ),
            Edit(
                module="oncelog_storage.core.verification",
                old="if not transaction_start_ms or not (",
                new="if transaction_start_ms or not (",
            ),
        ),
        caught_by=(
            "two-outcomes",
            "coordinator-epoch-went-back",
            "lost-write",
            "torn-transaction",
        ),
        scenario="frozen",
        first_seed=1,
    ),
    Bug(
        name="coordinator-append-not-fenced",
        promise="An append of a coordinator that was succeeded is refused, by its epoch and by the log's end.",
        source="ADR 0016",
        edits=(
            Edit(
                module="oncelog_storage.core.hosting",
                old="    if coordinator_epoch < newest:\n",
                new="    if coordinator_epoch < -newest:\n",
            ),
            Edit(
                module="oncelog_storage.core.partition",
                old="        if coordinator_epoch < self.coordinator_epoch:\n",
                new="        if coordinator_epoch < -1:\n",
            ),
            Edit(
                module="oncelog_storage.core.partition",
                old="is not None and expected_base_offset != log.log_end_offset:\n",
                new="is not None and expected_base_offset > log.log_end_offset:\n",
            ),
        ),
        caught_by=(
            "coordinator-epoch-went-back",
            "illegal-transition",
            "two-outcomes",
        ),
        scenario="frozen",
        first_seed=2,
    ),
    Bug(
        name="fsync-skipped",
        promise="With flush_policy=always nothing is acknowledged before it is synced.",
        source="ADR 0011",
        edits=(
            Edit(
                module="oncelog_storage.hosted_partition",
                old="flushes_always or log.unflushed_records >= log.config.flush_messages:\n",
                new="flushes_always is None or log.unflushed_records >= log.config.flush_messages:\n",
            ),
        ),
        caught_by=("fsync-lie", "lost-write"),
        scenario="power",
        first_seed=1,
    ),
    Bug(
        name="follower-tells-its-position-before-the-sync",
        promise="With flush_policy=always a follower tells its leader of nothing that it has not synced.",
        source="ADR 0011; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.follower",
                old="        return self._partition.local_end >= self._partition.log.log_end_offset\n",
                new="        return True\n",
            ),
        ),
        caught_by=("fsync-lie", "lost-write"),
        scenario="slow-power",
        first_seed=104,
    ),
    Bug(
        name="aborted-index-ignored-behind-the-first-batch",
        promise="A read_committed fetch names every aborted transaction that touches what it answers.",
        source="facts 5.3",
        edits=(
            Edit(
                module="oncelog_storage.core.fetching",
                old="            aborted = yield FindAborted(led, offset, next_offset)\n",
                new="            aborted = yield FindAborted(led, offset, offset + 1)\n",
            ),
        ),
        caught_by=("aborted-read",),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="read-committed-up-to-the-high-watermark",
        promise="A read_committed fetch ends at the LSO.",
        source="facts 9",
        edits=(
            Edit(
                module="oncelog_storage.core.fetching",
                old="            upper = last_stable_offset if self._is_committed_only else led.high_watermark\n",
                new="            upper = led.high_watermark\n",
            ),
        ),
        caught_by=(
            "pre-committed-read",
            "read-past-open-transaction",
            "aborted-read",
        ),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="compaction-counts-aborted-records",
        promise="A record of an aborted transaction never takes an older record of its key away.",
        source="facts 5.3; architecture/storage (compaction)",
        edits=(
            Edit(
                module="oncelog_storage.core.cleaning",
                old="    elif not transactions.is_aborted_data(fields) and fields[RECORD_COUNT]:\n",
                new="    elif fields[RECORD_COUNT]:\n",
            ),
        ),
        caught_by=("lost-write",),
        scenario="compaction",
        first_seed=1,
    ),
    Bug(
        name="isr-shrunk-before-the-controller-agrees",
        promise="A leader that is cut off commits nothing by leaving its followers out on its own.",
        source="KIP-497; ADR 0006; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.leader_state",
                old="self.isr if self.pending is None else {*self.isr, *self.pending.isr}\n",
                new="self.isr if self.pending is None else self.pending.isr\n",
            ),
        ),
        caught_by=("lost-write", "committed-records-gone", "two-outcomes"),
        scenario="unheard",
        first_seed=1,
    ),
    Bug(
        name="follower-joins-the-isr-too-early",
        promise="A follower comes back into the ISR when it has all that is committed.",
        source="KIP-497; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.leader_state",
                old="""            and progress.end_offset >= high_watermark
            and progress.end_offset >= self.epoch_start_offset
""",
                new="            and progress.end_offset > UNKNOWN_END\n",
            ),
        ),
        caught_by=("lost-write", "committed-records-gone"),
        scenario="cut-off",
        first_seed=3,
    ),
    Bug(
        name="deposed-leader-says-yes",
        promise="A leader that is replaced refuses the requests that wait for a commit: their outcome is unknown.",
        source="facts 9; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.hosted_partition",
                old="""            else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        self.refuse_waiters(code)
""",
                new="""            else ErrorCode.NONE
        )
        self.refuse_waiters(code)
""",
            ),
        ),
        caught_by=("lost-write", "two-outcomes", "torn-transaction"),
        scenario="handover",
        first_seed=1,
    ),
    Bug(
        name="older-producer-epoch-may-write",
        promise="A partition refuses what an earlier incarnation of a producer sends.",
        source="facts 9, rule 1; KIP-98",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="""        if entry is not None and batch.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.base_sequence""",
                new="        if batch.base_sequence",
            ),
            Edit(
                module="oncelog_storage.core.producer_state",
                old="            and entry.producer_epoch == producer_epoch\n",
                new="",
            ),
            Edit(
                module="oncelog_storage.core.producer_state",
                old="        if entry is not None and producer_epoch < entry.producer_epoch:\n",
                new="        if entry is not None and producer_epoch < NO_PRODUCER_EPOCH:\n",
            ),
        ),
        caught_by=("producer-epoch-went-back", "zombie-write"),
        scenario="hijackers",
        first_seed=1,
    ),
    Bug(
        name="compaction-beyond-the-lso",
        promise="Compaction touches nothing at or above the LSO: what is open may still be aborted.",
        source="facts 5.3; architecture/storage (compaction)",
        edits=(
            Edit(
                module="oncelog_storage.cleaner",
                old="self._look(hosted, hosted.last_stable_offset))\n",
                new="self._look(hosted, hosted.high_watermark))\n",
            ),
            Edit(
                module="oncelog_storage.cleaner",
                old="self._look(hosted, min(hosted.last_stable_offset, hosted.log.recovery_point))\n",
                new="self._look(hosted, min(hosted.high_watermark, hosted.log.recovery_point))\n",
            ),
        ),
        caught_by=("lost-write", "aborted-read"),
        scenario="compaction",
        first_seed=1,
    ),
    Bug(
        name="compaction-takes-markers-first",
        promise="A marker stays as long as records of its transaction do.",
        source="KIP-534; architecture/storage (compaction)",
        edits=(
            Edit(
                module="oncelog_storage.core.cleaning",
                old="""        if not may_go or is_last or self._is_last_word(fields):
""",
                new="""        if is_last or self._is_last_word(fields):
""",
            ),
            Edit(
                module="oncelog_storage.core.cleaning",
                old="""        if fields[RECORD_COUNT] == 0:
            return None
        if not fields[ATTRIBUTES] & DELETE_HORIZON:
""",
                new="""        if fields[RECORD_COUNT]:
            return None
        if not fields[ATTRIBUTES] & DELETE_HORIZON:
""",
            ),
        ),
        caught_by=("transaction-left-open", "lost-write", "unseen-after-healing", "two-outcomes"),
        scenario="compaction",
        first_seed=1,
    ),
    Bug(
        name="scrub-passes-damage",
        promise="A copy that rots is found and copied again from the others.",
        source="architecture/storage (scrub)",
        edits=(
            Edit(
                module="oncelog_storage.core.scrubbing",
                old="        if reason:\n            batch_bytes",
                new="        if reason in CUT:\n            batch_bytes",
            ),
        ),
        caught_by=("corrupt-minority",),
        scenario="rot",
        first_seed=1,
    ),
)
