"""Three storage nodes in one process, and a controller by hand: it takes what leaders propose and elects as it is told.

A node that is killed leaves its files as the operating system has them: no checkpoint, no mark of a clean shutdown.
"""

import asyncio
import contextlib

from tests.integration.storage.storage_node import (
    NOW,
    Calls,
    FakeCoordinator,
    ManualClock,
    batch,
    topic,
)

from oncelog.api.v1 import controller_pb2 as cpb
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower
from oncelog.rpc.sessions import PeerUnavailable
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.producer_snapshot import encode_snapshot
from oncelog_storage.settings import StorageSettings
from oncelog_storage.wiring import build_storage

TOPIC = "orders"


class HandController:
    """The image, and who has it. `holds_back` leaves AlterPartition unanswered."""

    def __init__(self):
        self.offset = 0
        self.topics = {}
        self.nodes = {}
        self.followers = {}
        self.holds_back = None
        self.proposals = []
        self.refuses = []
        self.loses_answer = lambda: False
        self.fenced = set()
        self._unheard = {}

    def stop_telling(self, node_id):
        """This node's image stays as it is until it is told again."""
        self._unheard.setdefault(node_id, [])

    def tell_again(self, node_id):
        for update in self._unheard.pop(node_id, ()):
            self.followers[node_id].apply_update(update)

    def topic(self, name=TOPIC, replicas=(1, 2, 3), partitions=1, **configs):
        made = topic(name, partitions, replicas=replicas, isr=replicas, **configs)
        for index, found in enumerate(made.partitions):
            found.leader = replicas[index % len(replicas)]
        self.topics[name] = made
        self.publish(topics=[self.topics[name]])

    def register(self, node_id):
        epoch = self.nodes[node_id].node_epoch + 1 if node_id in self.nodes else 1
        self.nodes[node_id] = cpb.Node(node_id=node_id, node_epoch=epoch)
        self.publish(nodes=[self.nodes[node_id]])

    def partition(self, name=TOPIC, index=0):
        return self.topics[name].partitions[index]

    def change(self, name=TOPIC, index=0, **fields):
        """Publish a partition with these fields; a new leader is a new leader epoch."""
        topic = cpb.Topic()
        topic.CopyFrom(self.topics[name])
        found = topic.partitions[index]
        for field, value in fields.items():
            if isinstance(value, (list, tuple)):
                del getattr(found, field)[:]
                getattr(found, field).extend(value)
            else:
                setattr(found, field, value)
        found.partition_epoch += 1
        if "leader" in fields:
            found.leader_epoch += 1
        self.topics[name] = topic
        self.publish(topics=[topic])

    def fence(self, node_id):
        """Out of every ISR but one it is alone in; leaders elsewhere."""
        self.fenced.add(node_id)
        for name, known in self.topics.items():
            for index, found in enumerate(known.partitions):
                isr = [node for node in found.isr if node != node_id] or list(found.isr)
                leader = found.leader
                if leader == node_id:
                    leader = isr[0] if isr != [node_id] else -1
                if isr != list(found.isr) or leader != found.leader:
                    self.change(name, index, isr=isr, leader=leader)

    def elect_lost(self, node_id):
        """A node is back: partitions without a leader whose ISR it is take it."""
        for name, known in self.topics.items():
            for index, found in enumerate(known.partitions):
                if found.leader == -1 and node_id in found.isr:
                    self.change(name, index, leader=node_id)

    def publish(self, **fields):
        self.offset += 1
        update = cpb.MetadataUpdate(metadata_offset=self.offset, delta=cpb.MetadataDelta(**fields))
        for node_id, follower in list(self.followers.items()):
            if node_id in self._unheard:
                self._unheard[node_id].append(update)
            else:
                follower.apply_update(update)

    def join(self, node_id, follower):
        self._unheard.pop(node_id, None)
        self.fenced.discard(node_id)
        self.followers[node_id] = follower
        follower.apply_update(
            cpb.MetadataUpdate(
                metadata_offset=self.offset,
                snapshot=cpb.MetadataSnapshot(
                    cluster_id="test-cluster",
                    topics=list(self.topics.values()),
                    nodes=list(self.nodes.values()),
                    shards=[cpb.Shard(kind=TRANSACTION, shard=0, coordinator=1)],
                ),
            )
        )

    async def AlterPartition(self, request, context):  # noqa: N802
        if self.holds_back is not None:
            await self.holds_back.wait()
        answer = cpb.AlterPartitionResponse(metadata_offset=self.offset)
        for each in request.partitions:
            name, index = each.partition.topic, each.partition.partition
            self.proposals.append((request.node_id, list(each.isr)))
            found = self.partition(name, index)
            code = ErrorCode.NONE
            if each.leader_epoch != found.leader_epoch or found.leader != request.node_id:
                code = ErrorCode.FENCED_LEADER_EPOCH
            elif each.partition_epoch != found.partition_epoch:
                code = ErrorCode.INVALID_UPDATE_VERSION
            elif self.refuses:
                code = self.refuses.pop(0)
            elif any(node not in self.followers or node in self.fenced for node in each.isr):
                code = ErrorCode.INELIGIBLE_REPLICA
            elif request.node_id not in each.isr:
                self.change(name, index, isr=list(each.isr), leader=each.isr[0])
            else:
                self.change(name, index, isr=list(each.isr))
            answer.partitions.add(topic=name, partition=index, error_code=code)
        if self.loses_answer():
            raise TimeoutError
        return answer


class _Directory:
    """Stubs of the nodes that run; a call to another is like one to a dead process."""

    def __init__(self, cluster, node_id):
        self._cluster = cluster
        self._node_id = node_id

    def storage(self, node_id):
        return _Link(self._cluster, self._node_id, node_id)

    def coordinator(self, node_id):
        return self._cluster.coordinator

    def controller(self):
        if self._node_id in self._cluster.cut_off:
            raise PeerUnavailable("the controller is away")
        return self._cluster.controller_stub


class _Link:
    """Calls from one node to another; requests and answers are lost while either is cut off or away."""

    def __init__(self, cluster, source, target):
        self._cluster, self._ends, self._target = cluster, {source, target}, target

    def _check(self):
        if self._ends & self._cluster.cut_off or self._target not in self._cluster.nodes:
            raise PeerUnavailable(f"node {self._target} is away")

    async def ReplicaFetch(self, request, timeout=None):  # noqa: N802
        self._check()
        answer = await self._cluster.nodes[self._target].stub.ReplicaFetch(request, timeout=timeout)
        self._check()
        return answer


class ClusterNode(Calls):
    def __init__(self, cluster, node_id):
        self.node_id = node_id
        self.metadata = MetadataFollower(node_id, None)
        cluster.controller.join(node_id, self.metadata)
        self.role = build_storage(
            StorageSettings(data_dir=cluster.path / str(node_id), **cluster.settings),
            node_id,
            self.metadata,
            _Directory(cluster, node_id),
            cluster.clock,
        )
        super().__init__(self.role.servicer)
        self.stub = DirectStub(self.storage)

    def held(self, name=TOPIC, index=0):
        return self.role.partition(Partition(name, index))


class Cluster:
    def __init__(self, path, **settings):
        self.path = path
        self.settings = {
            "cleaner_interval_ms": 600_000,  # tests clean when they say so, on a slow machine as well
            "replica_fetch_wait_max_ms": 200,
            "replica_fetch_backoff_ms": 5,
            "replica_lag_time_max_ms": 60_000,
            **settings,
        }
        self.clock = ManualClock()
        self.coordinator = FakeCoordinator()
        self.controller = HandController()
        self.controller_stub = DirectStub(self.controller)
        self.nodes = {}
        self.cut_off = set()

    async def start(self, node_id):
        self.controller.register(node_id)
        node = ClusterNode(self, node_id)
        await node.role.start()
        self.nodes[node_id] = node
        self.controller.elect_lost(node_id)
        return node

    async def stop(self, node_id):
        node = self.nodes.pop(node_id)
        self.controller.fence(node_id)
        self.controller.followers.pop(node_id)
        await node.role.stop()

    async def kill(self, node_id, *, fence=True):
        node = self.nodes.pop(node_id)
        self.controller.followers.pop(node_id)
        await node.role.kill()
        if fence:
            self.controller.fence(node_id)

    def leader(self, name=TOPIC, index=0):
        return self.nodes.get(self.controller.partition(name, index).leader)

    def isr(self, name=TOPIC):
        return list(self.controller.partition(name).isr)

    async def produce(self, records, name=TOPIC, **fields):
        return await self.leader(name).produce(name, records, **{"timeout_ms": 5000, **fields})

    async def fill(self, count, records, **fields):
        """The same batch so many times."""
        for _ in range(count):
            assert (await self.produce(records, **fields)).error_code == 0

    async def mark(self, producer_id, producer_epoch, commit, start_ms=0, name_of=""):
        """`start_ms` and `name_of`: of its transaction, as our own marker sender tells them."""
        marker = (producer_id, producer_epoch, commit, 0, 0, start_ms, name_of)
        (code,) = await self.leader().mark(TOPIC, marker)
        return code

    async def delete_records(self, before_offset, timeout_ms=10_000):
        return await self.leader().delete_records(TOPIC, before_offset, timeout_ms=timeout_ms)

    async def caught_up(self, name=TOPIC, index=0, timeout_s=20.0):
        """Every running replica has the leader's log and its high watermark."""
        async with asyncio.timeout(timeout_s):
            while True:
                leader = self.leader(name, index)
                if leader is not None and self._is_level(leader, name, index):
                    return
                await asyncio.sleep(0.005)

    def _is_level(self, leader, name, index):
        replicas = self.controller.partition(name, index).replicas
        found = leader.held(name, index)
        ends = {
            (
                self.nodes[node].held(name, index).log.log_end_offset,
                self.nodes[node].held(name, index).high_watermark,
                self.nodes[node].metadata.image.metadata_offset,
            )
            for node in replicas
            if node in self.nodes
        }
        return ends == {
            (found.log.log_end_offset, found.log.log_end_offset, self.controller.offset)
        }


def contents(held, lower=None):
    """What a replica has, by part, from `lower` (its log start) on."""
    log = held.log
    upper = log.log_end_offset
    lower = log.log_start_offset if lower is None else lower
    parts, offset = [], lower
    while offset < upper:
        records, offset = log.read(offset, upper, 1 << 20)
        parts.append(records)
    epochs = LeaderEpochs(log.leader_epochs.entries())
    epochs.truncate_to_start(lower)
    return {
        "end": upper,
        "bytes": b"".join(parts),
        "epochs": [entry for entry in epochs.entries() if entry[1] < upper],
        "aborted": log.aborted_transactions(lower, max(upper, 1)),
        "producers": sorted(_producer(entry, lower) for entry in log.producers.entries()),
    }


def _producer(entry, lower):
    """All of it; of what a replica that began at `lower` cannot know, nothing."""
    if lower == 0:
        return encode_snapshot([entry])
    kept = entry.batches[-1] if entry.batches else None
    if kept is None or kept.last_offset < lower:
        return b""
    return b"%d %d %d" % (entry.producer_id, entry.producer_epoch, kept.last_sequence)


def differences(cluster, name=TOPIC, index=0):
    """The parts in which running replicas differ from their leader; {} when all are equal.

    Compared from the highest log start on: a deletion that was not acknowledged need not be everywhere.
    """
    replicas = [
        cluster.nodes[node].held(name, index)
        for node in cluster.controller.partition(name, index).replicas
        if node in cluster.nodes
    ]
    lower = max(held.log.log_start_offset for held in replicas)
    expected = contents(cluster.leader(name, index).held(name, index), lower)
    found = {}
    for held in replicas:
        actual = contents(held, lower)
        for part, value in expected.items():
            known, wanted = actual[part], value
            if part == "producers":
                known, wanted = set(known) - {b""}, set(wanted) - {b""}
            if part == "aborted" and lower:
                # A replica that began at `lower` knows of older transactions only what lies above, and takes the first
                # offset there for their beginning.
                older = {(one.producer_id, one.last_offset) for one in known if one[1] < lower}
                wanted = {
                    entry[:3]
                    for entry in wanted
                    if entry.first_offset >= lower
                    and (entry.producer_id, entry.last_offset) not in older
                }
                known = wanted & {entry[:3] for entry in known}
            if known != wanted:
                found[held.log.directory.parent.name, part] = (known, wanted)
    return found


@contextlib.asynccontextmanager
async def running_cluster(path, *, nodes=(1, 2, 3), **settings):
    cluster = Cluster(path, **settings)
    for node_id in nodes:
        await cluster.start(node_id)
    try:
        yield cluster
    finally:
        for node_id in list(cluster.nodes):
            await cluster.nodes.pop(node_id).role.stop()


__all__ = ["NOW", "TOPIC", "Cluster", "batch", "contents", "differences", "running_cluster"]
