"""Which process of a cluster has a duty now."""

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, shard_of
from oncelog.rpc.metadata import GROUP, TRANSACTION
from oncelog_server.cluster.plan import CONTROLLER
from oncelog_server.cluster.view import is_active, read_image


def image_of(cluster):
    """As the active controller has it: a standby's may be of yesterday, and name a victim that does nothing."""
    addresses = [one.rpc_address for one in cluster.of_role(CONTROLLER)]
    return read_image([one for one in addresses if is_active(one, cluster.tls)], cluster.tls)


def coordinator_of(cluster, transactional_id):
    return _shard_owner(cluster, TRANSACTION, transactional_id)


def group_coordinator(cluster, group):
    return _shard_owner(cluster, GROUP, group)


def _shard_owner(cluster, kind, name):
    return name_of(cluster, image_of(cluster).shard_for(kind, name).coordinator)


def leader_of(cluster, topic, partition=0):
    return name_of(cluster, image_of(cluster).topics[topic].partitions[partition].leader)


def leader_of_the_groups_shard(cluster, group):
    number = shard_of(group, image_of(cluster).shard_count(GROUP))
    return leader_of(cluster, CONSUMER_OFFSETS_TOPIC, number)


def active_controller(cluster):
    return next(
        one.name for one in cluster.of_role(CONTROLLER) if is_active(one.rpc_address, cluster.tls)
    )


def name_of(cluster, node_id):
    return next(one.name for one in cluster.members if one.node_id == node_id)
