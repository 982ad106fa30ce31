"""One step of one member towards its target assignment: what it must give up, what it may read, what it waits for
(KIP-848).
"""

from oncelog_coordinator.core.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    Current,
    MemberState,
    Slots,
    Topics,
)


def next_current(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Slots | None,
    topics: Topics,
    *,
    has_new_subscription: bool,
) -> Current:
    """Return the member's current assignment after one step towards its target (KIP-848).

    `owned` is what the member says that it still reads; None: it does not say. `has_new_subscription`: the request
    changed the subscription. The member then also gives up the partitions of topics that it does not read any more.
    """
    current = member.current
    if group.is_reconciled(member) and not has_new_subscription:
        return current
    must_wait = current.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(
        owned, current.revoking
    )
    if not must_wait:
        return _towards_target(group, member, owned, topics)
    if has_new_subscription:
        # Partitions that the member no longer subscribes to go as well. The rest waits until it says what it owns.
        kept = _subscribed_only(current.assigned, group.topics_of(member), topics)
        if kept != current.assigned:
            revoking = current.revoking | (current.assigned - kept)
            return current.moved(current.epoch, current.state, kept, revoking)
    return current


def _towards_target(
    group: ConsumerGroup, member: ConsumerMember, owned: Slots | None, topics: Topics
) -> Current:
    current = member.current
    named = group.topics_of(member)
    target = _subscribed_only(group.targets.get(member.member_id, frozenset()), named, topics)
    kept = current.assigned & target
    revoking = current.assigned - kept
    if revoking and _still_owns(owned, revoking):
        return current.moved(current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    wanted = target - kept
    free = frozenset(
        slot for slot in wanted if group.owners.get(slot, member.member_id) == member.member_id
    )
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_PARTITIONS
    if state is current.state and current.epoch == group.target_epoch and not free and not revoking:
        return current
    return current.moved(group.target_epoch, state, kept | free)


def _still_owns(owned: Slots | None, revoking: Slots) -> bool:
    return owned is None or not owned.isdisjoint(revoking)


def _subscribed_only(slots: Slots, named: tuple[str, ...], topics: Topics) -> Slots:
    ids = {topics[name].topic_id for name in named if name in topics}
    return frozenset(slot for slot in slots if slot[0] in ids)
