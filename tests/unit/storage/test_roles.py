"""Which role a partition has on this node, image by image, and what becomes of damaged and stray copies."""

import pytest
from tests.worlds.storage.partitions import (
    HERE,
    NOW,
    ORDERS,
    OTHER,
    THIRD,
    Image,
    Topic,
    append,
    header,
    partition_of,
    with_followers,
)

from oncelog.ids import Partition
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Leadership
from oncelog_storage.core.roles import (
    DamageRole,
    ReplicationMetrics,
    Role,
    Roles,
    RoleStep,
    metrics_of,
    missing_replicas,
)

ALL = (HERE, OTHER, THIRD)


def image(leader=OTHER, **fields):
    return Image(leader, **fields)


def follower() -> PartitionReplica:
    partition = partition_of()
    partition.leadership = Leadership(OTHER, 5, False, 3, 3)
    return partition


def roles() -> Roles[PartitionReplica]:
    return Roles(HERE)


def test_a_follower_is_fetched_once_in_each_leader_epoch():
    mine, partition = roles(), follower()
    assert mine.assign_role(partition, image(), 0.0) == Role(RoleStep.FETCH)
    assert mine.assign_role(partition, image(), 0.0) == Role(RoleStep.NOTHING)
    assert mine.assign_role(partition, image(leader_epoch=6), 0.0) == Role(RoleStep.FETCH, True)


@pytest.mark.parametrize("found", [image(leader=-1), image(replicas=(OTHER,)), None])
def test_without_a_leader_or_a_place_nothing_is_fetched(found):
    mine, partition = roles(), follower()
    mine.assign_role(partition, image(), 0.0)
    assert mine.assign_role(partition, found, 0.0) == Role(RoleStep.NOTHING, True)
    assert mine.assign_role(partition, found, 0.0) == Role(RoleStep.NOTHING)
    assert partition.replicas is None


def test_a_damaged_follower_fetches_nothing():
    mine, partition = roles(), follower()
    partition.offline = "damaged"
    assert mine.follow(partition, image()) == Role(RoleStep.NOTHING)


def test_a_leader_begins_its_epoch_once():
    mine, partition = roles(), with_followers()
    assert mine.assign_role(partition, image(leader=HERE), 0.0) == Role(RoleStep.LEAD)
    newer = image(leader=HERE, leader_epoch=6)
    assert mine.assign_role(partition, newer, 0.0) == Role(RoleStep.LEAD, False, True)


def test_who_becomes_leader_leaves_the_fetcher():
    mine, partition = roles(), follower()
    mine.assign_role(partition, image(), 0.0)
    partition.leadership = Leadership(HERE, 6, True, 3, 3)
    found = image(leader=HERE, leader_epoch=6)
    assert mine.assign_role(partition, found, 0.0) == Role(RoleStep.LEAD, True, True)


def test_a_leader_without_followers_commits_by_itself():
    mine, partition = roles(), with_followers()
    alone = image(leader=HERE, replicas=(HERE,), isr=(HERE,))
    assert mine.assign_role(partition, alone, 0.0) == Role(RoleStep.COMMIT)
    assert partition.replicas is None


def test_a_stray_is_deleted_after_a_while():
    mine, partition = roles(), follower()
    gone = image(replicas=(OTHER, THIRD))
    mine.assign_role(partition, gone, 10.0)
    mine.assign_role(partition, gone, 14.0)
    assert mine.strays(14.9, 5.0) == []
    assert mine.strays(15.0, 5.0) == [partition]
    mine.assign_role(partition, image(), 15.0)
    assert mine.strays(99.0, 5.0) == []
    mine.assign_role(partition, gone, 10.0)
    mine.assign_role(partition, None, 10.0)
    assert mine.strays(99.0, 5.0) == []


def test_replicas_that_the_image_names_are_made():
    old = {"a": Topic((image(),)), "b": Topic((image(),))}
    new = {
        "a": old["a"],
        "b": Topic((image(), image(leader=HERE), image(replicas=(OTHER,)))),
        "c": Topic((image(),)),
    }
    made = list(missing_replicas(old, new, HERE))
    assert made == [Partition("b", 0), Partition("c", 0)]


# Damage.


def test_a_damaged_leader_proposes_once_for_each_image():
    mine, partition = roles(), with_followers()
    found = image(leader=HERE)
    assert mine.after_damage(partition, found, 7) == DamageRole(isr=[OTHER, THIRD])
    assert mine.after_damage(partition, found, 7) == DamageRole()
    again = mine.after_damage(partition, found, 8)
    assert (again.isr, again.was_refused) == ([OTHER, THIRD], True)
    partition.leadership = Leadership(OTHER, 6, False, 3, 3)
    mine.assign_role(partition, image(leader_epoch=6), 0.0)
    partition.lead(HERE, 7, ALL, ALL, 1, 0.0)
    assert not mine.after_damage(partition, image(leader=HERE, leader_epoch=7), 9).was_refused


def test_a_damaged_follower_stops_before_it_copies_again():
    mine, partition = roles(), follower()
    mine.assign_role(partition, image(), 0.0)
    assert mine.after_damage(partition, image(), 7) == DamageRole(leaves_fetcher=True)
    out = image(isr=(OTHER, THIRD))
    assert mine.after_damage(partition, out, 8) == DamageRole(copies_again=True)
    assert mine.after_damage(partition, out, 8) == DamageRole()
    mine.repair_ended(partition)
    assert mine.after_damage(partition, out, 8).copies_again


@pytest.mark.parametrize("found", [None, image(leader=HERE, replicas=(HERE,), isr=(HERE,))])
def test_a_damaged_copy_alone_stays_as_it_is(found):
    assert roles().after_damage(partition_of(), found, 7) == DamageRole()


# What is written down and measured.


def test_high_watermarks_of_replicated_folders_are_kept():
    mine, leads, follows, alone, empty = (
        roles(),
        with_followers(),
        follower(),
        partition_of(),
        with_followers(),
    )
    for each in (leads, follows, alone):
        each.log.exists_on_disk = True
    mine.assign_role(follows, image(), 0.0)
    leads.high_watermark = 3
    assert mine.high_watermarks([leads, alone, empty]) == {ORDERS: 3}
    assert mine.high_watermarks([follows]) == {ORDERS: 0}


def test_metrics_count_what_is_led_here():
    partition = with_followers(isr=(HERE, OTHER))
    append(partition, header(count=4))
    assert partition.replicas is not None
    partition.replicas.followers[OTHER].end_offset = 3
    short = partition_of()
    short.leadership = Leadership(HERE, 5, True, 1, 3)
    short.log.config = short.log.config.__class__(min_insync_replicas=2)
    found = metrics_of([partition, short, follower()], NOW, 1000)
    lag = {("orders", 0, OTHER): 1, ("orders", 0, THIRD): 4}
    assert found == ReplicationMetrics(2, 1, 0, lag)
