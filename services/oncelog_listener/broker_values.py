"""The configs of a node as DescribeConfigs returns them: what is set, what nodes published, what the metadata shows."""

from collections.abc import Mapping
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.rpc.metadata import ALL_BROKERS, MetadataImage
from oncelog.topic_config import TOPIC_CONFIGS
from oncelog_listener.brokers import brokers_for
from oncelog_listener.call import Call
from oncelog_listener.core.config_entries import BrokerValues
from oncelog_listener.core.endpoints import printed

_REPLICAS_OF_NEW_TOPICS_MAX: Final = 3


def broker_values(call: Call, node: pb.Node) -> BrokerValues:
    image = call.cluster.image
    return BrokerValues(
        of_node=image.broker_configs(str(node.node_id)),
        of_all=image.broker_configs(ALL_BROKERS),
        of_process={
            **of_roles(image),
            **node.configs,
            **_internal_topics(image),
            **_identity(call, node),
        },
    )


def of_roles(image: MetadataImage) -> dict[str, str]:
    """Return the configs that the nodes of all roles have published. If two nodes publish one key, the value of the
    lower node id counts."""
    found: dict[str, str] = {}
    for node_id in sorted(image.nodes, reverse=True):
        found.update(image.nodes[node_id].configs)
    return found


def _identity(call: Call, node: pb.Node) -> dict[str, str]:
    image = call.cluster.image
    found = {
        "broker.id": str(node.node_id),
        "node.id": str(node.node_id),
        "process.roles": _process_roles(node),
        "default.replication.factor": str(
            max(1, min(_REPLICAS_OF_NEW_TOPICS_MAX, len(_nodes_with(image, pb.ROLE_STORAGE))))
        ),
    }
    if node.rack:
        found["broker.rack"] = node.rack
    shown = [one for one in brokers_for(call).all if one.node_id == node.node_id]
    if shown:
        found["advertised.listeners"] = printed(
            {call.session.listener: (shown[0].host, shown[0].port)}
        )
    if node.node_id == call.cluster.node_id:
        endpoints = call.cluster.settings.endpoints
        came_in = {call.session.listener: call.session.local.port}
        found["listeners"] = printed(
            {one.name: (one.host, one.port or came_in.get(one.name, 0)) for one in endpoints}
        )
        found["listener.security.protocol.map"] = ",".join(
            f"{one.name}:{one.protocol.value}" for one in endpoints
        )
    return found


def _process_roles(node: pb.Node) -> str:
    roles = []
    if pb.ROLE_LISTENER in node.roles or pb.ROLE_STORAGE in node.roles:
        roles.append("broker")
    if pb.ROLE_CONTROLLER in node.roles:
        roles.append("controller")
    return ",".join(roles)


def _nodes_with(image: MetadataImage, role: pb.Role) -> list[int]:
    return [node.node_id for node in image.nodes.values() if role in node.roles]


def _internal_topics(image: MetadataImage) -> Mapping[str, str]:
    """Return the configs about the internal topics (partitions, replication), read from the topics as they are.
    Settings count only when a topic is created."""
    found: dict[str, str] = {}
    for topic_name, prefix in (
        (TRANSACTION_STATE_TOPIC, "transaction.state.log"),
        (CONSUMER_OFFSETS_TOPIC, "offsets.topic"),
    ):
        topic = image.topics.get(topic_name)
        if topic is None or not topic.partitions:
            continue
        found[f"{prefix}.num.partitions"] = str(len(topic.partitions))
        found[f"{prefix}.replication.factor"] = str(len(topic.partitions[0].replicas))
        found[f"{prefix}.segment.bytes"] = topic.configs.get(
            "segment.bytes", TOPIC_CONFIGS["segment.bytes"].default
        )
        if topic_name == TRANSACTION_STATE_TOPIC:
            found[f"{prefix}.min.isr"] = topic.configs.get("min.insync.replicas", "1")
    return found
