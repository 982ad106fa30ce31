"""The group machine: every consumer group of one `__consumer_offsets` partition, and their offsets.

`decide` passes each event to the module that knows the answer, and returns records to write. `apply` takes a written
record and keeps the newest value of each group and offset. `resume` starts the session timers of members found in the
log. Some changes are applied but never journaled, such as which member waits for an answer, or whose session was
extended: see `Decision.unlogged` and ADR 0019.

A group speaks one of two protocols: the classic one (`group_state`, then `group_rebalance`) or the consumer protocol of
KIP-848 (`consumer_group`, then `consumer_heartbeat`). Its offsets are the same. A group with members changes its
protocol with them (`group_migration`), and a consumer group may have members of the classic protocol
(`consumer_classic`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Offset, ProducerEpoch, ProducerId
from oncelog.machine import Decision, Effect, SetTimer, answered
from oncelog_coordinator.core import (
    consumer_classic,
    consumer_heartbeat,
    consumer_leaving,
    group_commits,
    group_join,
    group_membership,
    group_rebalance,
)
from oncelog_coordinator.core.consumer_change import Change, revocation, session_ms
from oncelog_coordinator.core.consumer_group import (
    CONSUMER,
    ConsumerGroup,
    ConsumerRecord,
    GroupEpoch,
    MemberAssigned,
    MemberState,
    MemberSubscribed,
    PatternResolved,
    TargetAssigned,
    TargetEpoch,
    Topics,
    applied,
    tombstones,
)
from oncelog_coordinator.core.group_events import (
    CleanUp,
    CommitOffsets,
    CommitTxnOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeAnswer,
    DescribeGroup,
    EndTransaction,
    FetchOffsets,
    GroupConfig,
    GroupEvent,
    GroupRow,
    Heartbeat,
    InitialDelayOver,
    JoinGroup,
    JoinTimeOver,
    LeaveGroup,
    ListAnswer,
    ListGroups,
    RejoinTimeOver,
    RevokeTimeOver,
    SessionCheck,
    SyncGroup,
    SyncTimeOver,
    TopicsDeleted,
)
from oncelog_coordinator.core.group_offsets import NEVER_ENDED, GroupOffsets
from oncelog_coordinator.core.group_records import (
    GroupChanged,
    GroupRecord,
    GroupTombstone,
    OffsetCommitted,
    OffsetTombstone,
    ProducersForgotten,
    RejoinAwaited,
    SessionExtended,
    TopicsLookedThrough,
    TransactionEnded,
    TransactionStarted,
)
from oncelog_coordinator.core.group_state import CLASSIC, Group, GroupState


class GroupMachine:
    """The state machine of one group shard: all groups and offsets of one `__consumer_offsets` partition.

    It does no I/O: a driver feeds events in and writes the records. Its methods are those of `oncelog.machine.Machine`:
    `decide`, `apply` and `resume`.
    """

    def __init__(
        self,
        config: GroupConfig | None = None,
        config_of: Callable[[str], GroupConfig] | None = None,
        topics: Callable[[], Topics] | None = None,
    ) -> None:
        """Start empty. `config` holds for all groups; `config_of` returns the configuration of one consumer group
        (KIP-848).

        `topics` returns the cluster's topics now.
        """
        self._config = config or GroupConfig()
        self._config_of = config_of or (lambda _: self._config)
        self._groups: dict[str, Group] = {}
        self._consumers: dict[str, ConsumerGroup] = {}
        self._offsets = GroupOffsets()
        self._deadlines: dict[tuple[str, str], Millis] = {}
        self._starts: dict[ProducerId, TransactionStarted] = {}
        self._looked: dict[str, dict[str, TopicsLookedThrough]] = {}
        self._topics: Callable[[], Topics] = topics or dict
        self._awaited: dict[tuple[str, str], Millis] = {}

    # ------------------------------------------------------------------------------------------- the contract

    def decide(self, event: GroupEvent, now: Millis) -> Decision[GroupRecord]:
        config = self._config
        match event:
            case JoinGroup() | SyncGroup() | Heartbeat() | LeaveGroup():
                return self._membership(event, now)
            case CommitOffsets():
                return group_commits.commit(
                    self.group(event.group_id), event, self._topics(), config, now
                )
            case CommitTxnOffsets():
                return group_commits.commit_in_transaction(
                    self.group(event.group_id), self._offsets, event, self._topics(), config, now
                )
            case EndTransaction():
                started = self._starts.get(event.producer_id)
                return group_commits.end_transaction(self._offsets, started, event, now)
            case FetchOffsets():
                group = self.group(event.group_id)
                return group_commits.fetch(group, self._offsets, event, self._topics())
            case ConsumerHeartbeat():
                consumers = self._consumers.get(event.group_id)
                classic = self._groups.get(event.group_id)
                config = self._config_of(event.group_id)
                looked = self._looked.get(event.group_id, {})
                return consumer_heartbeat.decide(consumers, classic, event, looked, config, now)
            case DeleteOffsets():
                group = self.group(event.group_id)
                return group_commits.delete_offsets(group, self._offsets, event)
            case DeleteGroup():
                group = self.group(event.group_id)
                return group_commits.delete_group(group, self._offsets, event)
            case DescribeGroup():
                return answered(event, DescribeAnswer(self.group(event.group_id)), "described")
            case ListGroups():
                return answered(event, self._list(event), "listed")
            case TopicsDeleted():
                groups = (*self._groups, *self._consumers)
                return group_commits.topics_deleted(groups, self._offsets, event)
            case CleanUp():
                every: list[Group | ConsumerGroup] = [*self._groups.values()]
                every += self._consumers.values()
                return group_commits.clean_up(every, self._offsets, event, config, now)
            case RevokeTimeOver() | RejoinTimeOver():
                return self._consumer_time(event, now)
            case SessionCheck() | InitialDelayOver() | JoinTimeOver() | SyncTimeOver():
                return self._time(event, now)
            case _:
                assert_never(event)

    def _time(
        self, event: SessionCheck | InitialDelayOver | JoinTimeOver | SyncTimeOver, now: Millis
    ) -> Decision[GroupRecord]:
        if isinstance(event, SessionCheck) and event.group_id in self._consumers:
            return self._consumer_time(event, now)
        group = self._groups.get(event.group_id)
        if group is None:
            return Decision((), (), "timer_of_nobody")
        change = group_rebalance.Change(group, self._config, now)
        match event:
            case SessionCheck():
                deadline = self._deadlines.get((event.group_id, event.member_id))
                return group_rebalance.session_check(change, event, deadline)
            case InitialDelayOver():
                return group_rebalance.initial_delay_over(change, event)
            case JoinTimeOver():
                return group_rebalance.join_time_over(change, event)
            case SyncTimeOver():
                return group_rebalance.sync_time_over(change, event)
            case _:
                assert_never(event)

    def _consumer_time(
        self, event: SessionCheck | RevokeTimeOver | RejoinTimeOver, now: Millis
    ) -> Decision[GroupRecord]:
        group = self._consumers.get(event.group_id)
        if group is None:
            return Decision((), (), "timer_of_nobody")
        change = self._change(group, now)
        key = (event.group_id, event.member_id)
        match event:
            case SessionCheck():
                return consumer_leaving.session_check(change, event, self._deadlines.get(key))
            case RevokeTimeOver():
                return consumer_leaving.revoke_time_over(change, event)
            case RejoinTimeOver():
                return consumer_leaving.rejoin_time_over(change, event, self._awaited.get(key))
            case _:
                assert_never(event)

    def _membership(
        self, event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup, now: Millis
    ) -> Decision[GroupRecord]:
        consumers = self._consumers.get(event.group_id)
        if consumers is not None and consumers.members:
            return self._classic_member(consumers, event, now)
        group, config = self._groups.get(event.group_id), self._config
        match event:
            case JoinGroup():
                decision = group_join.decide(group, event, config, now)
                if consumers is None or not (decision.records or decision.unlogged):
                    return decision
                # An empty consumer group goes with the first who joins.
                return replace(decision, records=(*tombstones(consumers), *decision.records))
            case SyncGroup():
                return group_membership.sync(group, event, config, now)
            case Heartbeat():
                return group_membership.heartbeat(group, event, now)
            case LeaveGroup():
                return group_membership.leave(group, event, config, now)
            case _:
                assert_never(event)

    def _classic_member(
        self,
        group: ConsumerGroup,
        event: JoinGroup | SyncGroup | Heartbeat | LeaveGroup,
        now: Millis,
    ) -> Decision[GroupRecord]:
        change = self._change(group, now)
        match event:
            case JoinGroup():
                return consumer_classic.join(change, event)
            case LeaveGroup():
                return consumer_classic.leave(change, event)
            case SyncGroup():
                awaited = self._awaited.get((event.group_id, event.member_id))
                return consumer_classic.sync(change, event, awaited)
            case Heartbeat():
                awaited = self._awaited.get((event.group_id, event.member_id))
                return consumer_classic.heartbeat(change, event, awaited)
            case _:
                assert_never(event)

    def _change(self, group: ConsumerGroup, now: Millis) -> Change:
        return Change(group, self._topics(), self._config_of(group.group_id), now)

    def apply(self, offset: Offset, record: GroupRecord) -> None:
        match record:
            case SessionExtended():
                self._deadlines[record.group_id, record.member_id] = record.deadline
            case RejoinAwaited():
                self._await_rejoin(record)
            case OffsetCommitted():
                if self.group(record.group_id) is None:
                    # Nobody joined it: a consumer that assigns its partitions itself keeps its place here.
                    self._groups[record.group_id] = Group(record.group_id)
                self._offsets.committed(offset, record)
            case OffsetTombstone():
                self._offsets.removed(record)
                self._drop_if_bare(record.group_id)
            case TransactionEnded():
                for group_id in self._offsets.ended(offset, record):
                    self._drop_if_bare(group_id)
            case GroupChanged():
                self._changed(record.group)
            case GroupTombstone():
                gone = self._groups.pop(record.group_id, None)
                if gone is not None:
                    self._forget_silent(gone, Group(record.group_id))
                if self._offsets.has_any(record.group_id):
                    # They went on under the other protocol. Should a compacted log tell no more of that: without a
                    # group nobody would ever forget them, and a topic made anew would be read from there.
                    self._groups[record.group_id] = Group(record.group_id)
            case ProducersForgotten():
                self._offsets.forget(record.producer_ids)
                for producer_id in record.producer_ids:
                    self._starts.pop(producer_id, None)
            case TransactionStarted():
                self._starts[record.producer_id] = record
            case TopicsLookedThrough():
                self._looked.setdefault(record.group_id, {})[record.pattern] = record
            case _:
                self._apply_consumer(record)

    def _apply_consumer(self, record: ConsumerRecord) -> None:
        group_id = record.group_id
        group = self._consumers.get(group_id)
        if group is None:
            if _is_tombstone(record):
                return
            group = ConsumerGroup(group_id)
            if self._groups.get(group_id) == Group(group_id):
                # It was only ever a name for offsets that a replay saw first.
                del self._groups[group_id]
        after = applied(group, record)
        if isinstance(record, MemberSubscribed):
            if record.subscription is None:
                self._deadlines.pop((group_id, record.member_id), None)
            if record.subscription is None or record.subscription.classic is None:
                self._awaited.pop((group_id, record.member_id), None)
        if isinstance(record, PatternResolved) and record.resolved is None:
            self._looked.get(group_id, {}).pop(record.pattern, None)
        if after is not None:
            self._consumers[group_id] = after
            return
        del self._consumers[group_id]
        self._looked.pop(group_id, None)
        if self._offsets.has_any(group_id):
            self._groups[group_id] = Group(group_id)

    def resume(self, now: Millis) -> Sequence[Effect]:
        """Return the timers that a state machine needs after its load from the log: sessions, rebalances, clean-up.

        Each member has one whole session to reach this coordinator.
        """
        effects: list[Effect] = [
            SetTimer(
                group_commits.CLEAN_UP_TIMER,
                self._config.clean_up_interval_ms,
                CleanUp(),
                self._config.clean_up_interval_ms,
            )
        ]
        for group in self._groups.values():
            if group.is_in(GroupState.PREPARING_REBALANCE):
                # It was a consumer group a moment ago: its members join again, or are put out.
                effects.append(group_rebalance.time_to_join(group))
            for member in group.members.values():
                session = group.group_id, member.member_id, member.session_timeout_ms
                effects.append(group_rebalance.watched_session(*session, now))
        for consumers in self._consumers.values():
            config = self._config_of(consumers.group_id)
            for consumer in consumers.members.values():
                session = consumers.group_id, consumer.member_id, session_ms(consumer, config)
                effects.append(group_rebalance.watched_session(*session, now))
                if consumer.current.state is MemberState.UNREVOKED_PARTITIONS:
                    effects.append(revocation(consumers, consumer))
        return effects

    # ------------------------------------------------------------------------------------------- questions

    @property
    def is_empty(self) -> bool:
        return not self._groups and not self._consumers and self._offsets.is_empty

    def group(self, group_id: str) -> Group | ConsumerGroup | None:
        return self._groups.get(group_id) or self._consumers.get(group_id)

    @property
    def offsets(self) -> GroupOffsets:
        return self._offsets

    def started(self, producer_id: ProducerId) -> TransactionStarted | None:
        """Return the last transaction of this producer that this state machine accepted since its load; None: there was
        none.
        """
        return self._starts.get(producer_id)

    def verification(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch
    ) -> tuple[ErrorCode, bool, int]:
        """Return what this shard knows of a producer, before the transaction coordinator is asked about the producer's
        TxnOffsetCommit.

        The parts are: the error of a fenced producer; whether its transaction is known to be open here; the offset of
        its last marker, for `CommitTxnOffsets.verified_at`.
        """
        producer = self._offsets.producer(producer_id)
        if producer is None:
            return ErrorCode.NONE, False, NEVER_ENDED
        if producer_epoch < producer.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, False, NEVER_ENDED
        is_known = producer.is_open and producer.producer_epoch == producer_epoch
        return ErrorCode.NONE, is_known, producer.last_marker

    # ------------------------------------------------------------------------------------------- inside

    def _await_rejoin(self, record: RejoinAwaited) -> None:
        key = (record.group_id, record.member_id)
        if record.deadline is None:
            self._awaited.pop(key, None)
        else:
            self._awaited[key] = record.deadline

    def _changed(self, group: Group) -> None:
        before = self._groups.get(group.group_id)
        self._groups[group.group_id] = group
        if before is not None:
            self._forget_silent(before, group)

    def _drop_if_bare(self, group_id: str) -> None:
        """Drop a group that never had members, once it has no offsets left. A load from the log would not find it
        either.
        """
        if self._groups.get(group_id) == Group(group_id) and not self._offsets.has_any(group_id):
            del self._groups[group_id]

    def _forget_silent(self, before: Group, after: Group) -> None:
        if before.members is not after.members or before.pending is not after.pending:
            for member_id in (*before.members, *before.pending):
                if member_id not in after.members and member_id not in after.pending:
                    self._deadlines.pop((before.group_id, member_id), None)

    def _list(self, event: ListGroups) -> ListAnswer:
        rows = [
            GroupRow(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
            for group in self._groups.values()
        ]
        rows += (
            GroupRow(group.group_id, CONSUMER, group.state.value, CONSUMER)
            for group in self._consumers.values()
        )
        return ListAnswer(
            tuple(
                row
                for row in rows
                if (not event.states or row.state.lower() in event.states)
                and (not event.types or row.group_type in event.types)
            )
        )


def _is_tombstone(record: ConsumerRecord) -> bool:
    match record:
        case GroupEpoch() | TargetEpoch():
            return record.epoch is None
        case MemberSubscribed():
            return record.subscription is None
        case TargetAssigned():
            return record.slots is None
        case MemberAssigned():
            return record.current is None
        case PatternResolved():
            return record.resolved is None
