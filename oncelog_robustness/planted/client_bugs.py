"""Planted bugs that only clients see: in what they read, in where their records go, in groups
that never end their work."""

from typing import Final

from oncelog_robustness.planted.bug import Bug, Edit

CLIENT_BUGS: Final = (
    Bug(
        name="fetch-begins-behind-its-offset",
        promise="A fetch from the middle of a batch is answered with that batch.",
        source="facts 3; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.fetching",
                old="        answer.records = records\n",
                new=(
                    "        begins = [at for at, one in iter_headers(records)"
                    " if one.base_offset >= offset]\n"
                    "        answer.records = records[begins[0] :] if begins else b''\n"
                ),
            ),
        ),
        caught_by=("poll-skip",),
        scenario="rolls",
        first_seed=1,
    ),
    Bug(
        name="fetch-begins-where-the-last-one-ended",
        promise="A fetch begins with the batch that holds its offset, wherever another one has ended.",
        source="facts 3; architecture/storage",
        edits=(
            Edit(
                module="oncelog_storage.core.read_places",
                old="tail_segment is segment and tail_offset == fetch_offset:\n",
                new="tail_segment is segment and tail_offset <= fetch_offset:\n",
            ),
        ),
        caught_by=("poll-reversal",),
        scenario="readers",
        first_seed=1,
    ),
    Bug(
        name="repeated-batch-answered-with-another-offset",
        promise="A batch that is sent again is answered with the offset that it has.",
        source="facts 9, rule 5; KIP-98",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="                return kept\n        return None\n",
                new="                return entry.batches[0]\n        return None\n",
            ),
        ),
        caught_by=("send-reversal",),
        scenario="failover",
        first_seed=3,
    ),
    Bug(
        name="newest-offset-for-a-repeated-batch",
        promise="A batch that is sent again is answered with the offset that it has, whatever was written behind it.",
        source="facts 9, rule 5; KIP-98",
        edits=(
            Edit(
                module="oncelog_storage.core.producer_state",
                old="                return kept\n        return None\n",
                new="                return entry.batches[-1]\n        return None\n",
            ),
        ),
        caught_by=("send-reversal", "inconsistent-offsets"),
        scenario="pipelines",
        first_seed=1,
    ),
    Bug(
        name="additions-set-the-timer-anew",
        promise="A transaction lasts its time-out by a monotonic clock: the wall clock of its coordinator may step.",
        source="facts 8.4 and 8.9; architecture/coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.core.add_partitions",
                old="        return Decision((ongoing,), effects, label)\n",
                new="        return Decision((ongoing,), (*effects, timeout_timer(ongoing, now)), label)\n",
            ),
        ),
        caught_by=("healthy-transaction-aborted",),
        scenario="clock-steps",
        first_seed=1,
    ),
    Bug(
        name="isolation-level-not-handed-on",
        promise="A read_committed fetch is one at the leader, too.",
        source="facts 3; architecture/listener",
        edits=(
            Edit(
                module="oncelog_listener.handlers.fetch",
                old="        isolation_level=isolation_of(request.isolation_level),\n",
                new="",
            ),
        ),
        caught_by=("circular-information-flow",),
        scenario="readers",
        first_seed=1,
    ),
    Bug(
        name="session-looked-at-once",
        promise="A member that falls silent is put out, and what it had goes to others.",
        source="KIP-848; architecture/group-coordinator",
        edits=(
            Edit(
                module="oncelog_coordinator.core.group_rebalance",
                old="    return Decision((), (again,), label, granted)\n",
                new="    return Decision((), (), label, granted)\n",
            ),
        ),
        caught_by=("stuck-group",),
        scenario="silent",
        first_seed=1,
    ),
    Bug(
        name="aborts-before-the-fetch-named",
        promise="A fetch names no aborted transaction that ended before its offset: a reader would drop the next one.",
        source="facts 5.3",
        edits=(
            Edit(
                module="oncelog_storage.core.segment_state",
                old="bisect_right(entries, fetch_offset - 1, key",
                new="bisect_right(entries, -1, key",
            ),
            Edit(
                module="oncelog_storage.core.aborted_index",
                old="        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset:\n",
                new="        if entry.first_offset < upper_offset:\n",
            ),
        ),
        caught_by=("bank",),
        scenario="accounts",
        first_seed=1,
    ),
    Bug(
        name="older-epoch-may-end-under-tv2",
        promise="Under TV2 each transaction has an epoch of its own, and an EndTxn of an earlier one decides nothing.",
        source="facts 8.7; KIP-890",
        edits=(
            Edit(
                module="oncelog_coordinator.core.end_txn",
                old="    if event.producer_epoch != txn.producer_epoch or txn.state.is_prepared:\n",
                new="    if event.producer_epoch > txn.producer_epoch or txn.state.is_prepared:\n",
            ),
        ),
        caught_by=("delayed-end-txn-tv2",),
        scenario="late",
        first_seed=1,
    ),
)
