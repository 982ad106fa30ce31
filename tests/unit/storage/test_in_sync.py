"""When a node that starts has what it missed, as the metadata say."""

from typing import NamedTuple

import pytest
from tests.worlds.storage.partitions import HERE, ORDERS, OTHER, THIRD, Image, Topic

from oncelog_storage.core.in_sync import first_lacking, is_in_sync


class Node(NamedTuple):
    node_epoch: int = 4
    fenced: bool = False
    draining: bool = False


ALL = {HERE: Node(), OTHER: Node(), THIRD: Node()}
LACKING = Image(OTHER, isr=(OTHER, THIRD))


def orders(*partitions: Image) -> dict[str, Topic]:
    return {"orders": Topic(partitions)}


def in_sync(topics: dict[str, Topic], nodes: dict[int, Node] = ALL) -> bool:
    return is_in_sync(nodes, topics, HERE, 4)


def test_a_replica_behind_a_living_leader_is_waited_for():
    assert not in_sync(orders(LACKING))
    assert first_lacking(ALL, orders(LACKING), HERE) == ORDERS
    assert not in_sync(orders(Image(), Image(OTHER), LACKING))


@pytest.mark.parametrize(
    "found",
    [
        Image(),
        Image(OTHER),
        Image(-1, isr=(THIRD,)),
        Image(9, isr=(9,)),
        Image(OTHER, replicas=(OTHER, THIRD), isr=(OTHER,)),
        Image(OTHER, isr=(OTHER,), adding_replicas=(HERE,)),
    ],
    ids=["led here", "in sync", "no leader", "leader unknown", "not here", "being added"],
)
def test_what_cannot_or_need_not_be_in_sync_holds_nobody(found):
    assert in_sync(orders(found))


def test_a_leader_that_is_gone_is_not_waited_for():
    assert in_sync(orders(LACKING), {**ALL, OTHER: Node(fenced=True)})


def test_a_first_start_waits_for_its_own_life_alone():
    assert in_sync({})
    assert not in_sync({}, {})
    assert not in_sync({}, {HERE: Node(fenced=True)})
    assert not in_sync({}, {HERE: Node(node_epoch=3)})


def test_a_node_that_drains_is_let_into_no_isr():
    assert in_sync(orders(LACKING), {**ALL, HERE: Node(draining=True)})
