"""Since when nodes, partitions and shards are as they should not be, by the changes of the metadata image."""

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower
from oncelog_gateway.core.trouble import Since
from oncelog_gateway.image_watch import ImageWatch


class StandingClock:
    def __init__(self):
        self.time_ms = 1_000

    def now(self):
        return self.time_ms

    def advance(self, milliseconds):
        self.time_ms += milliseconds


def topic(name, *partitions):
    """Each: leader, replicas in sync of 1 and 2."""
    return pb.Topic(
        name=name,
        partitions=[
            pb.Partition(partition=number, leader=leader, replicas=[1, 2], isr=isr)
            for number, (leader, isr) in enumerate(partitions)
        ],
    )


def watched(**snapshot):
    clock = StandingClock()
    follower = MetadataFollower(1, None)
    watch = ImageWatch(follower, clock)
    follower.apply_update(
        pb.MetadataUpdate(metadata_offset=1, snapshot=pb.MetadataSnapshot(**snapshot))
    )
    return clock, follower, watch


def change(follower, **delta):
    follower.apply_update(
        pb.MetadataUpdate(
            metadata_offset=follower.image.metadata_offset + 1, delta=pb.MetadataDelta(**delta)
        )
    )


def test_what_was_so_at_first_is_so_for_at_least_that_long():
    clock, _, watch = watched(
        nodes=[pb.Node(node_id=2, fenced=True, roles=[pb.ROLE_STORAGE])],
        topics=[topic("orders", (-1, [2]), (1, [1]))],
    )
    clock.advance(60_000)
    (node,) = watch.fenced()
    assert (node.name, node.what, node.since) == ("node 2", "storage", Since(60_000, True))
    (leaderless,) = watch.leaderless()
    assert (leaderless.name, leaderless.nodes) == ("orders-0", (1, 2))
    (behind,) = watch.behind()
    assert (behind.name, behind.nodes) == ("orders-1", (2,))


def test_a_change_that_was_seen_is_known_exactly():
    clock, follower, watch = watched(
        nodes=[pb.Node(node_id=2)],
        topics=[topic("orders", (1, [1, 2])), topic("mail", (1, [1]))],
    )
    clock.advance(5_000)
    change(follower, topics=[topic("orders", (1, [1]))], nodes=[pb.Node(node_id=2, fenced=True)])
    clock.advance(1_000)
    change(follower, nodes=[pb.Node(node_id=3)])
    assert [one.since for one in watch.behind()] == [Since(6_000, True), Since(1_000)]
    assert [one.since for one in watch.fenced()] == [Since(1_000)]
    change(follower, topics=[topic("orders", (1, [1, 2]))], nodes=[pb.Node(node_id=2)])
    assert [one.name for one in watch.behind()] == ["mail-0"]
    assert not watch.fenced()
    change(follower, removed_topics=["mail"])
    assert not watch.behind()


def test_a_new_snapshot_forgets_nothing_that_still_holds():
    clock, follower, watch = watched(topics=[topic("orders", (1, [1, 2]))])
    change(follower, topics=[topic("orders", (-1, [1]))])
    clock.advance(7_000)
    again = pb.MetadataSnapshot(topics=[topic("orders", (-1, [1]))])
    follower.apply_update(pb.MetadataUpdate(metadata_offset=9, snapshot=again))
    assert [one.since for one in watch.leaderless()] == [Since(7_000)]


def test_shards_without_a_coordinator_are_named_together():
    clock, follower, watch = watched(
        shards=[pb.Shard(kind=TRANSACTION, shard=one, coordinator=4) for one in range(4)]
    )
    for one in (0, 1, 3):
        change(follower, shards=[pb.Shard(kind=TRANSACTION, shard=one, coordinator=-1)])
        clock.advance(1_000)
    change(follower, shards=[pb.Shard(kind=GROUP, shard=7, coordinator=-1)])
    found = watch.unowned()
    assert [one.name for one in found] == ["transaction shards 0–1, 3", "group shards 7"]
    assert [one.since for one in found] == [Since(3_000), Since(0)]
