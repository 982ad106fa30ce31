"""Plans which replicas move where: to empty storage nodes, or to balance what the nodes have.

Neither plan is stored: each is made from the present replicas. So after a part of a plan was carried out, or after
another change, the next plan is what is left to do. A replica that is being copied counts as if it had arrived.

A target is a live storage node that is not draining and does not have the partition. Its rack is one that the partition
is not on yet, if there is such a node; balancing never lessens the number of racks. The replication factor stays.

Evacuation goes partition by partition and takes the node with the fewest replicas. Balancing moves replicas from the
nodes that have most to those that have least, until they differ by one. A node that gives replicas never receives any,
so no move is undone by a later one. Then it evens out preferred leaders (the first replicas) by reordering replicas,
which copies nothing. The node that leads most and the one that leads least may share no partition. So leadership is
handed on along a path of nodes.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.wording import counted

KeyT = TypeVar("KeyT")


@dataclass(frozen=True, slots=True)
class StorageNode:
    node_id: int
    rack: str = ""
    stays: bool = True
    """True if the node lives and is not draining, so that it may be given replicas."""


@dataclass(frozen=True, slots=True)
class Placement:
    """On which nodes a partition has its replicas. If it is being reassigned, these are the nodes after that."""

    partition: Partition
    replicas: tuple[int, ...]
    is_under_way: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    partition: Partition
    replicas: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def copies(self) -> int:
        """The number of replicas that the move must copy; 0 if its target names no new node."""
        return len(set(self.target) - set(self.replicas))


def evacuation(
    placements: Sequence[Placement], nodes: Sequence[StorageNode], leaving: frozenset[int]
) -> list[Move]:
    """Return moves after which no node of `leaving` has a replica. Raises KafkaError(POLICY_VIOLATION)."""
    cluster = _Cluster(placements, [node for node in nodes if node.node_id not in leaving])
    moves = []
    for placement in placements:
        if leaving.isdisjoint(placement.replicas):
            continue
        _raise_if_too_few(placement, cluster.ids, leaving)
        moves.append(
            Move(placement.partition, placement.replicas, cluster.without(placement, leaving))
        )
    return moves


def balance(placements: Sequence[Placement], nodes: Sequence[StorageNode]) -> list[Move]:
    """Return moves after which replicas and preferred leaders are even. Moves that copy come first, those that only
    reorder last.

    Replicas on a node that is fenced or draining stay there, and so do partitions that are being moved.
    """
    cluster = _Cluster(placements, nodes)
    while cluster.even_out_replicas():
        pass
    while cluster.even_out_leaders():
        pass
    moves = [
        Move(one.partition, one.replicas, target)
        for one in placements
        if (target := tuple(cluster.replicas[one.partition])) != one.replicas
    ]
    return sorted(moves, key=lambda move: not move.copies)


def _raise_if_too_few(placement: Placement, ids: Sequence[int], leaving: frozenset[int]) -> None:
    if len(ids) >= len(placement.replicas):
        return
    left = ", ".join(map(str, ids)) or "none"
    raise KafkaError(
        ErrorCode.POLICY_VIOLATION,
        f"{placement.partition} has {counted(len(placement.replicas), 'replica')}, and without "
        f"{', '.join(map(str, sorted(leaving)))} too few storage nodes live and are not draining ({left}); "
        "start more of them first, or leave one of these",
    )


class _Cluster:
    """The placement of all partitions, changed step by step while a plan is made. It counts the replicas and leaders of
    each node that may get replicas.
    """

    def __init__(self, placements: Iterable[Placement], nodes: Iterable[StorageNode]) -> None:
        staying = sorted((one for one in nodes if one.stays), key=lambda one: one.node_id)
        self.ids = [one.node_id for one in staying]
        self.replicas = {one.partition: list(one.replicas) for one in placements}
        self._racks = {one.node_id: one.rack for one in nodes}
        self._pinned = {one.partition for one in placements if one.is_under_way}
        self._load = dict.fromkeys(self.ids, 0)
        self._leads = dict.fromkeys(self.ids, 0)
        self._on: dict[int, dict[str, dict[int, None]]] = {node_id: {} for node_id in self.ids}
        self._preferred: dict[int, dict[Partition, None]] = {node_id: {} for node_id in self.ids}
        self._could_lead: dict[int, Counter[int]] = {node_id: Counter() for node_id in self.ids}
        for partition in self.replicas:
            self._count(partition, 1)

    def _count(self, partition: Partition, sign: int) -> None:
        """Add this partition's replicas to the counts of their nodes (`sign` 1), or subtract them before the partition
        changes (-1).
        """
        replicas = [one for one in self.replicas[partition] if one in self._load]
        for node_id in replicas:
            self._load[node_id] += sign
            numbers = self._on[node_id].setdefault(partition.topic, {})
            _keep(numbers, partition.partition, is_kept=sign > 0)
        first = self.replicas[partition][0]
        if first not in self._load:
            return
        self._leads[first] += sign
        _keep(self._preferred[first], partition, is_kept=sign > 0)
        if partition not in self._pinned:
            for other in replicas[1:]:
                self._could_lead[first][other] += sign

    def _change(self, partition: Partition, replicas: list[int]) -> None:
        self._count(partition, -1)
        self.replicas[partition] = replicas
        self._count(partition, 1)

    # ------------------------------------------------------------------------------------------------ evacuation

    def without(self, placement: Placement, leaving: frozenset[int]) -> tuple[int, ...]:
        """Return the replicas of a partition, where another node replaces each that is on a node of `leaving`."""
        partition = placement.partition
        target = list(placement.replicas)
        for position, node_id in enumerate(target):
            if node_id in leaving:
                # Two of one partition go to two nodes, so the counts may wait for `_change`.
                rest = [one for one in target if one not in leaving]
                target[position] = self._heir(partition.topic, rest)
        if placement.replicas[0] in leaving:
            first = min(target, key=lambda one: (self._leads.get(one, 0), one))
            target.remove(first)
            target.insert(0, first)
        self._change(partition, target)
        return tuple(target)

    def _heir(self, topic: str, rest: Sequence[int]) -> int:
        """Return the node for a new replica of a partition whose other replicas are on the nodes `rest`. A node on
        another rack than these comes first, then the one with the fewest replicas.
        """
        racks = {self._rack(one) for one in rest}

        def rank(node_id: int) -> tuple[bool, int, int, int]:
            of_topic = len(self._on[node_id].get(topic, ()))
            return self._rack(node_id) in racks, self._load[node_id], of_topic, node_id

        return min((one for one in self.ids if one not in rest), key=rank)

    def _rack(self, node_id: int) -> object:
        """Return a node's rack. For a node without one it is a value of its own, as if the node were alone
        in a rack.
        """
        return self._racks.get(node_id) or node_id

    # --------------------------------------------------------------------------------------------------- balance

    def even_out_replicas(self) -> bool:
        """Move replicas from a node that has many to one that has few. False when no such move would help."""
        order = sorted(self.ids, key=lambda one: (self._load[one], one))
        for donor in reversed(order):
            for receiver in order:
                if self._load[donor] - self._load[receiver] < 2:
                    break
                if self._move_some(donor, receiver):
                    return True
        return False

    def _move_some(self, donor: int, receiver: int) -> bool:
        """Move replicas from the node `donor` to `receiver`, at most one of each topic. Return True if any was moved.

        The topics of which the donor has the most replicas more than the receiver come first. The donor never falls
        below the mean number of replicas, and the receiver never rises above it: such a move would have to be undone.
        """
        total, count = sum(self._load.values()), len(self.ids)
        beyond_mean = self._load[donor] - -(-total // count)
        below_mean = total // count - self._load[receiver]
        left = most = max(1, min(beyond_mean, below_mean))
        theirs = self._on[receiver]
        topics = [
            (len(theirs.get(name, ())) - len(its), name) for name, its in self._on[donor].items()
        ]
        for _, topic in sorted(topics):
            partition = self._movable(topic, donor, receiver)
            if partition is None:
                continue
            replicas = self.replicas[partition]
            self._change(partition, [receiver if one == donor else one for one in replicas])
            left -= 1
            if left == 0:
                break
        return left < most

    def _movable(self, topic: str, donor: int, receiver: int) -> Partition | None:
        """Return a partition of the topic to move from `donor` to `receiver`; None: none may move. If the donor leads
        more partitions by far, one that it leads is preferred, otherwise one that it follows.
        """
        gives_lead = self._leads[donor] - self._leads[receiver] > 1
        second_best = None
        for number in self._on[donor][topic]:
            partition = Partition(topic, number)
            if not self._may_move(partition, donor, receiver):
                continue
            if (self.replicas[partition][0] == donor) == gives_lead:
                return partition
            second_best = second_best or partition
        return second_best

    def _may_move(self, partition: Partition, donor: int, receiver: int) -> bool:
        replicas = self.replicas[partition]
        if receiver in replicas or partition in self._pinned:
            return False
        rest = {self._rack(one) for one in replicas if one != donor}
        return self._rack(receiver) not in rest or self._rack(donor) in rest

    def even_out_leaders(self) -> bool:
        """Let a node that leads many partitions lead one less, and another one more, by reordering replicas. Leadership
        may be handed on over nodes in between. Returns False when no such change helps.
        """
        for most in sorted(self.ids, key=lambda one: (-self._leads[one], one)):
            path = self._path_to_fewer(most)
            if path:
                for leader, heir in reversed(list(pairwise(path))):
                    self._hand_over(leader, heir)
                return True
        return False

    def _path_to_fewer(self, most: int) -> list[int]:
        """Return a path of nodes from `most` to one that leads at least two partitions fewer; empty if there is none.
        Each node on it can take over a partition from the node before.
        """
        came_from = {most: most}
        waiting = deque([most])
        while waiting:
            node_id = waiting.popleft()
            if self._leads[most] - self._leads[node_id] > 1:
                path = [node_id]
                while path[-1] != most:
                    path.append(came_from[path[-1]])
                return path[::-1]
            for other in self.ids:
                if other not in came_from and self._could_lead[node_id][other] > 0:
                    came_from[other] = node_id
                    waiting.append(other)
        return []

    def _hand_over(self, leader: int, heir: int) -> None:
        partition = next(
            one
            for one in self._preferred[leader]
            if heir in self.replicas[one] and one not in self._pinned
        )
        replicas = self.replicas[partition]
        self._change(partition, [heir, *(one for one in replicas if one != heir)])


def _keep(keys: dict[KeyT, None], key: KeyT, *, is_kept: bool) -> None:
    if is_kept:
        keys[key] = None
    else:
        del keys[key]
