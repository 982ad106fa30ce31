"""Replicas placed on storage nodes, and what moves make of them."""

from collections import Counter

from oncelog.ids import Partition
from oncelog_gateway.core.replica_moves import Placement, StorageNode


def nodes(*node_ids, away=(), racks=None):
    racks = racks or {}
    return [StorageNode(one, racks.get(one, ""), one not in away) for one in node_ids]


def placed(*replicas, topic="t", **fields):
    return [Placement(Partition(topic, n), tuple(one), **fields) for n, one in enumerate(replicas)]


def after(placements, moves):
    target = {move.partition: move.target for move in moves}
    return [Placement(one.partition, target.get(one.partition, one.replicas)) for one in placements]


def loads(placements):
    return Counter(node_id for one in placements for node_id in one.replicas)


def leads(placements):
    return Counter(one.replicas[0] for one in placements)


def spread(counts, node_ids):
    values = [counts[one] for one in node_ids]
    return max(values) - min(values)
