"""The assignors `uniform` and `range`, as pure functions: they decide which member reads which partition.

Both give every partition of a topic to exactly one member that is subscribed to it, if there is one. The same input
gives the same assignment on every node.
"""

from collections.abc import Callable, Mapping
from typing import Final

from oncelog_coordinator.core.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    Slot,
    Slots,
    Topics,
)

UNIFORM: Final = "uniform"
RANGE: Final = "range"
_PASSES_MAX: Final = 16
"""The most passes in which `uniform` evens out the loads. With equal subscriptions the first pass does all."""


def target_assignment(group: ConsumerGroup, topics: Topics) -> dict[str, Slots]:
    """Return the partitions that each member should read, by member id (KIP-848's target assignment).

    The assignor that most members prefer computes it. Members without a preference do not vote; without any vote it is
    `uniform`.
    """
    assignor = ASSIGNORS[preferred_assignor(group)]
    return {id_: frozenset(slots) for id_, slots in assignor(group, topics).items()}


def preferred_assignor(group: ConsumerGroup) -> str:
    votes: dict[str, int] = {}
    for member in group.members.values():
        name = member.subscription.assignor
        if name is not None:
            votes[name] = votes.get(name, 0) + 1
    return max(sorted(votes), key=votes.__getitem__) if votes else UNIFORM


def _subscribers(group: ConsumerGroup, topics: Topics) -> dict[str, list[str]]:
    """Return the subscribed members of each topic that exists, in an order that a restart does not change."""
    found: dict[str, list[str]] = {}
    for member in sorted(group.members.values(), key=_rank):
        for topic in group.topics_of(member):
            if topic in topics:
                found.setdefault(topic, []).append(member.member_id)
    return found


def _rank(member: ConsumerMember) -> tuple[bool, str]:
    """Return the member's sort key. Static members are ordered by their instance id, which outlives their member
    ids."""
    instance_id = member.subscription.instance_id
    return instance_id is None, instance_id or member.member_id


def _range(group: ConsumerGroup, topics: Topics) -> dict[str, set[Slot]]:
    """Return the `range` assignment: each member gets neighbouring partitions of a topic.

    Topics with the same number of partitions and the same members are divided at the same places.
    """
    assigned: dict[str, set[Slot]] = {id_: set() for id_ in group.members}
    for topic, members in sorted(_subscribers(group, topics).items()):
        topic_id, count = topics[topic]
        each, more = divmod(count, len(members))
        at = 0
        for number, member_id in enumerate(members):
            end = at + each + (number < more)
            assigned[member_id].update((topic_id, partition) for partition in range(at, end))
            at = end
    return assigned


def _uniform(group: ConsumerGroup, topics: Topics) -> dict[str, set[Slot]]:
    """Return the `uniform` assignment: the members' partition counts differ as little as their subscriptions allow.

    Partitions stay with the member that has them now where that is possible.
    """
    members_of = {
        (topics[topic].topic_id, partition): members
        for topic, members in _subscribers(group, topics).items()
        for partition in range(topics[topic].partitions)
    }
    assigned: dict[str, set[Slot]] = {id_: set() for id_ in group.members}
    free = dict(members_of)
    for member_id, slots in group.targets.items():
        for slot in slots:
            if slot in free and member_id in free[slot]:
                assigned[member_id].add(slot)
                del free[slot]
    loads = {id_: len(slots) for id_, slots in assigned.items()}
    for slot in sorted(free, key=lambda slot: (len(free[slot]), slot)):
        member_id = min(free[slot], key=loads.__getitem__)
        assigned[member_id].add(slot)
        loads[member_id] += 1
    for _ in range(_PASSES_MAX):
        if not _evened(assigned, loads, members_of):
            break
    return assigned


def _evened(
    assigned: dict[str, set[Slot]],
    loads: dict[str, int],
    members_of: Mapping[Slot, list[str]],
) -> bool:
    """Move partitions between members in one pass of the `uniform` assignor; return True if a partition moved.

    A member hands over a partition to a member that could read it and has at least two partitions fewer.
    """
    has_moved = False
    for giver in sorted(loads, key=lambda id_: -loads[id_]):
        if loads[giver] - min(loads.values()) < 2:
            break
        for slot in sorted(assigned[giver]):
            taker = min(members_of[slot], key=loads.__getitem__)
            if loads[giver] - loads[taker] < 2:
                continue
            assigned[giver].remove(slot)
            assigned[taker].add(slot)
            loads[giver] -= 1
            loads[taker] += 1
            has_moved = True
    return has_moved


ASSIGNORS: Final[Mapping[str, Callable[[ConsumerGroup, Topics], dict[str, set[Slot]]]]] = {
    UNIFORM: _uniform,
    RANGE: _range,
}
