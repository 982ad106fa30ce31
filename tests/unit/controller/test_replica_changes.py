"""AlterPartition and ReassignPartitions: proposals by epoch, eligibility, and how a reassignment ends."""

import pytest
from tests.worlds.controller.metadata_cases import Bench

from oncelog.errors import ErrorCode
from oncelog_controller.core.events import AlterPartition, ProposedIsr


@pytest.fixture
def bench():
    """Topic t on nodes 1, 2 and 3, led by 1 in leader epoch 0; node 4 hosts nothing."""
    bench = Bench()
    for node_id in (1, 2, 3, 4):
        bench.join(node_id, "storage")
    bench.create("t", (1, 2, 3))
    return bench


def test_each_change_of_the_isr_raises_the_partition_epoch(bench):
    assert bench.propose("t", (1, 2)) is ErrorCode.NONE
    assert bench.partition("t").isr == (1, 2)
    assert bench.partition("t").partition_epoch == 1
    assert bench.propose("t", (3, 1, 2)) is ErrorCode.NONE
    assert bench.partition("t").isr == (1, 2, 3)
    assert bench.partition("t").partition_epoch == 2
    assert (bench.partition("t").leader, bench.partition("t").leader_epoch) == (1, 0)


def test_the_isr_that_is_there_already_is_no_change(bench):
    count = len(bench.records)
    assert bench.propose("t", (1, 2, 3)) is ErrorCode.NONE
    assert len(bench.records) == count
    assert bench.labels[-1] == "isr_unchanged"


@pytest.mark.parametrize(
    ("proposal", "error_code"),
    [
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_epoch": 9}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"node_id": 3}, ErrorCode.INVALID_REQUEST),
        ({"node_epoch": 99}, ErrorCode.STALE_BROKER_EPOCH),
        ({"isr": (2, 4)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (2, 2)}, ErrorCode.INVALID_REQUEST),
        ({"isr": ()}, ErrorCode.INVALID_REQUEST),
        ({"isr": (2, 1)}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_proposals_that_are_refused(bench, proposal, error_code):
    bench.fence(1)
    leader = bench.partition("t").leader
    before = bench.partition("t")
    isr = proposal.pop("isr", (2, 3))
    node_id = proposal.pop("node_id", leader)
    if node_id == 3 and leader == 3:
        node_id = 2
    assert bench.propose("t", isr, node_id=node_id, **proposal) is error_code
    assert bench.partition("t") == before


def test_a_draining_replica_may_not_join(bench):
    bench.propose("t", (1, 3))
    bench.beat(2, want_drain=True)
    assert bench.propose("t", (1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA


def test_unknown_partitions_and_repeats_are_told_one_by_one(bench):
    node_epoch = bench.image.nodes[1].node_epoch
    proposals = (
        ProposedIsr("t", 0, 0, 0, (1, 2)),
        ProposedIsr("t", 0, 0, 0, (1, 3)),
        ProposedIsr("t", 7, 0, 0, (1,)),
        ProposedIsr("x", 0, 0, 0, (1,)),
    )
    answer = bench.ask(AlterPartition, 1, node_epoch, proposals)
    assert [result.error_code for result in answer.results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert answer.metadata_offset == bench.image.metadata_offset
    assert bench.partition("t").isr == (1, 2)


def test_a_leader_with_a_damaged_log_leaves_itself_out(bench):
    assert bench.propose("t", (2, 3)) is ErrorCode.NONE
    assert bench.partition("t").leader in (2, 3)
    assert bench.partition("t").leader_epoch == 1
    assert bench.partition("t").isr == (2, 3)


def test_a_damaged_leader_hands_over_to_a_draining_replica(bench):
    """It has every acknowledged record. Refused, the partition was unreadable until somebody ended the drain."""
    for node_id in (2, 3, 4):
        bench.beat(node_id, want_drain=True)
    assert bench.partition("t").leader == 1
    assert bench.propose("t", (2, 3)) is ErrorCode.NONE
    partition = bench.partition("t")
    assert (partition.leader in (2, 3), partition.isr) == (True, (2, 3))
    # Copied again it is the one that stays.
    assert bench.propose("t", (1, 2, 3)) is ErrorCode.NONE
    assert bench.partition("t").leader == 1


def test_a_reassignment_adds_waits_for_the_isr_and_then_removes(bench):
    assert bench.reassign("t", 4, 2) is ErrorCode.NONE
    partition = bench.partition("t")
    assert (partition.replicas, partition.adding, partition.removing) == (
        (4, 2, 1, 3),
        (4,),
        (1, 3),
    )
    assert (partition.leader, partition.isr) == (1, (1, 2, 3))
    assert bench.propose("t", (1, 2, 3, 4)) is ErrorCode.NONE
    partition = bench.partition("t")
    assert (partition.replicas, partition.adding, partition.removing) == ((4, 2), (), ())
    assert (partition.leader, partition.isr) == (4, (4, 2))


def test_a_reassignment_that_only_removes_is_done_at_once(bench):
    assert bench.reassign("t", 2, 1) is ErrorCode.NONE
    partition = bench.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1, 2), 1)


def test_a_reassignment_is_cancelled_or_replaced_while_it_waits(bench):
    bench.reassign("t", 4, 2)
    assert bench.reassign("t") is ErrorCode.NONE
    partition = bench.partition("t")
    assert sorted(partition.replicas) == [1, 2, 3]
    assert (partition.adding, partition.removing, partition.leader) == ((), (), 1)
    assert bench.reassign("t") is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    bench.reassign("t", 4)
    assert bench.reassign("t", 1, 2) is ErrorCode.NONE
    assert bench.partition("t").replicas == (1, 2)


@pytest.mark.parametrize("replicas", [(9,), (2, 2)])
def test_reassignments_that_are_refused(bench, replicas):
    before = bench.partition("t")
    assert bench.reassign("t", *replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert bench.partition("t") == before
    assert bench.reassign("t", 1, number=5) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_cancel_that_would_leave_nothing_in_sync_is_refused(bench):
    bench.create("solo", (1,))
    bench.reassign("solo", 4, 2)
    bench.propose("solo", (1, 4))
    bench.propose("solo", (4,))
    assert bench.partition("solo").leader == 4
    assert bench.reassign("solo") is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_fenced_new_replica_does_not_end_a_reassignment(bench):
    bench.reassign("t", 4, 2)
    bench.fence(4)
    assert bench.partition("t").adding == (4,)
    assert bench.propose("t", (1, 2)) is ErrorCode.NONE
    assert bench.partition("t").adding == (4,)
    bench.beat(4)
    assert bench.propose("t", (1, 2, 4)) is ErrorCode.NONE
    assert bench.partition("t").replicas == (4, 2)
