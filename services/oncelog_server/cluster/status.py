"""The status of each process of a local cluster: what this machine says of the process, and what a controller says of
its node.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataImage
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.databases import redis_command
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    GATEWAY,
    LISTENER,
    POSTGRES,
    REDIS,
    STORAGE,
    Member,
)
from oncelog_server.cluster.probe import is_serving
from oncelog_server.cluster.view import describe_controller, read_image


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One row of `oncelog cluster status`."""

    name: str
    role: str
    node_id: int | None
    address: str
    metrics_url: str
    """URL of the process's metrics; empty for Postgres, Redis, and processes that do not run."""
    pid: int | None
    state: str
    """State of the process: `ready`, `starting`, `draining`, `fenced`, `paused`, `dead`, `stopped`, or `absent` if it
    is not installed.
    """
    duty: str
    rss_bytes: int


def cluster_status(cluster: Cluster) -> list[ProcessStatus]:
    """Return the status of every process, also of those that do not run. All of them are asked at once."""
    members, tls = cluster.members, cluster.tls
    with ThreadPoolExecutor(len(members) + 1) as pool:
        described = dict(
            zip(
                (member.name for member in cluster.of_role(CONTROLLER)),
                pool.map(
                    lambda member: describe_controller(member.rpc_address, tls),
                    cluster.of_role(CONTROLLER),
                ),
                strict=True,
            )
        )
        by_activity = [cluster.member(name).rpc_address for name in _by_activity(described)]
        image_found = pool.submit(read_image, by_activity, tls)
        states = list(pool.map(lambda member: _state_of(cluster, member), members))
        image = image_found.result()
    rows = [
        _row(cluster, member, _with_node(state, image, member), _duty(member, image, described))
        for member, state in zip(members, states, strict=True)
    ]
    return [
        *rows,
        _database_row(cluster, POSTGRES),
        _database_row(cluster, REDIS),
    ]


def _state_of(cluster: Cluster, member: Member) -> str:
    state = cluster.state_of(member.name)
    if state != "running":
        return state
    return "ready" if is_serving(member.rpc_address, cluster.tls) else "starting"


def _with_node(state: str, image: MetadataImage | None, member: Member) -> str:
    node = image.nodes.get(member.node_id) if image is not None else None
    if node is None or state not in ("ready", "starting"):
        return state
    if node.fenced:
        return "fenced"
    return "draining" if node.draining else state


def _by_activity(described: dict[str, pb.DescribeControllerResponse | None]) -> list[str]:
    """Return the names of the controllers that answered. The active one comes first, because its metadata are the
    newest.
    """
    answered = {name: answer for name, answer in described.items() if answer is not None}
    return sorted(answered, key=lambda name: not answered[name].active)


def _duty(
    member: Member,
    image: MetadataImage | None,
    described: dict[str, pb.DescribeControllerResponse | None],
) -> str:
    if member.role == CONTROLLER.role:
        answer = described[member.name]
        if answer is None:
            return ""
        return f"active, epoch {answer.controller_epoch}" if answer.active else "standby"
    if image is None:
        return ""
    if member.role == STORAGE.role:
        replicas = [
            one
            for topic in image.topics.values()
            for one in topic.partitions
            if member.node_id in one.replicas
        ]
        led = sum(one.leader == member.node_id for one in replicas)
        return f"leads {led} of {len(replicas)}"
    if member.role == COORDINATOR.role:
        owned = Counter(
            kind for (kind, _), shard in image.shards.items() if shard.coordinator == member.node_id
        )
        return f"{owned[TRANSACTION]} tx, {owned[GROUP]} group"
    return {LISTENER.role: "Kafka clients", GATEWAY.role: "REST, console"}.get(
        member.role, "markers"
    )


def _row(cluster: Cluster, member: Member, state: str, duty: str) -> ProcessStatus:
    process = cluster.process(member.name)
    return ProcessStatus(
        name=member.name,
        role=member.role,
        node_id=member.node_id,
        address=member.address,
        metrics_url="" if state in ("dead", "stopped") else member.metrics_url,
        pid=None if process is None else process.pid,
        state=state,
        duty=duty if state not in ("dead", "stopped") else "",
        rss_bytes=0 if process is None else process.rss_bytes,
    )


def _database_row(cluster: Cluster, name: str) -> ProcessStatus:
    """Return the row of Postgres or Redis. It has no address: both listen on a socket in the folder, and on no port."""
    state = cluster.state_of(name)
    process = cluster.process(name)
    duty = "metadata journal" if name == POSTGRES else "event feed"
    if name == REDIS and process is None and redis_command() is None:
        state, duty = "absent", "not installed"
    return ProcessStatus(
        name=name,
        role=name,
        node_id=None,
        address="",
        metrics_url="",
        pid=None if process is None else process.pid,
        state="ready" if state == "running" else state,
        duty=duty,
        rss_bytes=0 if process is None else process.rss_bytes,
    )
