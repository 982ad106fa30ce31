"""The check that a simulated cluster has settled: nothing is open, no process is missing, no replica is behind."""

from collections.abc import Collection
from typing import Any, Protocol

from oncelog.rpc.metadata import GROUP, TOPIC_OF_KIND, TRANSACTION, MetadataImage
from oncelog_coordinator.core.shard_machine import ShardMachine
from oncelog_coordinator.wiring import CoordinatorRole
from oncelog_robustness.simulator.process import ProcessState, SimProcess
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.wiring import StorageRole


class Inspected(Protocol):
    """The part of a simulated cluster that the check needs whether everything has settled."""

    @property
    def members(self) -> Any:
        """The members of the cluster by name, each with its `node_id`."""
        ...

    def names(self, role: str) -> list[str]: ...

    def running(self, role: str) -> list[tuple[SimProcess, Any]]: ...


def unsettled(cluster: Inspected) -> str | None:
    """Return in a few words what a cluster has not settled yet: a missing process, an open transaction, a
    replica that is behind. None: everything has settled."""
    for role in ("controller", "storage", "coordinator", "marker-sender", "listener"):
        running = [
            process for process, _ in cluster.running(role) if process.state is ProcessState.RUNNING
        ]
        if len(running) < len(cluster.names(role)):
            return f"a {role} does not run"
    storage: list[tuple[SimProcess, StorageRole]] = cluster.running("storage")
    nodes = {node_id_of(cluster, process): role for process, role in storage}
    image = newest_image(nodes.values())
    return _unsettled_shard(cluster, image) or _unsettled_partition(image, nodes)


def node_id_of(cluster: Inspected, process: SimProcess) -> int:
    node_id: int = cluster.members[process.name].node_id
    return node_id


def newest_image(roles: Collection[StorageRole]) -> MetadataImage:
    return max((role.image for role in roles), key=lambda one: one.metadata_offset)


def _unsettled_shard(cluster: Inspected, image: MetadataImage) -> str | None:
    active: set[tuple[int, int, int, int]] = set()
    coordinators: list[tuple[SimProcess, CoordinatorRole]] = cluster.running("coordinator")
    for process, role in coordinators:
        node_id = node_id_of(cluster, process)
        for term, driver in role.shards.active():
            active.add((TRANSACTION, term.shard, node_id, term.coordinator_epoch))
            assert isinstance(driver.machine, ShardMachine), driver.machine
            for txn in driver.machine.txn.transactions:
                if not txn.state.is_idle:
                    return f"{txn.transactional_id} is {txn.state.kafka_name}"
            if driver.machine.sink.oldest_open_attempt_ms() is not None:
                return f"a sink of shard {term.shard} has an open attempt"
        for group_term, _ in role.group_shards.active():
            active.add((GROUP, group_term.shard, node_id, group_term.coordinator_epoch))
    for (kind, number), shard in sorted(image.shards.items()):
        if (kind, number, shard.coordinator, shard.coordinator_epoch) not in active:
            return f"{TOPIC_OF_KIND[kind]}-{number} is not active"
    return None


def _unsettled_partition(image: MetadataImage, nodes: dict[int, StorageRole]) -> str | None:
    all_hosted = {
        (node_id, *hosted.partition): hosted
        for node_id, role in nodes.items()
        for hosted in role.replicas()
    }
    for topic in image.topics.values():
        for number, found in enumerate(topic.partitions):
            name = f"{topic.name}-{number}"
            if found.leader < 0 or set(found.isr) != set(found.replicas):
                return f"{name} has leader {found.leader} and in-sync replicas {sorted(found.isr)}"
            leading = all_hosted.get((found.leader, topic.name, number))
            for node_id in found.replicas:
                sentence = _behind(leading, all_hosted.get((node_id, topic.name, number)))
                if sentence:
                    return f"{name} on node {node_id} {sentence}"
    return None


def _behind(leading: HostedPartition | None, hosted: HostedPartition | None) -> str | None:
    if leading is None:
        return None if hosted is None or hosted.log.log_end_offset == 0 else "has no leader"
    end_offset = leading.log.log_end_offset
    if not leading.leadership.is_here:
        return "does not know yet who leads"
    if leading.last_stable_offset != end_offset:
        return f"has LSO {leading.last_stable_offset} of {end_offset}"
    if hosted is None:
        return None if end_offset == 0 else "is not there yet"
    if hosted.offline is not None:
        return "is damaged"
    if (hosted.log.log_end_offset, hosted.high_watermark) != (end_offset, end_offset):
        return f"has {hosted.high_watermark} of {end_offset}"
    return None
