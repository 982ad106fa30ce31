"""A producer id is given once: blocks of ids do not overlap, and an id belongs to one transactional id or one
producer.

Ids are used by transactional ids, by tasks of Spark sinks, by idempotent producers, and by coordinators for their
appends to `__transaction_state` and `__consumer_offsets`. The logs tell which of these uses an id.
"""

from bisect import bisect_right
from itertools import pairwise

from oncelog.ids import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from oncelog_robustness.checkers.cluster_case import (
    Case,
    fullest_logs,
    key_of,
    named,
    with_producer,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import BatchSeen, Observations, ProducerIdsGiven, ReplicaLog

IDEMPOTENT = "an idempotent producer"


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("producer-id-reused")
    blocks = sorted(observations.blocks, key=lambda block: block.first_producer_id)
    for first, second in pairwise(blocks):
        case.judge()
        if first.first_producer_id + first.count > second.first_producer_id:
            case.broken(f"{_text_of(first)} and {_text_of(second)} overlap")
    users = _users(observations)
    for producer_id in sorted(users):
        case.judge()
        names = users[producer_id]
        if len(names) > 1:
            every_user = " and by ".join(f"{name} ({names[name]})" for name in sorted(names))
            case.broken(f"producer id {producer_id} is used by {every_user}")
        if blocks and not _is_given(blocks, producer_id):
            where = next(iter(names.values()))
            case.broken(f"producer id {producer_id} ({where}) is in no block that was given")
    return case.verdict()


def _users(observations: Observations) -> dict[int, dict[str, str]]:
    """Return, for each producer id, its users, each with the place where it was seen."""
    users: dict[int, dict[str, str]] = {}
    for state in observations.states:
        if state.producer_id >= 0:
            place = f"{TRANSACTION_STATE_TOPIC}-{state.shard} at {state.offset}"
            users.setdefault(state.producer_id, {}).setdefault(
                f"transactional id {state.transactional_id}", place
            )
    for log in fullest_logs(observations):
        for batch in with_producer(log):
            user = _user(log, batch)
            if user:
                place = f"{named(key_of(log))} at {batch.base_offset}"
                users.setdefault(batch.producer_id, {}).setdefault(user, place)
    return users


def _user(log: ReplicaLog, batch: BatchSeen) -> str:
    """Return who uses the batch's producer id: a coordinator, or an idempotent producer. The text is empty for a
    batch of a transaction, because a log does not tell the transactional id."""
    if batch.is_transactional or batch.is_control:
        return ""
    if log.topic in INTERNAL_TOPICS:
        return f"the coordinator of {named(key_of(log))}"
    return IDEMPOTENT


def _is_given(blocks: list[ProducerIdsGiven], producer_id: int) -> bool:
    index = bisect_right(blocks, producer_id, key=lambda block: block.first_producer_id) - 1
    block = blocks[index]
    return index >= 0 and producer_id < block.first_producer_id + block.count


def _text_of(block: ProducerIdsGiven) -> str:
    last = block.first_producer_id + block.count - 1
    return f"{block.first_producer_id}..{last} (controller {block.controller_id}, {block.at_ms} ms)"
