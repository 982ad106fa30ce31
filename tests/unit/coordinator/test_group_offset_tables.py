"""Committed offsets, alone and in transactions, row by row (facts 5.2, 9; KIP-211, KIP-447, KIP-890)."""

import pytest
from tests.worlds.coordinator.group_world import ORDERS, GroupWorld

from oncelog.errors import ErrorCode
from oncelog.ids import Partition, SeenTransaction
from oncelog_coordinator.core.consumer_group import TopicShape
from oncelog_coordinator.core.group_events import (
    CommitOffsets,
    CommitTxnOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    ListGroups,
    OffsetToCommit,
    TopicsDeleted,
)
from oncelog_coordinator.core.group_records import OffsetTombstone
from oncelog_coordinator.core.group_state import GroupState

NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
OLD, NEW = b"o" * 16, b"n" * 16
"""The topic that was deleted, and the one of its name."""


@pytest.fixture
def world():
    return GroupWorld()


# ------------------------------------------------------------------------------------------------------ commits


def test_a_consumer_without_a_group_keeps_its_place(world):
    assert world.fetch() == -1
    assert world.commit(41) == NONE
    assert world.fetch() == 41
    assert world.group.state is GroupState.EMPTY


@pytest.mark.parametrize(
    ("generation", "member_id", "code"),
    [
        (1, None, NONE),
        (0, None, ErrorCode.ILLEGAL_GENERATION),
        (2, None, ErrorCode.ILLEGAL_GENERATION),
        (1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        (-1, "", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_living_group_is_committed_to_by_its_generation_only(world, generation, member_id, code):
    joined = world.stable()
    name = joined.member_id if member_id is None else member_id
    assert world.commit(5, generation, name) == code
    assert world.fetch() == (5 if code == NONE else -1)


def test_a_generation_of_a_group_nobody_knows_is_refused():
    """Older versions are told ILLEGAL_GENERATION, by the listener."""
    assert GroupWorld().commit(5, 3, "m") == ErrorCode.GROUP_ID_NOT_FOUND


def test_between_join_and_sync_a_member_is_told_to_wait(world):
    joined = world.joined()
    assert world.commit(5, 1, joined.member_id) == ErrorCode.REBALANCE_IN_PROGRESS


def test_metadata_has_a_bound_in_bytes():
    world = GroupWorld(offset_metadata_bytes_max=4)
    assert world.commit(1, metadata="1234") == NONE
    assert world.commit(2, metadata="12€") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert world.fetch() == 1


# ------------------------------------------------------------------------------------------------- transactions


def test_who_is_about_to_change_an_offset_is_told_to_who_asks(world):
    world.commit_in_transaction(1, (7, 0))
    world.commit_in_transaction(2, (8, 0))

    def pending(partitions=None, *, with_pending=True):
        answer = world.answer(FetchOffsets, "g", partitions, False, with_pending=with_pending)
        return [(one.partition, one.offset, one.pending) for one in answer.offsets]

    assert pending() == [(ORDERS, -1, (7, 8))]
    # Clients that ask for all topics are told what is committed, as ever.
    assert pending(with_pending=False) == []
    world.end((7, 0))
    assert pending((ORDERS,)) == [(ORDERS, 1, (8,))]
    world.end((8, 0), commit=False)
    assert pending() == [(ORDERS, 1, ())]


def test_a_fenced_producers_offsets_are_refused(world):
    world.commit_in_transaction(1, (7, 3))
    world.end((7, 4), commit=False)
    assert world.commit_in_transaction(2, (7, 3)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_between_question_and_commit_refuses_it(world):
    """KIP-890: these offsets would be pending for ever, or end with the producer's next transaction."""
    _, _, verified_at = world.machine.verification(7, 0)
    world.end()
    assert world.commit_in_transaction(1, verified_at=verified_at) == ErrorCode.INVALID_TXN_STATE


def test_under_tv2_an_earlier_marker_refuses_no_later_commit(world):
    """A producer sends offsets as soon as its commit is answered, and that may be before its marker is here."""
    world.commit_in_transaction(1, (7, 0), version=2)
    _, _, verified_at = world.machine.verification(7, 1)
    world.end((7, 1), version=2)
    assert world.commit_in_transaction(2, (7, 1), verified_at=verified_at, version=2) == NONE
    world.end((7, 2), version=2)
    assert world.fetch(require_stable=True) == 2


def test_under_tv2_its_own_marker_refuses_a_commit(world):
    _, _, verified_at = world.machine.verification(7, 1)
    world.end((7, 2), commit=False, version=2)
    answer = world.commit_in_transaction(1, (7, 1), verified_at=verified_at, version=2)
    assert answer == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_late_marker_does_not_end_the_next_transaction(world):
    """A marker sender froze with the first transaction's commit, another one brought it meanwhile. Under TV1 both
    transactions have the same epoch."""
    world.commit_in_transaction(1, start_ms=100)
    assert world.end(start_ms=100) == NONE
    world.commit_in_transaction(2, start_ms=200)
    assert world.end(start_ms=100) == NONE
    assert (world.fetch(), world.fetch(require_stable=True)) == (1, UNSTABLE)
    assert world.end(commit=False, start_ms=200) == NONE
    assert world.fetch(require_stable=True) == 1


def test_an_operators_marker_ends_what_was_seen_or_nothing(world):
    """Under TV1 the producer may begin again at the same epoch, also on top of what hangs."""

    def ends(start_offset, producer=(7, 0)):
        seen = SeenTransaction(start_offset, last_offset)
        return world.end(producer, commit=False, seen=seen)

    world.commit_in_transaction(1)
    first = last_offset = len(world.log) - 1
    assert ends(first + 1) == ErrorCode.INVALID_TXN_STATE, "it begins elsewhere"
    assert ends(first, (8, 0)) == ErrorCode.INVALID_TXN_STATE, "it is another producer's"
    world.commit_in_transaction(2)
    assert ends(first) == ErrorCode.INVALID_TXN_STATE, "it has grown"
    assert world.end() == NONE
    assert ends(first) == ErrorCode.INVALID_TXN_STATE, "it has ended"
    world.commit_in_transaction(3)
    second = len(world.log) - 1
    assert ends(first) == ErrorCode.INVALID_TXN_STATE, "another one runs"
    world.commit_in_transaction(4)
    last_offset = len(world.log) - 1
    assert ends(second) == NONE
    assert world.fetch(require_stable=True) == 2


def test_a_marker_that_ends_nothing_here_is_written(world):
    """Its transaction had added the group, and committed no offsets yet: a commit that is being verified must not be
    let in after its end. What is known is the transaction before, and the clock was set back since."""
    world.commit_in_transaction(1, start_ms=200)
    assert world.end((8, 0), start_ms=100, transactional_id="other") == NONE
    assert world.end(start_ms=200, transactional_id="pay") == NONE
    _, _, verified_at = world.machine.verification(7, 0)
    assert world.end(start_ms=100, transactional_id="pay") == NONE
    assert world.labels[-1] == "marker_written"
    answer = world.commit_in_transaction(2, verified_at=verified_at, start_ms=100)
    assert answer == ErrorCode.INVALID_TXN_STATE
    world.commit_in_transaction(2, start_ms=50)
    assert world.end(start_ms=100) == NONE
    assert world.labels[-1] == "late_marker_ignored"
    assert world.fetch(require_stable=True) == UNSTABLE


def test_who_did_not_let_a_transaction_in_asks_when_it_began(world):
    world.commit_in_transaction(1, start_ms=200)
    world.crash()
    marker = {"start_ms": 100, "transactional_id": "pay"}
    assert world.end(**marker) == ErrorCode.REQUEST_TIMED_OUT
    assert world.end(**marker, running_start_ms=200) == NONE
    assert world.fetch(require_stable=True) == UNSTABLE, "late, and nothing was written"
    assert world.end(**marker, running_start_ms=100) == NONE
    assert world.fetch(require_stable=True) == 1
    world.commit_in_transaction(2, start_ms=200)
    world.crash()
    assert world.end(**marker, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH, "TV2 needs none"
    assert world.end(**marker, running_start_ms=0) == NONE, "the coordinator knows of none"
    assert world.fetch(require_stable=True) == 2


def test_what_looks_late_is_asked_about_until_it_is_certain(world):
    """Who coordinates the shard no more, and does not know it, still has the transaction before open. Its own append
    would be refused; a marker that it calls late would be lost."""
    world.commit_in_transaction(1, start_ms=100)
    known = world.machine.started(7)
    marker = {"start_ms": 200, "transactional_id": "pay"}
    assert world.end(**marker) == ErrorCode.REQUEST_TIMED_OUT
    late = world.end(**marker, running_start_ms=100, known_when_requested=known)
    assert (late, world.labels[-1]) == (NONE, "late_marker_ignored")
    assert world.end(start_ms=100) == NONE
    world.commit_in_transaction(2, start_ms=150)
    stale = world.end(**marker, running_start_ms=200, known_when_requested=known)
    assert stale == ErrorCode.REQUEST_TIMED_OUT
    known = world.machine.started(7)
    assert world.end(**marker, running_start_ms=200, known_when_requested=known) == NONE
    assert world.labels[-1] == "marker_written"


def test_a_start_that_was_not_told_is_not_an_earlier_one(world):
    world.commit_in_transaction(1, start_ms=100)
    assert world.end(start_ms=100) == NONE
    world.commit_in_transaction(2, start_ms=0)
    assert world.end(start_ms=200, transactional_id="pay") == ErrorCode.REQUEST_TIMED_OUT


def test_a_marker_at_another_epoch_is_not_late(world):
    """Fencing a producer ends its transaction at the next epoch."""
    world.commit_in_transaction(1, (7, 0), start_ms=200)
    assert world.end((7, 1), commit=False, start_ms=200) == NONE
    assert world.fetch(require_stable=True) == -1


def test_generations_and_members_are_checked_in_transactions(world):
    joined = world.stable()
    assert world.commit_in_transaction(1, generation=1, member_id=joined.member_id) == NONE
    for generation, member_id, code in (
        (0, joined.member_id, ErrorCode.ILLEGAL_GENERATION),
        (1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert world.commit_in_transaction(2, generation=generation, member_id=member_id) == code
    assert world.commit_in_transaction(3) == NONE, "old producers name no member"


@pytest.mark.parametrize(
    ("known", "is_open", "epoch", "coordinator_epoch", "version", "code"),
    [
        (3, True, 3, 5, 0, NONE),
        (3, True, 2, 5, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, True, 4, 5, 2, NONE),
        (3, True, 3, 5, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, False, 3, 5, 2, NONE),
        (3, False, 2, 5, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, False, 3, 4, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_markers_are_compared_as_at_a_partitions_leader(
    world, known, is_open, epoch, coordinator_epoch, version, code
):
    if is_open:
        world.commit_in_transaction(1, (7, known))
    else:
        world.end((7, known), coordinator_epoch=5)
    answer = world.end((7, epoch), coordinator_epoch=coordinator_epoch, version=version)
    assert answer == code


def test_a_marker_of_who_committed_nothing_here_is_written(world):
    """The transaction coordinator counts the partition as in the transaction, and waits for its marker."""
    assert world.end((9, 0)) == NONE
    assert len(world.log) == 1


# ----------------------------------------------------------------------------------------------------- removal


def delete_offsets(world, *partitions):
    answer = world.answer(DeleteOffsets, "g", partitions)
    return answer.error_code or [code for _, code in answer.partitions]


def test_offsets_are_deleted_unless_the_group_reads_their_topic(world):
    assert delete_offsets(world, ORDERS) == ErrorCode.GROUP_ID_NOT_FOUND
    world.commit(5)
    world.commit_in_transaction(6)
    assert delete_offsets(world, ORDERS, Partition("refunds", 0)) == [NONE, NONE]
    assert world.fetch(require_stable=True) == -1
    world.end()
    assert world.fetch() == -1
    world.stable()
    assert delete_offsets(world, ORDERS, Partition("refunds", 0)) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        NONE,
    ]


def test_a_group_is_deleted_with_all_it_has_when_nobody_is_in_it(world):
    assert world.answer(DeleteGroup, "g").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    joined = world.stable()
    world.commit(5, 1, joined.member_id)
    assert world.answer(DeleteGroup, "g").error_code == ErrorCode.NON_EMPTY_GROUP
    world.leave(joined.member_id)
    world.commit_in_transaction(6)
    assert world.answer(DeleteGroup, "g").error_code == NONE
    world.end()
    assert world.fetch(require_stable=True) == -1
    assert world.answer(DescribeGroup, "g").group is None
    assert world.replayed().group("g") is None


def test_offsets_of_a_deleted_topic_do_not_wait_for_its_namesake(world):
    world.commit(5)
    world.commit_in_transaction(6)
    world.submit(TopicsDeleted({"refunds": b"r" * 16}))
    assert world.fetch() == 5
    world.submit(TopicsDeleted({"orders": OLD, "refunds": b"r" * 16}))
    assert world.fetch(require_stable=True) == -1
    world.end()
    assert world.fetch() == -1
    assert world.replayed().offsets == world.machine.offsets


def commit_of(world, offset, topic_id):
    offsets = (OffsetToCommit(ORDERS, offset, topic_id=topic_id),)
    return world.answer(CommitOffsets, "g", -1, "", None, offsets).partitions[0][1]


def fetched(world, **fields):
    answer = world.answer(
        FetchOffsets, "g", **{"partitions": (ORDERS,), "require_stable": False} | fields
    )
    return [found.offset for found in answer.offsets]


def test_an_offset_does_not_count_for_the_namesake_of_its_topic(world):
    """Also where its deletion went unheard, as while a shard loads."""
    assert commit_of(world, 5, OLD) == NONE
    assert fetched(world, topic_ids={"orders": OLD}) == [5]
    assert fetched(world, topic_ids={"orders": NEW}) == [-1]
    assert fetched(world) == [5]
    world.shapes["orders"] = TopicShape(NEW, 1)
    assert fetched(world) == fetched(world, partitions=None) == [-1]
    assert world.replayed().offsets == world.machine.offsets


def test_an_offset_of_a_deleted_topic_is_refused(world):
    world.shapes["orders"] = TopicShape(NEW, 1)
    assert commit_of(world, 7, NEW) == NONE
    assert commit_of(world, 5, OLD) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(world) == [7]


def test_a_transaction_brings_no_offset_of_a_deleted_topic(world):
    world.shapes["orders"] = TopicShape(NEW, 1)
    offsets = (OffsetToCommit(ORDERS, 5, topic_id=OLD), OffsetToCommit(Partition("refunds", 0), 6))
    answer = world.answer(CommitTxnOffsets, "g", -1, "", None, offsets, 7, 0, -1, 0, False)
    assert [code for _, code in answer.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE]
    world.end()
    assert fetched(world, partitions=None) == [6]


def test_an_offset_of_the_new_topic_outlives_the_old_one(world):
    """The deletion is told late: the group has already read of the namesake."""
    world.shapes["orders"] = TopicShape(NEW, 1)
    assert commit_of(world, 7, NEW) == NONE
    world.submit(TopicsDeleted({"orders": OLD}))
    assert fetched(world) == [7]


def test_offsets_of_an_empty_group_expire_after_it_became_empty():
    world = GroupWorld(offsets_retention_ms=WEEK_MS)
    world.crash()
    joined = world.stable(session_timeout_ms=30 * DAY_MS)
    world.commit(5, 1, joined.member_id)
    world.advance(WEEK_MS + DAY_MS)
    assert world.fetch() == 5, "a living group reads its topic"
    world.leave(joined.member_id)
    world.advance(WEEK_MS - DAY_MS)
    assert world.fetch() == 5
    world.advance(2 * DAY_MS)
    assert world.fetch() == -1
    assert world.group is None
    assert any(isinstance(record, OffsetTombstone) for record in world.log)


def test_a_commit_for_an_empty_group_outlives_its_emptiness():
    """An operator sets the group back, or a consumer without a group goes on under its name."""
    world = GroupWorld(offsets_retention_ms=WEEK_MS)
    world.crash()
    joined = world.stable()
    world.commit(5, 1, joined.member_id)
    world.leave(joined.member_id)
    world.advance(WEEK_MS - DAY_MS)
    assert world.commit(3) == NONE
    world.advance(WEEK_MS - DAY_MS)
    assert world.fetch() == 3
    world.advance(2 * DAY_MS)
    assert (world.fetch(), world.group) == (-1, None)


def test_offsets_nobody_joined_for_expire_unless_pending():
    world = GroupWorld(offsets_retention_ms=WEEK_MS)
    world.crash()
    world.commit(5)
    world.commit_in_transaction(6)
    world.advance(2 * WEEK_MS)
    assert world.fetch() == 5
    world.end(commit=False)
    world.advance(DAY_MS)
    assert (world.fetch(), world.group) == (-1, None)


def test_producers_are_forgotten_when_they_have_long_been_silent():
    world = GroupWorld(producer_expiration_ms=DAY_MS)
    world.crash()
    world.end((7, 3))
    world.commit_in_transaction(1, (8, 3))
    world.advance(2 * DAY_MS)
    assert world.machine.offsets.producer(7) is None
    assert world.machine.offsets.producer(8) is not None, "its transaction is open"


# ------------------------------------------------------------------------------------------------------- views


def test_groups_are_listed_by_state_and_type(world):
    world.commit(1)
    world.stable(group_id="g")
    world.answer(FetchOffsets, "other", None, False)
    for states, types, names in (
        ((), (), ["g"]),
        (("stable",), (), ["g"]),
        (("empty",), (), []),
        ((), ("consumer",), []),
        ((), ("classic",), ["g"]),
    ):
        listed = world.answer(ListGroups, states, types).groups
        assert [row.group_id for row in listed] == names


def test_all_that_a_group_has_is_fetched_when_nothing_is_named(world):
    world.commit(3)
    answer = world.answer(FetchOffsets, "g", None, False)
    assert [(found.partition, found.offset) for found in answer.offsets] == [(ORDERS, 3)]
