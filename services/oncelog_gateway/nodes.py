"""Nodes as REST shows and changes them: what they lead and own, draining, and removal from the metadata."""

from collections import Counter
from typing import Final, TypeVar

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataImage
from oncelog.wording import counted
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.node_resources import ControllerStatus, NodeChange, NodePage, NodeStatus
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import ClusterNode, paged, resource_of
from oncelog_gateway.roles import Roles

NodeT = TypeVar("NodeT", bound=ClusterNode)

SHOWN_PARTITIONS_MAX: Final = 10
_MOVING_ROLES: Final = {
    pb.ROLE_STORAGE: "storage node, and nothing could lead its partitions",
    pb.ROLE_COORDINATOR: "coordinator, and nothing could own its shards",
}
"""Roles whose duties a drain moves to another node, and the text of what is wrong when there is no other node."""


class Duties:
    """The numbers of partition leaders, replicas and shards on each node, counted once for one answer. Node -1 stands
    for those that have no node.
    """

    def __init__(self, image: MetadataImage) -> None:
        partitions = [one for topic in image.topics.values() for one in topic.partitions]
        self.leaders = Counter(one.leader for one in partitions)
        self.replicas = Counter(node_id for one in partitions for node_id in one.replicas)
        self.shards = Counter(
            (kind, shard.coordinator) for (kind, _), shard in image.shards.items()
        )


def cluster_node(node: pb.Node, duties: Duties) -> ClusterNode:
    return _shown(ClusterNode, node, duties)


class Nodes:
    """Reads nodes from this process's metadata image, and changes them through the controller. Every change is audited.

    Every method raises KafkaError.
    """

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def list(self, paging: PageRequest) -> NodePage:
        """Return a page of nodes. They are read from the metadata image, so they are shown also while no controller
        answers.
        """
        controller, failures = None, list[KafkaError]()
        try:
            controller = _controller(await self._roles.describe_controller())
        except KafkaError as error:
            failures.append(error)
        image = self._roles.image
        duties = Duties(image)
        page, about = paged(tuple(image.nodes), lambda node_id: (node_id,), paging, failures)
        return NodePage(
            controller=controller,
            nodes=[_status(image, image.nodes[one], duties) for one in page],
            **about,
        )

    def describe(self, node_id: int) -> NodeStatus:
        image = self._roles.image
        return _status(image, self._known(node_id), Duties(image))

    async def drain(self, operator: Operator, node_id: int) -> NodeChange:
        """Drain a node. Returns once it is draining; what it leads and owns moves from then on."""
        async with self._audit.attempt(operator, "drain_node", {"node_id": node_id}) as attempt:
            node = self._known(node_id)
            if not node.draining:
                self._raise_if_last(node)
            await self._roles.drain_node(node_id, cancel=False)
            attempt.detail = f"node {node_id} is draining"
        return NodeChange(node=self.describe(node_id), audit_id=attempt.audit_id)

    async def undrain(self, operator: Operator, node_id: int) -> NodeChange:
        """End the drain of a node. Nothing happens to a node that is not draining."""
        async with self._audit.attempt(operator, "undrain_node", {"node_id": node_id}) as attempt:
            self._known(node_id)
            await self._roles.drain_node(node_id, cancel=True)
            attempt.detail = f"node {node_id} is not draining"
        return NodeChange(node=self.describe(node_id), audit_id=attempt.audit_id)

    async def remove(self, operator: Operator, node_id: int) -> None:
        """Remove a node from the metadata. While it hosts replicas or runs, this is refused, and the error says what to
        do first.
        """
        async with self._audit.attempt(operator, "remove_node", {"node_id": node_id}) as attempt:
            node = self._known(node_id)
            self._raise_if_it_hosts(node_id)
            if not node.fenced:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"node {node_id} is running; stop its process first",
                )
            await self._roles.remove_node(node_id)
            attempt.detail = f"node {node_id} is forgotten"

    def _known(self, node_id: int) -> pb.Node:
        require_node(self._roles.image, node_id)
        return self._roles.image.nodes[node_id]

    def _raise_if_last(self, node: pb.Node) -> None:
        for role in node.roles:
            if role in _MOVING_ROLES and not _staying(self._roles.image, role) - {node.node_id}:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"without node {node.node_id} there is no live {_MOVING_ROLES[role]}; "
                    "start another one first",
                )

    def _raise_if_it_hosts(self, node_id: int) -> None:
        image = self._roles.image
        hosted = [
            (Partition(name, one.partition), list(one.replicas))
            for name in sorted(image.topics)
            for one in image.topics[name].partitions
            if node_id in one.replicas
        ]
        if not hosted:
            return
        names = ", ".join(str(partition) for partition, _ in hosted[:SHOWN_PARTITIONS_MAX])
        more = ", …" if len(hosted) > SHOWN_PARTITIONS_MAX else ""
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"node {node_id} has replicas of {counted(len(hosted), 'partition')} ({names}{more}); "
            f"move each away first, {_how_to_move(image, node_id, *hosted[0])}",
        )


def _how_to_move(
    image: MetadataImage, node_id: int, partition: Partition, replicas: list[int]
) -> str:
    """Return the command that moves this partition off the node, to the node with the fewest replicas."""
    counts = Duties(image).replicas
    free = _staying(image, pb.ROLE_STORAGE) - frozenset(replicas)
    kept = [one for one in replicas if one != node_id]
    if free:
        heir = min(sorted(free), key=counts.__getitem__)
        target = [heir if one == node_id else one for one in replicas]
    elif kept:
        target = kept
    else:
        return "but no other storage node is there: start one"
    wanted = ",".join(map(str, target))
    return (
        f"for example: oncelog partitions reassign {partition.topic}-{partition.partition} "
        f"--replicas {wanted}"
    )


def _staying(image: MetadataImage, role: pb.Role) -> set[int]:
    """Return the nodes of this role that are in service and not draining."""
    return {
        node_id
        for node_id, node in image.nodes.items()
        if role in node.roles and not node.fenced and not node.draining
    }


def _is_drained(image: MetadataImage, node: pb.Node) -> bool:
    """True if the node is draining and has nothing left that another node could take: no shard, and no leadership."""
    if not node.draining:
        return False
    if _staying(image, pb.ROLE_COORDINATOR) and any(
        shard.coordinator == node.node_id for shard in image.shards.values()
    ):
        return False
    others = _staying(image, pb.ROLE_STORAGE)
    return not any(
        one.leader == node.node_id and not others.isdisjoint(one.replicas)
        for topic in image.topics.values()
        for one in topic.partitions
    )


def _status(image: MetadataImage, node: pb.Node, duties: Duties) -> NodeStatus:
    return _shown(NodeStatus, node, duties, drained=_is_drained(image, node))


def require_node(image: MetadataImage, node_id: int) -> None:
    """Raise KafkaError(BROKER_ID_NOT_REGISTERED) unless the node exists."""
    if node_id not in image.nodes:
        known = ", ".join(map(str, sorted(image.nodes)))
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {node_id}; the nodes are {known}"
        )


def role_names(node: pb.Node) -> list[str]:
    """Return the names of a node's roles as REST and metrics write them, such as `marker_sender`."""
    return [pb.Role.Name(role).removeprefix("ROLE_").lower() for role in node.roles]


def _shown(kind: type[NodeT], node: pb.Node, duties: Duties, **given: object) -> NodeT:
    return resource_of(
        kind,
        node,
        roles=role_names(node),
        rpc_address=node.rpc_address or None,
        # Port 0 was taken by an embedded node that registered before it knew which port it would get.
        kafka_address=f"{node.kafka_host}:{node.kafka_port}" if node.kafka_port else None,
        rack=node.rack or None,
        leader_count=duties.leaders[node.node_id],
        replica_count=duties.replicas[node.node_id],
        transaction_shard_count=duties.shards[TRANSACTION, node.node_id],
        group_shard_count=duties.shards[GROUP, node.node_id],
        **given,
    )


def _controller(answer: pb.DescribeControllerResponse) -> ControllerStatus:
    has_lease = bool(answer.active_rpc_address)
    return resource_of(
        ControllerStatus,
        answer,
        controller_id=answer.active_node_id,
        rpc_address=answer.active_rpc_address or None,
        lease_remaining_ms=answer.lease_remaining_ms if has_lease else None,
    )
