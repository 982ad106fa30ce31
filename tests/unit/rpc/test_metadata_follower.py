"""The image moves forward only, and wakes the tasks that wait for it."""

import asyncio

import pytest

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.metadata import MetadataFollower, MetadataImage


def snapshot(offset, *node_ids, cluster_id="one"):
    nodes = [pb.Node(node_id=node_id) for node_id in node_ids]
    return pb.MetadataUpdate(
        metadata_offset=offset, snapshot=pb.MetadataSnapshot(cluster_id=cluster_id, nodes=nodes)
    )


def delta(offset, *node_ids, removed=()):
    nodes = [pb.Node(node_id=node_id) for node_id in node_ids]
    return pb.MetadataUpdate(
        metadata_offset=offset, delta=pb.MetadataDelta(nodes=nodes, removed_nodes=removed)
    )


def follower():
    seen = []
    made = MetadataFollower(1, None)
    made.on_change(lambda old, new: seen.append((old.metadata_offset, new.metadata_offset)))
    return made, seen


def test_updates_are_told_with_the_image_before():
    made, seen = follower()
    for update in (snapshot(3, 1), delta(4, 2), delta(6, removed=[1]), snapshot(9, 5)):
        made.apply_update(update)
    assert seen == [(-1, 3), (3, 4), (4, 6), (6, 9)]
    assert list(made.image.nodes) == [5]


@pytest.mark.parametrize("late", [snapshot(4, 1), delta(5, 1), delta(2, 1)])
def test_what_is_behind_is_ignored(late):
    made, seen = follower()
    made.apply_update(snapshot(5, 7))
    made.apply_update(late)
    assert list(made.image.nodes) == [7]
    assert len(seen) == 1


def claim(offset, controller, epoch, incarnation_id):
    own = {"controller": controller, "controller_epoch": epoch}
    found = pb.MetadataDelta(**own, controller_incarnation_id=incarnation_id)
    return pb.MetadataUpdate(metadata_offset=offset, delta=found)


def test_an_older_controller_is_not_taken_for_the_one_before():
    """It does not say its incarnation: what it writes is not in the other's part of the journal (ADR 0027)."""
    made, _ = follower()
    for update, incarnation_id in (
        (snapshot(3, 1), ""),
        (claim(4, 1, 7, "one-7"), "one-7"),
        (delta(5, 2), "one-7"),
        (claim(6, 2, 8, ""), ""),
        (delta(7, 3), ""),
        (claim(8, 1, 9, "one-9"), "one-9"),
    ):
        made.apply_update(update)
        assert made.image.controller_incarnation_id == incarnation_id, update
    assert (made.image.controller, made.image.controller_epoch) == (1, 9)


def test_another_cluster_begins_anew():
    made, _ = follower()
    made.apply_update(snapshot(5, 7))
    made.apply_update(snapshot(2, 8, cluster_id="two"))
    assert list(made.image.nodes) == [8]


async def test_waiting_for_what_the_image_holds():
    made, _ = follower()
    waits = asyncio.create_task(made.wait_for(lambda image: 2 in image.nodes, 20))
    made.apply_update(snapshot(1, 1))
    await asyncio.sleep(0)
    assert not waits.done()
    made.apply_update(delta(2, 2))
    await waits
    with pytest.raises(TimeoutError):
        await made.wait_until(3, 0.01)


def test_the_longest_transaction_is_what_coordinators_published():
    def node(node_id, role, **configs):
        return pb.Node(node_id=node_id, roles=[role], configs=configs)

    def longest(*nodes):
        return MetadataImage(nodes={one.node_id: one for one in nodes}).transaction_max_timeout_ms

    hour = {"transaction.max.timeout.ms": "3600000"}
    minute = {"transaction.max.timeout.ms": "60000"}
    assert longest() == 900_000
    assert longest(node(1, pb.ROLE_COORDINATOR), node(2, pb.ROLE_COORDINATOR, **hour)) == 3_600_000
    assert longest(node(1, pb.ROLE_COORDINATOR), node(2, pb.ROLE_COORDINATOR, **minute)) == 900_000
    assert longest(node(1, pb.ROLE_COORDINATOR, **minute), node(2, pb.ROLE_STORAGE)) == 60_000
