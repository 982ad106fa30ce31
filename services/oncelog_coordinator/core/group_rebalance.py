"""A rebalance of a classic group, from its reason to the generation in which it ends.

`Change` gathers what one event does to one group: its next state, the replies, the sessions that are extended. It is a
value under construction, not state: `decision()` returns all of it, and the state machine changes only in `apply`.

A rebalance waits for every member to join again, at most for the longest rebalance timeout among them. Then the members
that have not joined are removed, unless they are static: a static member keeps its place until its session ends. The
first rebalance of a group waits a moment more, since more members are likely on their way (Kafka's
group.initial.rebalance.delay.ms).
"""

from collections.abc import Iterable
from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import CancelTimer, Decision, Effect, Reply, SetTimer
from oncelog_coordinator.core.group_events import (
    GroupConfig,
    InitialDelayOver,
    JoinAnswer,
    JoinedMember,
    JoinTimeOver,
    SessionCheck,
    SyncAnswer,
    SyncTimeOver,
)
from oncelog_coordinator.core.group_records import GroupChanged, GroupRecord, SessionExtended
from oncelog_coordinator.core.group_state import Group, GroupState, Member


def join_timer(group_id: str) -> str:
    return f"join {group_id}"


def sync_timer(group_id: str) -> str:
    return f"sync {group_id}"


def session_timer(group_id: str, member_id: str) -> str:
    return f"session {group_id} {member_id}"


def watched_session(group_id: str, member_id: str, timeout_ms: int, now: Millis) -> SetTimer:
    check = SessionCheck(group_id, member_id, Millis(now + timeout_ms))
    return SetTimer(session_timer(group_id, member_id), Millis(timeout_ms), check)


def time_to_join(group: Group) -> SetTimer:
    over = JoinTimeOver(group.group_id, group.rebalance)
    return SetTimer(join_timer(group.group_id), Millis(group.rebalance_timeout_ms), over)


class Change:
    """The effect of one event on a classic group: the next state of `group`, the replies and the timers.

    `decision()` returns it as the state machine's decision.
    """

    def __init__(self, group: Group, config: GroupConfig, now: Millis) -> None:
        self.before = group
        self.group = group
        self.config = config
        self.now = now
        self._effects: list[Effect] = []
        self._extended: list[SessionExtended] = []
        self._is_stored = False

    # ------------------------------------------------------------------------------------------- saying

    def reply(self, request_id: int | None, answer: object) -> None:
        if request_id is not None:
            self._effects.append(Reply(request_id, answer))

    def store(self) -> None:
        """Mark the group to be written to the log by this decision. Its replies then wait for that append."""
        self._is_stored = True

    def watch(self, member_id: str, timeout_ms: int) -> None:
        """Start the member's session: the member is removed unless it sends a request within `timeout_ms`."""
        group_id = self.group.group_id
        self.extend_session(member_id, timeout_ms)
        self._effects.append(watched_session(group_id, member_id, timeout_ms, self.now))

    def extend_session(self, member_id: str, timeout_ms: int) -> None:
        """Extend the member's session by `timeout_ms`. This is cheaper than `watch`: the running timer finds the
        later deadline when it ends."""
        deadline = Millis(self.now + timeout_ms)
        self._extended.append(SessionExtended(self.group.group_id, member_id, deadline))

    def effect(self, effect: Effect) -> None:
        self._effects.append(effect)

    def decision(self, label: str) -> Decision[GroupRecord]:
        changed: tuple[GroupRecord, ...] = ()
        if self.group is not self.before or self._is_stored:
            changed = (GroupChanged(self.group),)
        if self._is_stored:
            return Decision(changed, tuple(self._effects), label, tuple(self._extended))
        return Decision((), tuple(self._effects), label, (*changed, *self._extended))

    # ------------------------------------------------------------------------------------------- members

    def put(self, member: Member) -> None:
        self.group = self.group.with_member(member)

    def remove(self, member_id: str) -> None:
        """Remove a member, and answer UNKNOWN_MEMBER_ID to its waiting requests. A member that still runs joins
        anew."""
        member = self.group.members.get(member_id)
        if member is not None:
            self.reply(member.joining, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
            self.reply(member.syncing, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        self.group = self.group.without(member_id)
        self.effect(CancelTimer(session_timer(self.group.group_id, member_id)))

    # ------------------------------------------------------------------------------------------- rebalance

    def rebalance_or_complete(self) -> None:
        """Start a rebalance after a change of the members. If one is running, complete it if all have joined now."""
        if self.group.is_in(GroupState.PREPARING_REBALANCE):
            self.complete_if_all_joined()
        else:
            self.prepare()

    def complete_if_all_joined(self) -> None:
        group = self.group
        if (
            group.is_in(GroupState.PREPARING_REBALANCE)
            and not group.is_initial
            and group.have_all_joined
        ):
            self.complete()

    def prepare(self) -> None:
        group = self.group
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            self.end_sync(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
            group = self.group
        self.effect(CancelTimer(sync_timer(group.group_id)))
        is_initial = group.is_in(GroupState.EMPTY)
        self.group = group = replace(
            group,
            state=GroupState.PREPARING_REBALANCE,
            state_timestamp=self.now,
            rebalance=group.rebalance + 1,
            is_initial=is_initial,
            has_new_member=False,
            unsynced=(),
        )
        if is_initial:
            delay_ms = self.config.initial_rebalance_delay_ms
            self.wait_for_more(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.have_all_joined:
            self.complete()
        else:
            self._wait_for_joins()

    def wait_for_more(self, delay_ms: int, remaining_ms: int) -> None:
        group = self.group
        over = InitialDelayOver(group.group_id, group.rebalance, delay_ms, remaining_ms)
        self.effect(SetTimer(join_timer(group.group_id), Millis(delay_ms), over))

    def _wait_for_joins(self) -> None:
        self.effect(time_to_join(self.group))

    def end_sync(self, answer: SyncAnswer) -> None:
        """End a rebalance that has no assignment yet: members that wait in SyncGroup get this answer."""
        members = {}
        for member_id, member in self.group.members.items():
            if member.syncing is not None:
                self.reply(member.syncing, answer)
                self.watch(member_id, member.session_timeout_ms)
            members[member_id] = replace(member, assignment=b"", syncing=None)
        self.group = replace(self.group, members=members)

    def complete(self) -> None:
        """End the wait for JoinGroup requests, because all members have joined or the time for it is over.

        Members that have not joined are removed, unless they are static. The joined ones are told the new generation. A
        group without members becomes Empty.
        """
        group_id = self.group.group_id
        self.effect(CancelTimer(join_timer(group_id)))
        for member in tuple(self.group.members.values()):
            if member.joining is None and member.instance_id is None:
                self.remove(member.member_id)
        members = self.group.members
        if members and not self._elect_leader():
            # Only static members are left, and none of them is there: wait until their sessions end.
            self._wait_for_joins()
            return
        generation = self.group.generation + 1
        if not members:
            self.group = replace(
                self.group,
                state=GroupState.EMPTY,
                state_timestamp=self.now,
                generation=generation,
                protocol=None,
                leader=None,
                is_initial=False,
                unsynced=(),
            )
            self.store()
            return
        self.group = replace(
            self.group,
            state=GroupState.COMPLETING_REBALANCE,
            state_timestamp=self.now,
            generation=generation,
            protocol=self.group.selected_protocol(),
            is_initial=False,
            unsynced=tuple(members),
        )
        self._answer_joins()
        timeout_ms = Millis(self.group.rebalance_timeout_ms)
        over = SyncTimeOver(group_id, generation)
        self.effect(SetTimer(sync_timer(group_id), timeout_ms, over))

    def _elect_leader(self) -> bool:
        """Choose a leader among the members that have joined, because the leader must assign. False: no member has
        joined.
        """
        group = self.group
        current = group.members.get(group.leader or "")
        if current is None or current.joining is None:
            found = (m.member_id for m in group.members.values() if m.joining is not None)
            leader = next(found, None)
            if leader is None:
                return False
            self.group = replace(group, leader=leader)
        return True

    def _answer_joins(self) -> None:
        joined = {}
        for member_id, member in self.group.members.items():
            self.reply(member.joining, join_answer(self.group, member_id))
            self.watch(member_id, member.session_timeout_ms)
            joined[member_id] = replace(member, joining=None, is_new=False)
        self.group = replace(self.group, members=joined)


def join_answer(group: Group, member_id: str, *, skip_assignment: bool = False) -> JoinAnswer:
    """Return the JoinGroup answer for a member of the current generation. Only the leader's answer lists all
    members.
    """
    is_leader = group.leader == member_id
    return JoinAnswer(
        ErrorCode.NONE,
        member_id,
        group.generation,
        group.protocol_type or "",
        group.protocol or "",
        group.leader or "",
        skip_assignment and is_leader,
        _everybody(group.members.values(), group.protocol) if is_leader else (),
    )


def _everybody(members: Iterable[Member], protocol: str | None) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
        for member in members
    )


# ------------------------------------------------------------------------------------------------ time


def session_check(
    change: Change, event: SessionCheck, deadline: Millis | None
) -> Decision[GroupRecord]:
    """Return the decision when a session's timer ends: the member is removed, or its session goes on.

    `deadline` is the time until which the member's requests have extended its session; None: no request has.
    """
    group, member_id = change.group, event.member_id
    member = group.members.get(member_id)
    longest_ms = change.config.new_member_join_timeout_ms
    if member is not None and not member.is_new:
        longest_ms = member.session_timeout_ms
    going_on = session_going_on(event, deadline, longest_ms, change.now, "session_goes_on")
    if going_on is not None:
        return going_on
    if member is None:
        if member_id not in group.pending:
            return Decision((), (), "session_of_nobody")
        change.remove(member_id)
        change.complete_if_all_joined()
        return change.decision("pending_member_expired")
    if not member.is_new and (member.joining is not None or member.syncing is not None):
        # It waits for us. Its session begins again with our answer.
        return Decision((), (), "session_of_a_waiting_member")
    change.remove(member_id)
    if group.is_in(GroupState.PREPARING_REBALANCE):
        if change.group.have_all_joined:
            change.complete()
    else:
        change.prepare()
    return change.decision("member_expired")


def session_going_on(
    event: SessionCheck, deadline: Millis | None, longest_ms: int, now: Millis, label: str
) -> Decision[GroupRecord] | None:
    """Return the decision that lets a member's session go on; None: its time is over. `longest_ms` is a whole session.

    The deadline is compared with the wall clock, and that may be set. Set forward, it would remove each member whose
    timer ends before its next heartbeat. Timers are monotonic, so the time is taken to be no later than `due`.

    A deadline further away than a session lasts comes from a clock that was set. A member that is gone would stay until
    then, so one whole session begins now.
    """
    left_ms = 0 if deadline is None else deadline - min(now, event.due)
    if left_ms <= 0:
        return None
    granted: tuple[GroupRecord, ...] = ()
    if left_ms > longest_ms:
        left_ms = longest_ms
        granted = (SessionExtended(event.group_id, event.member_id, Millis(now + left_ms)),)
    again = watched_session(event.group_id, event.member_id, left_ms, now)
    return Decision((), (again,), label, granted)


def initial_delay_over(change: Change, event: InitialDelayOver) -> Decision[GroupRecord]:
    group = change.group
    if group.rebalance != event.rebalance or not group.is_initial:
        return Decision((), (), "timer_too_late")
    if group.has_new_member and event.remaining_ms:
        change.group = replace(group, has_new_member=False)
        delay_ms = min(change.config.initial_rebalance_delay_ms, event.remaining_ms)
        change.wait_for_more(delay_ms, max(event.remaining_ms - event.delay_ms, 0))
        return change.decision("waits_for_more_members")
    change.complete()
    return change.decision("joined")


def join_time_over(change: Change, event: JoinTimeOver) -> Decision[GroupRecord]:
    group = change.group
    if group.rebalance != event.rebalance or not group.is_in(GroupState.PREPARING_REBALANCE):
        return Decision((), (), "timer_too_late")
    change.complete()
    return change.decision("join_time_over")


def sync_time_over(change: Change, event: SyncTimeOver) -> Decision[GroupRecord]:
    """Remove the members that joined but did not send SyncGroup in time, and rebalance."""
    group = change.group
    is_current = group.generation == event.generation and group.is_in(
        GroupState.COMPLETING_REBALANCE, GroupState.STABLE
    )
    if not is_current or not group.unsynced:
        return Decision((), (), "timer_too_late")
    for member_id in group.unsynced:
        change.remove(member_id)
    change.prepare()
    return change.decision("sync_time_over")
