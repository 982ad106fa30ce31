"""Who is asked for counters, and what is known while one does not tell. The processes stand in dictionaries."""

from oncelog.api.v1 import controller_pb2, process_pb2
from oncelog.rpc.contract import PROCESS
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.sessions import MethodMissing, PeerUnavailable
from oncelog_gateway.core.charts import span_until
from oncelog_gateway.rate_recorder import OLDER, RateRecorder

NOW = 1_800_000_000_000


class Process:
    def __init__(self, node_id, **fields):
        self.answer = process_pb2.DescribeProcessResponse(
            node_id=node_id, version="0.2.0", started_ms=1, resident_bytes=1 << 20, **fields
        )
        self.fails = None

    async def DescribeProcess(self, request, timeout=None):  # noqa: N802
        if self.fails is not None:
            raise self.fails
        return self.answer

    def writes(self, topic, records, size_bytes):
        for one in self.answer.topics:
            if one.topic == topic:
                one.produced_records += records
                one.produced_bytes += size_bytes
                return
        self.answer.topics.add(topic=topic, produced_records=records, produced_bytes=size_bytes)


class Processes(Directory):
    def __init__(self):
        self.of_nodes = {1: Process(1), 2: Process(2, queued_markers=3)}
        self.controllers = {"10.0.0.9:9090": Process(9)}

    def stub(self, node_id, service_name):
        assert service_name == PROCESS
        return self.of_nodes[node_id]

    def controller_processes(self):
        return self.controllers

    def controller(self):
        raise NotImplementedError

    def marker_sender(self):
        raise NotImplementedError


class Clock:
    time = NOW

    def now(self):
        return self.time


class Cluster:
    def __init__(self):
        self.processes, self.clock = Processes(), Clock()
        self.storage, self.sender = self.processes.of_nodes.values()
        metadata = MetadataFollower(3, None)
        metadata.apply_update(
            controller_pb2.MetadataUpdate(
                snapshot=controller_pb2.MetadataSnapshot(
                    nodes=[
                        controller_pb2.Node(node_id=1, roles=[controller_pb2.ROLE_STORAGE]),
                        controller_pb2.Node(node_id=2, roles=[controller_pb2.ROLE_MARKER_SENDER]),
                    ]
                )
            )
        )
        self.recorder = RateRecorder(metadata, self.processes, self.clock)

    async def read(self, after_ms=5_000):
        self.clock.time += after_ms
        await self.recorder.read()

    def values(self, family, name):
        span = span_until(self.clock.time - 1, 15, 5_000)
        found = {one.name: one.values for one in self.recorder.ring.lines(family, *span)}
        return found.get(name)


async def test_every_process_has_its_name():
    cluster = Cluster()
    await cluster.read()
    await cluster.read()
    assert cluster.recorder.since_ms == NOW + 5_000
    for name in ("storage 1", "marker sender 2", "controller 9"):
        assert cluster.values("memory", name)[-1] == 1 << 20
        assert cluster.values("cpu", name)[-1] == 0
    assert cluster.recorder.versions == {1: "0.2.0", 2: "0.2.0", 9: "0.2.0"}
    assert cluster.values("marker_queue", "markers")[-1] == 3


async def test_what_a_topic_grew_is_told_also_of_the_last_minute():
    cluster = Cluster()
    await cluster.read()
    assert cluster.recorder.topic_rates() == ({}, 0)
    cluster.storage.writes("orders", 10, 500)
    await cluster.read()
    assert cluster.values("produced_bytes", "orders")[-1] == 100
    rates, span_ms = cluster.recorder.topic_rates()
    assert (rates["orders"].records_in, rates["orders"].bytes_in, span_ms) == (2, 100, 5_000)


async def test_an_older_process_is_told_of_and_not_waited_for():
    cluster = Cluster()
    cluster.sender.fails = MethodMissing("10.0.0.2:9090: UNIMPLEMENTED")
    await cluster.read()
    cluster.storage.writes("orders", 1, 50)
    await cluster.read()
    assert cluster.recorder.silent == {"marker sender 2": OLDER}
    assert cluster.values("produced_bytes", "orders")[-1] == 10
    assert cluster.values("memory", "marker sender 2") is None
    cluster.storage.fails = MethodMissing("10.0.0.1:9090: UNIMPLEMENTED")
    await cluster.read()
    assert cluster.recorder.silent["storage 1"] == OLDER


async def test_a_process_that_does_not_answer_leaves_a_gap():
    cluster = Cluster()
    await cluster.read()
    cluster.storage.writes("orders", 1, 50)
    await cluster.read()
    cluster.storage.fails = PeerUnavailable("gone", was_sent=False)
    for _ in range(4):
        await cluster.read()
    assert cluster.recorder.silent == {"storage 1": "cannot be reached"}
    cluster.storage.fails = None
    cluster.storage.writes("orders", 1, 50_000)
    await cluster.read()
    cluster.storage.writes("orders", 1, 5)
    await cluster.read()
    found = cluster.values("produced_bytes", "orders")[-7:]
    assert found == [10, None, None, None, None, None, 1]


async def test_a_process_that_began_anew_counts_from_zero():
    cluster = Cluster()
    cluster.storage.writes("orders", 1, 10**9)
    await cluster.read()
    await cluster.read()
    restarted = cluster.processes.of_nodes[1] = Process(1)
    restarted.answer.started_ms = 2
    restarted.writes("orders", 1, 50)
    await cluster.read()
    assert cluster.values("produced_bytes", "orders")[-1] == 10


async def test_groups_are_levels_of_their_own():
    cluster = Cluster()

    async def levels():
        return {"billing": (7.0, 2.0)}

    cluster.recorder.read_groups = levels
    await cluster.read()
    await cluster.read()
    assert cluster.values("group_readable", "billing")[-1] == 7
    assert cluster.values("group_held_back", "billing")[-1] == 2
