"""Decides about the offsets of a group shard: commit, fetch, delete, and expiry (docs/kafka-facts.md, 5.2; KIP-447).

The functions here only read. They return records, which change `GroupOffsets` once they are written.
"""

from collections.abc import Iterable

from oncelog.errors import ErrorCode
from oncelog.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Millis, Partition
from oncelog.machine import Decision, Effect, Reply, SetTimer, answered
from oncelog_coordinator.core.consumer_group import (
    ConsumerGroup,
    Topics,
    commit_error,
    epoch_error,
    tombstones,
)
from oncelog_coordinator.core.group_events import (
    CleanUp,
    CodeAnswer,
    CommitAnswer,
    CommitOffsets,
    CommitTxnOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndTransaction,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupConfig,
    TopicsDeleted,
)
from oncelog_coordinator.core.group_offsets import NEVER_ENDED, CommittedOffset, GroupOffsets
from oncelog_coordinator.core.group_records import (
    GroupRecord,
    GroupTombstone,
    OffsetCommitted,
    OffsetTombstone,
    ProducersForgotten,
    SessionExtended,
    TransactionEnded,
    TransactionStarted,
)
from oncelog_coordinator.core.group_state import CONSUMER_PROTOCOL, Group, GroupState

AnyGroup = Group | ConsumerGroup

CLEAN_UP_TIMER = "clean up"
CLEANED_AT_ONCE_MAX = 500
"""The most records of one tick of expiry. The rest waits a second, so that expiry never holds up requests."""
NEXT_CLEAN_UP_MS = Millis(1_000)
_TV2 = 2


# ------------------------------------------------------------------------------------------------ commit


def commit(
    group: AnyGroup | None, event: CommitOffsets, topics: Topics, config: GroupConfig, now: Millis
) -> Decision[GroupRecord]:
    error_code = _commit_error(group, event, is_transactional=False)
    if error_code is not ErrorCode.NONE:
        return answered(event, CommitAnswer(error_code), "commit_refused")
    records, answer = _commit_records(event, topics, config, now)
    extended: tuple[GroupRecord, ...] = ()
    # Only its heartbeats extend the session of a member of a consumer group.
    member = group.members.get(event.member_id) if isinstance(group, Group) else None
    if member is not None:
        deadline = Millis(now + member.session_timeout_ms)
        extended = (SessionExtended(event.group_id, event.member_id, deadline),)
    return Decision(records, (Reply(event.request_id, answer),), "offsets_committed", extended)


def commit_in_transaction(
    group: AnyGroup | None,
    offsets: GroupOffsets,
    event: CommitTxnOffsets,
    topics: Topics,
    config: GroupConfig,
    now: Millis,
) -> Decision[GroupRecord]:
    """Return the decision on a TxnOffsetCommit. Its offsets stay pending until the transaction's marker comes.

    The transaction that its coordinator verified must be the one that is open now. Otherwise the commit is refused.
    """
    producer = offsets.producer(event.producer_id)
    error_code = ErrorCode.NONE
    if producer is not None and event.producer_epoch < producer.producer_epoch:
        error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif not event.supports_epoch_bump and event.verified_at != (
        producer.last_marker if producer is not None else NEVER_ENDED
    ):
        # Its marker came while we asked. Accepted now, these offsets would be pending for ever (KIP-890). Under TV2 its
        # marker would have bumped the epoch: one that has not is of the transaction before (facts 9, step 8).
        error_code = ErrorCode.INVALID_TXN_STATE
    else:
        error_code = _commit_error(group, event, is_transactional=True)
    if error_code is not ErrorCode.NONE:
        return answered(event, CommitAnswer(error_code), "transactional_commit_refused")
    records, answer = _commit_records(event, topics, config, now)
    started: tuple[GroupRecord, ...] = ()
    if records and (event.transaction_start_ms > 0 or producer is None or not producer.is_open):
        started = (
            TransactionStarted(event.producer_id, event.producer_epoch, event.transaction_start_ms),
        )
    return Decision(records, (Reply(event.request_id, answer),), "offsets_pending", started)


def _commit_error(
    group: AnyGroup | None, event: CommitOffsets | CommitTxnOffsets, *, is_transactional: bool
) -> ErrorCode:
    generation, member_id, instance_id = event.generation, event.member_id, event.instance_id
    if isinstance(group, ConsumerGroup):
        return commit_error(
            group, generation, member_id, instance_id, is_transactional=is_transactional
        )
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.GROUP_ID_NOT_FOUND
    if generation < 0 and group.is_in(GroupState.EMPTY):
        return ErrorCode.NONE
    if generation >= 0 or member_id or instance_id is not None:
        error_code = group.member_error(member_id, instance_id)
        if error_code is not ErrorCode.NONE:
            return error_code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not is_transactional:
        # Old producers name no member with their offsets; a consumer without one must not overwrite a living group's.
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not is_transactional and group.is_in(GroupState.COMPLETING_REBALANCE):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _commit_records(
    event: CommitOffsets | CommitTxnOffsets, topics: Topics, config: GroupConfig, now: Millis
) -> tuple[tuple[GroupRecord, ...], CommitAnswer]:
    producer_id, producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if isinstance(event, CommitTxnOffsets):
        producer_id, producer_epoch = event.producer_id, event.producer_epoch
    records: list[GroupRecord] = []
    results: list[tuple[Partition, ErrorCode]] = []
    for partition, offset, leader_epoch, metadata, topic_id in event.offsets:
        if not _is_of(topics, partition.topic, topic_id):
            # Its topic was deleted and made again, which this node or the asking one has yet to hear.
            results.append((partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        if len(metadata.encode()) > config.offset_metadata_bytes_max:
            results.append((partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            continue
        results.append((partition, ErrorCode.NONE))
        records.append(
            OffsetCommitted(
                event.group_id,
                partition,
                offset,
                leader_epoch,
                metadata,
                now,
                NO_TIMESTAMP,
                producer_id,
                producer_epoch,
                topic_id,
            )
        )
    return tuple(records), CommitAnswer(ErrorCode.NONE, tuple(results))


def _is_of(topics: Topics, name: str, topic_id: bytes) -> bool:
    """False if the topic of this name is known to have another id than this one; then its offset is refused.

    True if the ids are the same, if the request names no id, or if this node does not know the topic.
    """
    known = topics.get(name)
    return known is None or not topic_id or known.topic_id == topic_id


def end_transaction(
    offsets: GroupOffsets, started: TransactionStarted | None, event: EndTransaction, now: Millis
) -> Decision[GroupRecord]:
    """Return the decision on a transaction marker: pending offsets become the group's, or are dropped.

    `started` is the producer's last transaction that this state machine accepted since its load. Answers
    REQUEST_TIMED_OUT if the transaction's coordinator must be asked first. The caller asks it, puts the answer into the
    event, and sends the event again.
    """
    is_late = _is_late(offsets, started, event)
    if event.transactional_id and is_late is not False and not _is_start_known(started, event):
        return answered(event, CodeAnswer(ErrorCode.REQUEST_TIMED_OUT), "start_unknown")
    if is_late:
        return answered(event, CodeAnswer(ErrorCode.NONE), "late_marker_ignored")
    error_code = offsets.marker_error(event)
    reply = Reply(event.request_id, CodeAnswer(error_code))
    if error_code is not ErrorCode.NONE:
        return Decision((), (reply,), "marker_fenced")
    record = TransactionEnded(
        event.producer_id, event.producer_epoch, event.is_commit, event.coordinator_epoch, now
    )
    return Decision((record,), (reply,), "marker_written")


def _is_late(
    offsets: GroupOffsets, started: TransactionStarted | None, event: EndTransaction
) -> bool | None:
    """True if the marker ends another transaction than the open one; None: nobody here knows when the open one began.

    A partition's leader decides the same way. Such a marker was delayed on its way. Its transaction has ended since, or
    the open transaction could not have begun.

    False if no transaction is open: then the marker is written. It may end a transaction whose first offsets are being
    verified. Those must be refused after it.
    """
    marker_start_ms = event.transaction_start_ms
    if event.transaction_version >= _TV2 or not marker_start_ms or not _is_open(offsets, event):
        return False
    if _is_start_known(started, event):
        return event.running_start_ms not in (0, marker_start_ms)
    if started is None or not started.start_ms:
        return None
    return marker_start_ms != started.start_ms


def _is_start_known(started: TransactionStarted | None, event: EndTransaction) -> bool:
    """True if the transaction's coordinator has said when the open transaction began, and the answer still holds.

    It holds if no transaction of the producer was accepted since. It counts more than what is known here: this process
    may have lost the shard without knowing it, and the transaction that is open here may have ended elsewhere.
    """
    return event.running_start_ms is not None and event.known_when_requested == started


def _is_open(offsets: GroupOffsets, event: EndTransaction) -> bool:
    producer = offsets.producer(event.producer_id)
    return producer is not None and producer.is_open


# ------------------------------------------------------------------------------------------------ fetch


def fetch(
    group: AnyGroup | None, offsets: GroupOffsets, event: FetchOffsets, topics: Topics
) -> Decision[GroupRecord]:
    """Return the decision on an OffsetFetch: the committed offsets of a group.

    An unknown group has committed nothing, which is no error.
    """
    if isinstance(group, ConsumerGroup) and event.member_id:
        error_code = epoch_error(group, event.member_epoch, event.member_id)
        if error_code is not ErrorCode.NONE:
            return answered(event, FetchOffsetsAnswer((), error_code), "fetch_refused")
    committed = offsets.of(event.group_id)
    wanted = tuple(committed) if event.partitions is None else event.partitions
    if event.with_pending and event.partitions is None:
        pending = offsets.pending_partitions(event.group_id)
        wanted = tuple(dict.fromkeys((*wanted, *pending)))
    found = []
    for partition in wanted:
        if event.require_stable and offsets.is_pending(event.group_id, partition):
            found.append(FetchedOffset(partition, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT))
            continue
        entry, name = committed.get(partition), partition.topic
        meant = event.topic_ids.get(name) or (topics[name].topic_id if name in topics else b"")
        one = (
            FetchedOffset(partition)
            if entry is None or not entry.is_of(meant)
            else FetchedOffset(partition, entry.offset, entry.leader_epoch, entry.metadata)
        )
        if event.with_pending:
            one = one._replace(pending=offsets.pending_producers(event.group_id, partition))
        found.append(one)
    return answered(event, FetchOffsetsAnswer(tuple(found)), "offsets_fetched")


# ------------------------------------------------------------------------------------------------ delete


def delete_offsets(
    group: AnyGroup | None, offsets: GroupOffsets, event: DeleteOffsets
) -> Decision[GroupRecord]:
    error_code = ErrorCode.NONE
    if group is None:
        error_code = ErrorCode.GROUP_ID_NOT_FOUND
    elif isinstance(group, Group) and _is_strange(group):
        error_code = ErrorCode.NON_EMPTY_GROUP
    if group is None or error_code is not ErrorCode.NONE:
        return answered(event, CommitAnswer(error_code), "delete_refused")
    records: list[GroupRecord] = []
    results: list[tuple[Partition, ErrorCode]] = []
    committed = offsets.of(event.group_id)
    for partition in dict.fromkeys(event.partitions):
        if group.is_subscribed_to(partition.topic):
            results.append((partition, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        results.append((partition, ErrorCode.NONE))
        if partition in committed or offsets.is_pending(event.group_id, partition):
            records.append(OffsetTombstone(event.group_id, partition))
    answer = CommitAnswer(ErrorCode.NONE, tuple(results))
    return Decision(tuple(records), (Reply(event.request_id, answer),), "offsets_deleted")


def _is_strange(group: Group) -> bool:
    """True if the group has members that are no consumers, so that the topics of their subscriptions cannot be read."""
    return not group.is_in(GroupState.EMPTY) and group.protocol_type != CONSUMER_PROTOCOL


def delete_group(
    group: AnyGroup | None, offsets: GroupOffsets, event: DeleteGroup
) -> Decision[GroupRecord]:
    """Return the decision that deletes a group without members, and its offsets.

    The group's own tombstone is the last. If the log is cut short before it, the group can be deleted again.
    """
    error_code = ErrorCode.NONE
    if group is None:
        error_code = ErrorCode.GROUP_ID_NOT_FOUND
    elif not _is_vacant(group):
        error_code = ErrorCode.NON_EMPTY_GROUP
    reply = Reply(event.request_id, CodeAnswer(error_code))
    if group is None or error_code is not ErrorCode.NONE:
        return Decision((), (reply,), "delete_refused")
    group_id = event.group_id
    partitions = dict.fromkeys((*offsets.of(group_id), *offsets.pending_partitions(group_id)))
    offsets_gone = tuple(OffsetTombstone(group_id, partition) for partition in partitions)
    return Decision((*offsets_gone, *_removed(group)), (reply,), "group_deleted")


def _is_vacant(group: AnyGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.is_in(GroupState.EMPTY)


def _removed(group: AnyGroup) -> tuple[GroupRecord, ...]:
    if isinstance(group, ConsumerGroup):
        return tombstones(group)
    return (GroupTombstone(group.group_id),)


def topics_deleted(
    groups: Iterable[str], offsets: GroupOffsets, event: TopicsDeleted
) -> Decision[GroupRecord]:
    """Return the decision that removes the offsets of deleted topics, committed and pending.

    A marker that comes later finds none of these offsets.
    """
    gone = tuple(
        OffsetTombstone(group_id, partition)
        for group_id in groups
        for partition in dict.fromkeys(
            (*offsets.of(group_id), *offsets.pending_partitions(group_id))
        )
        if partition.topic in event.topics
        and offsets.any_is_of(group_id, partition, event.topics[partition.topic])
    )
    return Decision(gone, (), "offsets_of_topics_deleted" if gone else "")


# ------------------------------------------------------------------------------------------------ clean up


def clean_up(
    groups: Iterable[AnyGroup],
    offsets: GroupOffsets,
    event: CleanUp,
    config: GroupConfig,
    now: Millis,
) -> Decision[GroupRecord]:
    """Remove offsets past their retention, then groups with neither members nor offsets."""
    records: list[GroupRecord] = []
    next_ms = config.clean_up_interval_ms
    for group in groups:
        group_id = group.group_id
        if len(records) >= CLEANED_AT_ONCE_MAX:
            next_ms = NEXT_CLEAN_UP_MS
            break
        expired = _expired(group, offsets, config, now)
        records += (OffsetTombstone(group_id, partition) for partition in expired)
        is_bare = len(expired) == len(offsets.of(group_id)) and not (
            offsets.pending_partitions(group_id)
        )
        if is_bare and _is_vacant(group) and not (isinstance(group, Group) and group.pending):
            records += _removed(group)
    silent = tuple(offsets.forgettable(now, config.producer_expiration_ms))
    timer: Effect = SetTimer(CLEAN_UP_TIMER, next_ms, event)
    forgotten = (ProducersForgotten(silent),) if silent else ()
    return Decision(tuple(records), (timer,), "cleaned_up" if records else "", forgotten)


def _expired(
    group: AnyGroup, offsets: GroupOffsets, config: GroupConfig, now: Millis
) -> list[Partition]:
    """Return the partitions whose offsets have outlived their retention.

    An empty classic group's offsets age from the moment it became empty, all others from their commit (KIP-211). The
    log does not tell when a consumer group became empty, so its offsets age from their commit, as in Kafka.

    An offset may be committed for an empty group: by an operator who sets it back, or a consumer that assigns its
    partitions itself. In Kafka such an offset ages from when the group became empty; here it ages from its commit.
    """
    empty_since = NO_TIMESTAMP
    if isinstance(group, Group) and group.protocol_type is not None:
        if group.is_in(GroupState.EMPTY):
            empty_since = group.state_timestamp
        elif not group.is_in(GroupState.STABLE) or group.protocol_type != CONSUMER_PROTOCOL:
            return []

    def is_old(entry: CommittedOffset) -> bool:
        if entry.expire_timestamp >= 0:
            return now >= entry.expire_timestamp
        since = max(empty_since, entry.commit_timestamp)
        return now - since >= config.offsets_retention_ms

    return [
        partition
        for partition, entry in offsets.of(group.group_id).items()
        if is_old(entry)
        and not offsets.is_pending(group.group_id, partition)
        and not group.is_subscribed_to(partition.topic)
    ]
