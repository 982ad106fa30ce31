"""Who has followed another history of the metadata than the journal has, and what is told to such a node (ADR 0039)."""

from dataclasses import replace

import pytest
from tests.worlds.controller.metadata_cases import SMALL, Bench

from oncelog.errors import ErrorCode
from oncelog.ids import Offset
from oncelog_controller.core.events import AllocateProducerIds, NodeHeartbeat
from oncelog_controller.core.history import NOWHERE, OTHER_HISTORY, MetadataPosition
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import ControllerClaimed, MetadataRestored


@pytest.mark.parametrize(
    ("seen", "is_there"),
    [
        (NOWHERE, True),
        (MetadataPosition(7), True),
        (MetadataPosition(0, 1, "a"), True),
        (MetadataPosition(2, 1, "a"), True),
        (MetadataPosition(3, 1, "a"), False),
        (MetadataPosition(9, 1, "a"), False),
        (MetadataPosition(3, 4, "b"), True),
        (MetadataPosition(4, 4, "b"), True),
        (MetadataPosition(5, 4, "b"), False),
        (MetadataPosition(4, 4, "c"), False),
        (MetadataPosition(2, 2, "c"), False),
        # It wrote before the oldest claim that is remembered.
        (MetadataPosition(2, 0, "c"), True),
    ],
    ids=str,
)
def test_a_history_is_told_by_its_claims(seen, is_there):
    image = ClusterImage()
    records = [ControllerClaimed(1, 1, "a"), *[MetadataRestored(1)] * 2]
    records += [ControllerClaimed(2, 4, "b"), MetadataRestored(1)]
    for offset, record in enumerate(records):
        image.apply(Offset(offset), record)
    assert image.has(seen) is is_there
    assert image.has(image.position)


def test_a_controller_that_leads_again_is_in_its_own_history():
    image = ClusterImage()
    for offset, (epoch, controller) in enumerate([(1, "a"), (2, "b"), (3, "a")]):
        image.apply(Offset(2 * offset), ControllerClaimed(2 * offset, epoch, controller))
        image.apply(Offset(2 * offset + 1), MetadataRestored(1))
        assert image.has(image.position)
    assert not image.has(MetadataPosition(3, 3, "a")), "another controller wrote there"


@pytest.fixture
def older():
    """Metadata that was put back, and has grown beyond what the nodes had seen of the newer; and that position."""
    newer = Bench(SMALL)
    newer.join(11, "storage", "coordinator")
    older = Bench(replace(SMALL, controller_epoch=2, incarnation_id="restarted"))
    for offset, record in enumerate(newer.records):
        older.machine.apply(Offset(offset), record)
    older.records += newer.records
    newer.create("orders", (11,))
    for number in range(5):
        older.create(f"other-{number}", (11,))
    assert older.image.metadata_offset > newer.image.metadata_offset
    return older, newer.image.position


@pytest.mark.parametrize("node_id", [11, 12], ids=["known", "not known"])
def test_a_node_of_another_history_is_told_so(older, node_id):
    bench, seen = older
    answer = bench.ask(NodeHeartbeat, node_id, bench.image.nodes[11].node_epoch, seen=seen)
    assert answer.error_code is OTHER_HISTORY
    assert f"the metadata is older than node {node_id}, or of another history" in answer.message
    assert "docs/backup.md" in answer.message
    own = bench.ask(NodeHeartbeat, 11, bench.image.nodes[11].node_epoch, seen=bench.image.position)
    assert own.error_code is ErrorCode.NONE


def test_a_node_of_another_history_is_given_nothing(older):
    bench, seen = older
    node_epoch = bench.image.nodes[11].node_epoch
    refused = bench.ask(AllocateProducerIds, 11, node_epoch, seen)
    assert (refused.error_code, refused.first_producer_id) == (ErrorCode.NOT_CONTROLLER, -1)
    assert bench.image.next_producer_id == 0
    assert bench.propose("other-0", [11], seen=seen) is ErrorCode.NOT_CONTROLLER
    given = bench.ask(AllocateProducerIds, 11, node_epoch, bench.image.position)
    assert given.error_code is ErrorCode.NONE
