"""Planted bugs of the roles that decide: coordinators of transactions, groups and sinks,
marker senders, controllers."""

from typing import Final

from oncelog_robustness.planted.bug import Bug, Edit

COORDINATOR_BUGS: Final = (
    Bug(
        name="older-producer-epoch-may-end",
        promise="Only the newest incarnation of a producer may end its transaction.",
        source="facts 8.6; KIP-98",
        edits=(
            Edit(
                module="oncelog_coordinator.core.end_txn",
                old="""    if event.producer_epoch != txn.producer_epoch:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if txn.state is not TxnState.ONGOING:
""",
                new="""    if event.producer_epoch > txn.producer_epoch:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if txn.state is not TxnState.ONGOING:
""",
            ),
        ),
        caught_by=(
            "zombie-write",
            "lost-write",
            "torn-transaction",
        ),
        scenario="deciders",
        first_seed=8,
    ),
    Bug(
        name="init-producer-id-does-not-fence",
        promise="InitProducerId raises the epoch, and every earlier incarnation is fenced by it.",
        source="facts 8.3; KIP-98",
        edits=(
            Edit(
                module="oncelog_coordinator.core.init_producer_id",
                old="        bumped, last = ProducerEpoch(stored + 1), NO_PRODUCER_EPOCH\n",
                new="        bumped, last = ProducerEpoch(max(stored, 0)), NO_PRODUCER_EPOCH\n",
            ),
        ),
        caught_by=(
            "zombie-write",
            "lost-write",
            "torn-transaction",
        ),
        scenario="deciders",
        first_seed=2,
    ),
    Bug(
        name="reply-before-commit",
        promise="No reply leaves before its records are committed.",
        source="ADR 0004; docs/style.md, rule 5",
        edits=(
            Edit(
                module="oncelog.runtime.driver",
                old="            self._wake_writer()\n        else:\n",
                new=(
                    "            self._wake_writer()\n"
                    "            for effect in decision.effects:\n"
                    "                if isinstance(effect, Reply):\n"
                    "                    self._release(effect)\n"
                    "        else:\n"
                ),
            ),
        ),
        caught_by=("lost-write",),
        scenario="hasty",
        first_seed=2,
    ),
    Bug(
        name="resume-forgotten",
        promise="A coordinator that loads a shard sends the markers of every prepared transaction again.",
        source="facts 1.1, row 2; docs/style.md, rule 5",
        edits=(
            Edit(
                module="oncelog_coordinator.core.txn",
                old="                effects.append(completion.markers_wanted(txn, key))\n",
                new="",
            ),
        ),
        caught_by=(
            "transaction-left-open",
            "stuck-lso",
        ),
        scenario="deciders",
        first_seed=1,
    ),
    Bug(
        name="producer-id-block-used-twice",
        promise="A producer id is handed out once.",
        source="facts 9; architecture/coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.producer_ids",
                old="""            self._install(block)
        else:
            self._next = block
""",
                new="""            self._install(block)
        self._next = block
""",
            ),
            # Blocks of a thousand would last for a whole run, and only some seeds draw small ones.
            Edit(
                module="oncelog_robustness.simulator.extremes",
                old="_PRODUCER_ID_BLOCK: Final = DrawnSetting((1000,), (1, 2))",
                new="_PRODUCER_ID_BLOCK: Final = DrawnSetting((2,), (1, 2))",
            ),
        ),
        caught_by=("producer-id-reused",),
        scenario="many-producers",
        first_seed=1,
    ),
    Bug(
        name="offsets-committed-outside-the-transaction",
        promise="Offsets sent to a transaction become the group's when it commits, and never when it aborts.",
        source="facts 5.2; KIP-98; KIP-447",
        edits=(
            Edit(
                module="oncelog_coordinator.core.group_commits",
                old="        producer_id, producer_epoch = event.producer_id, event.producer_epoch\n",
                new="        pass\n",
            ),
        ),
        caught_by=(
            "offsets-outside-transaction",
            "processed-once",
            "token-ring",
        ),
        scenario="groups",
        first_seed=1,
    ),
    Bug(
        name="offsets-of-an-abort-committed",
        promise="What a transaction that aborts wanted to commit for a group is thrown away.",
        source="facts 5.2; architecture/group-coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.core.group_commits",
                old="event.producer_id, event.producer_epoch, event.is_commit, event.coordinator_epoch, now\n",
                new="event.producer_id, event.producer_epoch, True, event.coordinator_epoch, now\n",
            ),
        ),
        caught_by=("two-outcomes",),
        scenario="groups",
        first_seed=1,
    ),
    Bug(
        name="offsets-of-an-abort-left-open",
        promise="An abort ends its transaction in the shards of groups, too.",
        source="facts 5.2; architecture/group-coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.core.group_commits",
                old="""return Decision((record,), (reply,), "marker_written")\n""",
                new="""return Decision((record,) if event.is_commit else (), (reply,), "marker_written")\n""",
            ),
        ),
        caught_by=("transaction-left-open",),
        scenario="groups",
        first_seed=1,
    ),
    Bug(
        name="group-offsets-lost-at-failover",
        promise="A group's next coordinator knows every offset that the one before had committed.",
        source="ADR 0005; architecture/group-coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.shard_replay",
                old="""                self._others.append(LiveRecord(record.offset, header, key, record.value))
                self._open.setdefault(fields[9], set()).add(key)
""",
                new="                self._open.setdefault(fields[9], set()).add(key)\n",
            ),
        ),
        caught_by=(
            "inconsistent-offsets",
            "spurious-zero-offset",
            "processed-once",
            "token-ring",
        ),
        scenario="groups",
        first_seed=2,
    ),
    Bug(
        name="pending-offsets-count-as-stable",
        promise="A group whose offset waits for a marker is not told the one before it.",
        source="facts 5.2; KIP-447; architecture/group-coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.core.group_commits",
                old="        if event.require_stable and offsets.is_pending(event.group_id, partition):\n",
                new='        if event.require_stable and offsets.is_pending("", partition):\n',
            ),
        ),
        caught_by=("offsets-outside-transaction", "processed-once", "copier"),
        scenario="undecided",
        first_seed=101,
    ),
    Bug(
        name="older-offset-of-a-transaction-overrides",
        promise="The offset of a transaction that ends late does not replace one that was committed after it.",
        source="facts 5.2; architecture/group-coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.core.group_offsets",
                old="                    if known is None or known.record_offset < entry.record_offset:\n",
                new="                    if known is None or known.record_offset != entry.record_offset:\n",
            ),
        ),
        caught_by=("offsets-outside-transaction",),
        scenario="undecided",
        first_seed=101,
    ),
    Bug(
        name="timeout-does-not-fence-below-tv2",
        promise="A transaction that timed out is aborted at a higher epoch, so that its producer cannot go on.",
        source="facts 8.9; KIP-98; KIP-360",
        edits=(
            Edit(
                module="oncelog_coordinator.core.fencing",
                old="    fenced = ProducerEpoch(min(txn.producer_epoch + 1, PRODUCER_EPOCH_MAX))\n",
                new=(
                    '    raised = label != "timed_out" or cluster_transaction_version >= TV2\n'
                    "    fenced = ProducerEpoch(min(txn.producer_epoch + raised, PRODUCER_EPOCH_MAX))\n"
                ),
            ),
        ),
        caught_by=("torn-transaction", "lost-write"),
        scenario="sleepers",
        first_seed=101,
    ),
    Bug(
        name="two-decisions-for-one-batch",
        promise="A batch of a sink is decided once, whatever driver runs it again.",
        source="ADR 0008",
        edits=(
            Edit(
                module="oncelog_coordinator.core.sink_state",
                old="        return batches[-1].batch_id if batches else NO_BATCH\n",
                new="        return batches[-1].batch_id - 1 if batches else NO_BATCH\n",
            ),
        ),
        caught_by=(
            "spark-batch",
            "duplicate",
        ),
        scenario="sinks",
        first_seed=1,
    ),
    Bug(
        name="origin-ignored",
        promise="An EndTxn that was held up on an older connection does not end the transaction that runs now.",
        source="ADR 0018",
        edits=(
            Edit(
                module="oncelog_coordinator.core.request_origin",
                old="    return refused_origin != known\n",
                new="    return received.connection < 0\n",
            ),
        ),
        caught_by=(
            "delayed-end-txn-tv1",
            "lost-write",
            "torn-transaction",
        ),
        scenario="ghosts",
        first_seed=10,
    ),
    Bug(
        name="origins-of-two-listeners-do-not-compare",
        promise="Nor does one that was held up on its way through a listener that its client has left.",
        source="ADR 0018",
        edits=(
            Edit(
                module="oncelog_coordinator.core.request_origin",
                old="    return refused_origin != known\n",
                new="    return received.listener == known.listener and refused_origin != known\n",
            ),
        ),
        caught_by=(
            "delayed-end-txn-tv1",
            "lost-write",
            "torn-transaction",
            "aborted-read",
        ),
        scenario="wanderers",
        first_seed=186,
        # Few seeds show it: the late EndTxn must meet a transaction that its client wants to end otherwise. Half of the
        # clients speak TV2, which has no such hole.
        seeds=40,
    ),
    Bug(
        name="late-copy-of-a-request-decides",
        promise="A request that a listener sent twice decides once, however late the first copy arrives.",
        source="ADR 0018; architecture/failures",
        edits=(
            Edit(
                module="oncelog_coordinator.core.request_origin",
                old="return 0 < received.request < known.request\n",
                new="return received.request < 0\n",
            ),
        ),
        caught_by=("delayed-end-txn-tv1", "lost-write", "torn-transaction", "aborted-read"),
        scenario="late",
        first_seed=2,
    ),
    Bug(
        name="narrowed-marker-forgets-its-outcome",
        promise="Every partition of a transaction gets the same outcome.",
        source="facts 8.11",
        edits=(
            Edit(
                module="oncelog_marker_sender.messages",
                old="    narrowed.CopyFrom(marker)\n",
                new='    narrowed.CopyFrom(marker)\n    narrowed.ClearField("commit")\n',
            ),
        ),
        caught_by=("lost-write", "torn-transaction", "two-outcomes"),
        scenario="deciders",
        first_seed=1,
    ),
    Bug(
        name="marker-dropped-without-a-leader",
        promise="A marker for a partition whose leader is unknown waits until there is one.",
        source="facts 8.11; architecture/marker-sender",
        edits=(
            Edit(
                module="oncelog_marker_sender.core.queues",
                old="""        if leader is None:
            self._drop(entry)
""",
                new="""        if leader is None or leader == HOLDING:
            self._drop(entry)
""",
            ),
        ),
        caught_by=("transaction-left-open", "stuck-lso"),
        scenario="leaderless",
        first_seed=1,
    ),
    Bug(
        name="election-outside-the-isr",
        promise="Without unclean election only an in-sync replica becomes leader.",
        source="ADR 0006; architecture/controller",
        edits=(
            Edit(
                module="oncelog_controller.core.leadership",
                old="""        if leader == NO_LEADER and topic.configs.get("unclean.leader.election.enable") == "true":
""",
                new="""        if leader == NO_LEADER:
""",
            ),
        ),
        caught_by=(
            "lost-write",
            "committed-records-gone",
        ),
        scenario="outage",
        first_seed=2,
    ),
    Bug(
        name="sequence-reused-after-a-timeout",
        promise="A sequence is given to one batch, also when its first try was not answered.",
        source="KIP-98; facts 9, rule 5",
        edits=(
            Edit(
                module="oncelog.client.core.sequences",
                old="        line.remove(batch.order)\n        # Leaders",
                new=(
                    "        line.remove(batch.order)\n"
                    "        if batch.attempts > 1:\n"
                    "            line.next_sequence = batch.base_sequence\n"
                    "        # Leaders"
                ),
            ),
        ),
        caught_by=("lost-write",),
        scenario="pipelines",
        first_seed=1,
    ),
    Bug(
        name="leader-changes-within-an-epoch",
        promise="Each leader of a partition has a leader epoch of its own.",
        source="KIP-101; ADR 0006; architecture/controller",
        edits=(
            Edit(
                module="oncelog_controller.core.image",
                old="known.leader_epoch + (leader != known.leader),\n",
                new="known.leader_epoch + (leader == NO_LEADER),\n",
            ),
        ),
        caught_by=("two-leaders-of-an-epoch",),
        scenario="failover",
        first_seed=1,
    ),
    Bug(
        name="shard-moves-within-an-epoch",
        promise="Each coordinator of a shard has a coordinator epoch of its own.",
        source="facts 8.10; architecture/controller",
        edits=(
            Edit(
                module="oncelog_controller.core.image",
                old="known.coordinator_epoch + 1 if known else 0\n",
                new="known.coordinator_epoch if known else 0\n",
            ),
        ),
        caught_by=("two-owners-of-a-shard",),
        scenario="deciders",
        first_seed=1,
    ),
    Bug(
        name="deposed-controller-may-write",
        promise="A controller whose term is over writes nothing more, however late its statement arrives.",
        source="ADR 0002; ADR 0020",
        edits=(
            Edit(
                module="oncelog_controller.sql_journal",
                old="        if self._controller_epoch not in (None, state.controller_epoch):\n",
                new="        if (self._controller_epoch or 0) > state.controller_epoch:\n",
            ),
            # A deposed controller does not know where the table ends by now, and is refused for that as well.
            Edit(
                module="oncelog_controller.sql_journal",
                old="        if (-1 if last is None else last) != first - 1:\n",
                new="        if (-1 if last is None else last) < first - 1:\n",
            ),
            Edit(
                module="oncelog_controller.sql_journal",
                old="            connection.execute(insert(metadata_journal), rows)\n",
                new=(
                    "            end = select(func.max(metadata_journal.c.metadata_offset))\n"
                    "            last = connection.execute(end).scalar()\n"
                    "            for number, row in enumerate(rows, first if last is None else last + 1):\n"
                    '                row["metadata_offset"] = number\n'
                    "            connection.execute(insert(metadata_journal), rows)\n"
                ),
            ),
        ),
        caught_by=("deposed-controller-wrote",),
        scenario="deposed",
        first_seed=1,
    ),
    Bug(
        name="partition-given-before-it-is-given-up",
        promise="A member gets a partition only when its last owner has given it up or has left the group.",
        source="KIP-848",
        edits=(
            Edit(
                module="oncelog_coordinator.core.consumer_reconcile",
                old="        slot for slot in wanted if group.owners.get(slot, member.member_id) == member.member_id\n",
                new="        slot for slot in wanted\n",
            ),
        ),
        caught_by=("processed-once", "copier"),
        scenario="rejoining",
    ),
    Bug(
        name="stale-member-epoch-may-commit",
        promise="A member that was put out, or is behind, commits no offsets.",
        source="KIP-848; KIP-447",
        edits=(
            Edit(
                module="oncelog_coordinator.core.consumer_group",
                old="""    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.current.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
""",
                new="""    return ErrorCode.NONE
""",
            ),
        ),
        caught_by=("processed-once", "copier"),
        scenario="rejoining",
        first_seed=2,
    ),
)
