"""Which folders and which metadata belong together (ADR 0027)."""

from dataclasses import replace

import pytest
from tests.worlds.controller.metadata_cases import SMALL, Bench

from oncelog.errors import ErrorCode
from oncelog.ids import Offset
from oncelog_controller.core.events import Folder, NodeHeartbeat
from oncelog_controller.core.history import MetadataPosition
from oncelog_controller.core.image import CLAIMS_MAX, ClusterImage
from oncelog_controller.core.machine import MetadataMachine
from oncelog_controller.core.records import (
    ControllerClaimed,
    MetadataRestored,
    ProducerIdsAllocated,
    Snapshot,
)

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def bench():
    found = Bench(replace(SMALL, bootstrap_storage_nodes=3))
    for node_id in (11, 12, 13):
        found.join(node_id, "storage", "coordinator")
    return found


def again(bench, node_id, folder, incarnation_id="second"):
    """The process of this node was killed, and another one registers with this folder."""
    roles = ("storage", "coordinator")
    return bench.register(
        node_id, incarnation_id, roles, rpc_address=f"node-{node_id}:1", folder=folder
    )


def seen(bench, *incarnation_ids, **fields):
    """The folder of a node that has seen everything."""
    image = bench.image
    accepts_loss = fields.pop("accepts_loss", False)
    return Folder(incarnation_ids, replace(image.position, **fields), accepts_loss)


def test_a_node_that_comes_back_with_its_folder_keeps_its_place(bench):
    bench.create("orders", (11, 12))
    bench.fence(11, 12, 13)
    assert again(bench, 11, seen(bench, "first")).error_code is ErrorCode.NONE
    assert bench.partition("orders").isr == (11, 12)
    # A start that registered and was killed before its answer, and one that never registered.
    tried = seen(bench, "first", "second", "third")
    assert again(bench, 11, tried, "fourth").error_code is ErrorCode.NONE
    assert bench.partition("orders").isr == (11, 12)


@pytest.mark.parametrize("incarnation_ids", [(), ("zeroth",)])
def test_another_folder_leaves_every_isr_that_has_somebody_else(bench, incarnation_ids):
    bench.create("orders", (11, 12))
    for internal in ("__transaction_state", "__consumer_offsets"):
        assert bench.partition(internal).isr == (11, 12, 13)
    # All were stopped together, so all stayed in the ISR.
    bench.fence(11, 12, 13)
    assert bench.partition("orders").isr == (11, 12)
    assert again(bench, 11, seen(bench, *incarnation_ids)).error_code is ErrorCode.NONE
    bench.beat(11)
    assert bench.partition("orders").isr == (12,)
    assert bench.partition("orders").leader == -1
    assert again(bench, 12, seen(bench, "first")).error_code is ErrorCode.NONE
    bench.beat(12)
    assert bench.partition("orders").leader == 12
    assert bench.replayed().image.topics == bench.image.topics


def test_another_folder_of_the_last_in_sync_is_refused(bench):
    bench.create("alone", (11,))
    refused = again(bench, 11, seen(bench, "zeroth"))
    assert refused.error_code is REFUSED
    assert "older than the metadata" in refused.message
    assert "alone-0" in refused.message
    assert "oncelog storage accept-loss" in refused.message
    assert "is empty, and was not" in again(bench, 11, seen(bench)).message
    accepted = again(bench, 11, seen(bench, accepts_loss=True))
    assert accepted.error_code is ErrorCode.NONE
    assert bench.partition("alone").isr == (11,)


def test_a_node_without_a_word_of_its_folder_is_not_judged(bench):
    bench.create("alone", (11,))
    assert again(bench, 11, None).error_code is ErrorCode.NONE


def test_older_metadata_is_refused_to_a_known_process_too(bench):
    further = seen(bench, "first", metadata_offset=bench.image.metadata_offset + 1)
    refused = again(bench, 11, further, "first")
    assert refused.error_code is REFUSED
    assert "the metadata is older than the folder of node 11" in refused.message
    assert again(bench, 11, seen(bench, "first")).error_code is ErrorCode.NONE


def test_metadata_that_left_the_folder_behind_is_told_apart(bench):
    """Of two histories from one backup each has its own controllers."""
    other = Bench(SMALL)
    other.records = list(bench.records)
    other.machine = bench.replayed()
    claim = ControllerClaimed(1, 2, "controller-b")
    apply(bench, claim, MetadataRestored(1), MetadataRestored(1))
    folder = seen(bench, "first")
    apply(other, ControllerClaimed(1, 2, "controller-c"), *[MetadataRestored(1)] * 9)
    assert other.image.metadata_offset > folder.seen.metadata_offset
    assert again(other, 11, folder).error_code is REFUSED
    assert again(bench, 11, folder).error_code is ErrorCode.NONE
    # What was written under a controller that both know, but behind the point where they part.
    behind = seen(
        bench,
        "first",
        metadata_offset=len(other.records),
        controller_epoch=1,
        controller_incarnation_id="controller-a",
    )
    assert again(other, 11, behind).error_code is REFUSED


def apply(bench, *records):
    for record in records:
        bench.machine.apply(Offset(len(bench.records)), record)
        bench.records.append(record)


def test_claims_are_bounded_and_survive_a_snapshot(bench):
    old = seen(bench, "first")
    first = bench.image.controller_epoch + 1
    claims = [ControllerClaimed(1, first + one, f"later-{one}") for one in range(CLAIMS_MAX + 5)]
    apply(bench, *claims)
    apply(bench, Snapshot(bench.image.to_state()))
    assert len(bench.image.claims) == CLAIMS_MAX
    assert bench.replayed().image.claims == bench.image.claims
    restored = ClusterImage()
    restored.apply(Offset(len(bench.records) - 1), bench.records[-1])
    assert restored.claims == bench.image.claims
    assert again(bench, 11, old).error_code is ErrorCode.NONE
    # A new database knows no claim at all.
    fresh = Bench(SMALL)
    assert again(fresh, 11, old).error_code is REFUSED


def test_a_node_of_an_old_version_that_knows_more_registers(bench):
    def beat(node_id):
        known = bench.image.nodes[node_id]
        further = MetadataPosition(bench.image.metadata_offset + 1)
        return bench.ask(NodeHeartbeat, node_id, known.node_epoch, seen=further)

    assert beat(11).error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
    bench.join(21, "coordinator")
    assert beat(21).error_code is ErrorCode.NONE


def test_after_a_restore_all_that_is_counted_goes_on_further(bench):
    bench.create("orders", (11, 12))
    before = bench.image.copy()
    block = ProducerIdsAllocated(before.next_producer_id, 5000, -1, -1)
    apply(bench, block, MetadataRestored(1000))
    after = bench.image
    assert after.next_producer_id == before.next_producer_id + 5000
    assert after.next_node_epoch == before.next_node_epoch + 1000
    for name, topic in before.topics.items():
        for old, new in zip(topic.partitions, after.topics[name].partitions, strict=True):
            assert new == replace(
                old,
                leader_epoch=old.leader_epoch + 1000,
                partition_epoch=old.partition_epoch + 1000,
            )
    for key, shard in before.shards.items():
        assert after.shards[key].coordinator_epoch == shard.coordinator_epoch + 1000
    machine = MetadataMachine(SMALL)
    machine.apply(Offset(0), Snapshot(after.to_state()))
    assert machine.image.next_node_epoch == after.next_node_epoch
