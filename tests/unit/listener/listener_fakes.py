"""Small roles behind a listener: they answer the contracts' methods from dictionaries, and remember their requests.

`canned` replaces the answer of a method, by its name, with a fixed message or an exception.
"""

# ruff: noqa: N802 (the methods' names are the contract's)

import asyncio
from contextlib import asynccontextmanager

from oncelog.api.v1 import controller_pb2, coordinator_pb2, groups_pb2, storage_pb2
from oncelog.errors import ErrorCode
from oncelog.protocol.frames import (
    FrameSplitter,
    framed,
    read_correlation_id,
    write_request_head,
)
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS
from oncelog.record.batch import read_header, stamp
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower
from oncelog_listener.cluster import Cluster
from oncelog_listener.settings import ListenerSettings
from oncelog_listener.wiring import build_listener

NODE_ID = 1
PARTITIONS_MAX = 1_000
IMAGE_LAG_S = 0.01


class FakeRole:
    def __init__(self):
        self.calls = []
        self.canned = {}

    def asked(self, method):
        return [request for name, request in self.calls if name == method]

    def take(self, method, request):
        """The canned answer of the method, or None."""
        self.calls.append((method, request))
        answer = self.canned.get(method)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class FakeStorage(FakeRole):
    def __init__(self):
        super().__init__()
        self.logs = {}
        self.appended = asyncio.Event()
        self.fetches_waiting = 0
        self.gate = None

    def log(self, topic, partition):
        return self.logs.setdefault((topic, partition), [])

    def end_offset(self, topic, partition):
        batches = self.log(topic, partition)
        return read_header(batches[-1]).next_offset if batches else 0

    async def Produce(self, request, context):
        canned = self.take("Produce", request)
        if self.gate is not None:
            await self.gate.wait()
        if canned is not None:
            return canned
        response = storage_pb2.ProduceResponse()
        for one in request.partitions:
            offset = self.end_offset(one.topic, one.partition)
            batch = bytearray(one.records)
            stamp(batch, offset, 0)
            self.log(one.topic, one.partition).append(bytes(batch))
            response.partitions.add(
                topic=one.topic, partition=one.partition, base_offset=offset, log_append_time_ms=-1
            )
        self.appended.set()
        self.appended = asyncio.Event()
        return response

    async def Fetch(self, request, context):
        if (canned := self.take("Fetch", request)) is not None:
            return canned
        self.fetches_waiting += 1
        try:
            async with asyncio.timeout(request.max_wait_ms / 1000):
                while request.max_wait_ms and self._readable(request) < max(1, request.min_bytes):
                    await self.appended.wait()
        except TimeoutError:
            pass
        finally:
            self.fetches_waiting -= 1
        response = storage_pb2.FetchResponse()
        for wanted in request.partitions:
            end = self.end_offset(wanted.topic, wanted.partition)
            response.partitions.add(
                topic=wanted.topic,
                partition=wanted.partition,
                high_watermark=end,
                last_stable_offset=end,
                records=self._records(wanted),
            )
        return response

    def _readable(self, request):
        return sum(len(self._records(wanted)) for wanted in request.partitions)

    def _records(self, wanted):
        batches = self.log(wanted.topic, wanted.partition)
        return b"".join(
            one for one in batches if read_header(one).next_offset > wanted.fetch_offset
        )

    async def ListOffsets(self, request, context):
        if (canned := self.take("ListOffsets", request)) is not None:
            return canned
        response = storage_pb2.ListOffsetsResponse()
        for one in request.partitions:
            offset = 0 if one.timestamp_ms == -2 else self.end_offset(one.topic, one.partition)
            response.partitions.add(
                topic=one.topic, partition=one.partition, timestamp_ms=-1, offset=offset
            )
        return response

    async def OffsetsForLeaderEpoch(self, request, context):
        if (canned := self.take("OffsetsForLeaderEpoch", request)) is not None:
            return canned
        response = storage_pb2.OffsetsForLeaderEpochResponse()
        for one in request.partitions:
            end = self.end_offset(one.topic, one.partition)
            response.partitions.add(
                topic=one.topic, partition=one.partition, leader_epoch=0, end_offset=end
            )
        return response

    async def WriteTxnMarkers(self, request, context):
        if (canned := self.take("WriteTxnMarkers", request)) is not None:
            return canned
        response = storage_pb2.WriteTxnMarkersResponse()
        for marker in request.markers:
            result = response.results.add(producer_id=marker.producer_id)
            for one in marker.partitions:
                result.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def DescribeProducers(self, request, context):
        if (canned := self.take("DescribeProducers", request)) is not None:
            return canned
        response = storage_pb2.DescribeProducersResponse()
        for one in request.partitions:
            found = response.partitions.add(topic=one.topic, partition=one.partition)
            found.producers.add(
                producer_id=4000,
                producer_epoch=3,
                last_sequence=7,
                last_timestamp_ms=1_700_000_000_000,
                coordinator_epoch=2,
                current_txn_start_offset=-1,
            )
        return response

    async def DeleteRecords(self, request, context):
        if (canned := self.take("DeleteRecords", request)) is not None:
            return canned
        response = storage_pb2.DeleteRecordsResponse()
        for one in request.partitions:
            response.partitions.add(topic=one.topic, partition=one.partition, low_watermark=5)
        return response


class FakeCoordinator(FakeRole):
    async def InitProducerId(self, request, context):
        return self.take("InitProducerId", request) or coordinator_pb2.InitProducerIdResponse(
            producer_id=4000, producer_epoch=0
        )

    async def AddPartitionsToTxn(self, request, context):
        if (canned := self.take("AddPartitionsToTxn", request)) is not None:
            return canned
        response = coordinator_pb2.AddPartitionsToTxnResponse()
        for transaction in request.transactions:
            result = response.results.add(transactional_id=transaction.transactional_id)
            for one in transaction.partitions:
                result.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def AddOffsetsToTxn(self, request, context):
        return self.take("AddOffsetsToTxn", request) or coordinator_pb2.AddOffsetsToTxnResponse()

    async def EndTxn(self, request, context):
        is_tv2 = request.client_transaction_version == 2
        return self.take("EndTxn", request) or coordinator_pb2.EndTxnResponse(
            producer_id=request.producer_id if is_tv2 else -1,
            producer_epoch=min(request.producer_epoch + 1, 32_767) if is_tv2 else -1,
        )

    async def DescribeTransactions(self, request, context):
        if (canned := self.take("DescribeTransactions", request)) is not None:
            return canned
        response = coordinator_pb2.DescribeTransactionsResponse()
        for transactional_id in request.transactional_ids:
            one = response.transactions.add(
                transactional_id=transactional_id,
                state="Ongoing",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=1_700_000_000_123,
                producer_id=4000,
                producer_epoch=3,
            )
            one.partitions.add(topic="orders", partition=1)
        return response

    async def ListTransactions(self, request, context):
        if (canned := self.take("ListTransactions", request)) is not None:
            return canned
        response = coordinator_pb2.ListTransactionsResponse(unknown_state_filters=["Bogus"])
        response.transactions.add(transactional_id="pay", producer_id=4000, state="Ongoing")
        return response

    async def OpenAttempt(self, request, context):
        return self.take("OpenAttempt", request) or coordinator_pb2.OpenAttemptResponse(
            sink_epoch=9
        )


class FakeGroupCoordinator(FakeRole):
    """Of one group per id, with one member; what is committed is remembered."""

    def __init__(self):
        super().__init__()
        self.offsets = {}
        self.gate = None
        self.joins_waiting = 0

    async def WriteTxnMarkers(self, request, context):
        if (canned := self.take("WriteTxnMarkers", request)) is not None:
            return canned
        response = storage_pb2.WriteTxnMarkersResponse()
        for marker in request.markers:
            result = response.results.add(producer_id=marker.producer_id)
            for one in marker.partitions:
                result.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def JoinGroup(self, request, context):
        canned = self.take("JoinGroup", request)
        if self.gate is not None:
            self.joins_waiting += 1
            await self.gate.wait()
            self.joins_waiting -= 1
        if canned is not None:
            return canned
        response = groups_pb2.JoinGroupResponse(
            generation_id=3,
            protocol_type=request.protocol_type,
            protocol_name=request.protocols[0].name if request.protocols else "",
            leader="m-1",
            member_id="m-1",
        )
        response.members.add(member_id="m-1", metadata=b"one")
        response.members.add(member_id="m-2", group_instance_id="fixed", metadata=b"two")
        return response

    async def SyncGroup(self, request, context):
        return self.take("SyncGroup", request) or groups_pb2.SyncGroupResponse(
            protocol_type="consumer", protocol_name="range", assignment=b"mine"
        )

    async def GroupHeartbeat(self, request, context):
        return self.take("GroupHeartbeat", request) or groups_pb2.GroupHeartbeatResponse()

    async def ConsumerGroupHeartbeat(self, request, context):
        if (canned := self.take("ConsumerGroupHeartbeat", request)) is not None:
            return canned
        response = groups_pb2.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=3,
            heartbeat_interval_ms=5_000,
            assignment_present=True,
        )
        response.assignment.add(topic_id=topic("orders", 1).topic_id, partitions=[0])
        return response

    async def LeaveGroup(self, request, context):
        if (canned := self.take("LeaveGroup", request)) is not None:
            return canned
        response = groups_pb2.LeaveGroupResponse()
        for one in request.members:
            left = response.members.add(member_id=one.member_id)
            if one.HasField("group_instance_id"):
                left.group_instance_id = one.group_instance_id
        return response

    async def OffsetCommit(self, request, context):
        if (canned := self.take("OffsetCommit", request)) is not None:
            return canned
        return self._committed(request)

    async def TxnOffsetCommit(self, request, context):
        if (canned := self.take("TxnOffsetCommit", request)) is not None:
            return canned
        return self._committed(request)

    def _committed(self, request):
        response = groups_pb2.OffsetCommitResponse()
        for one in request.offsets:
            self.offsets[request.group_id, one.topic, one.partition] = one
            response.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def OffsetFetch(self, request, context):
        if (canned := self.take("OffsetFetch", request)) is not None:
            return canned
        response = groups_pb2.OffsetFetchResponse()
        for wanted in request.groups:
            group = response.groups.add(group_id=wanted.group_id)
            named = {(one.topic, number) for one in wanted.topics for number in one.partitions}
            for (group_id, topic_name, number), one in self.offsets.items():
                key = (topic_name, number)
                if group_id == wanted.group_id and (wanted.all_topics or key in named):
                    group.offsets.add(
                        topic=topic_name,
                        partition=number,
                        offset=one.offset,
                        leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                    )
                    named.discard(key)
            for topic_name, number in sorted(named):
                group.offsets.add(topic=topic_name, partition=number, offset=-1, leader_epoch=-1)
        return response

    async def OffsetDelete(self, request, context):
        if (canned := self.take("OffsetDelete", request)) is not None:
            return canned
        response = groups_pb2.OffsetDeleteResponse()
        for one in request.topics:
            for number in one.partitions:
                response.partitions.add(topic=one.topic, partition=number)
        return response

    async def DescribeGroups(self, request, context):
        if (canned := self.take("DescribeGroups", request)) is not None:
            return canned
        response = groups_pb2.DescribeGroupsResponse()
        for group_id in request.group_ids:
            group = response.groups.add(
                group_id=group_id, state="Stable", protocol_type="consumer", protocol_name="range"
            )
            group.members.add(
                member_id="m-1",
                client_id="app",
                client_host="/127.0.0.1",
                metadata=b"one",
                assignment=b"mine",
            )
        return response

    async def ListGroups(self, request, context):
        if (canned := self.take("ListGroups", request)) is not None:
            return canned
        response = groups_pb2.ListGroupsResponse()
        response.groups.add(
            group_id="billing", protocol_type="consumer", state="Stable", group_type="classic"
        )
        return response

    async def DeleteGroups(self, request, context):
        if (canned := self.take("DeleteGroups", request)) is not None:
            return canned
        response = groups_pb2.DeleteGroupsResponse()
        for group_id in request.group_ids:
            response.results.add(group_id=group_id)
        return response


class FakeController(FakeRole):
    def __init__(self, metadata):
        super().__init__()
        self.metadata = metadata
        self.metadata_offset = metadata.image.metadata_offset

    def change(self, **delta):
        """Decided now, in the image a moment later, as a stream brings it."""
        self.metadata_offset += 1
        update = controller_pb2.MetadataUpdate(
            metadata_offset=self.metadata_offset, delta=controller_pb2.MetadataDelta(**delta)
        )
        asyncio.get_running_loop().call_later(IMAGE_LAG_S, self.metadata.take, update)
        return self.metadata_offset

    async def CreateTopics(self, request, context):
        if (canned := self.take("CreateTopics", request)) is not None:
            return canned
        response = controller_pb2.CreateTopicsResponse()
        created = []
        for new in request.topics:
            count = new.partitions if new.partitions > 0 else 1
            result = response.results.add(name=new.name, partitions=count, replication_factor=1)
            if count > PARTITIONS_MAX:
                result.error_code = ErrorCode.INVALID_PARTITIONS
                continue
            if new.name in self.metadata.image.topics:
                result.error_code = ErrorCode.TOPIC_ALREADY_EXISTS
                continue
            created.append(topic(new.name, count, dict(new.configs)))
            result.topic_id = created[-1].topic_id
        if not request.validate_only:
            response.metadata_offset = self.change(topics=created)
        return response

    async def DeleteTopics(self, request, context):
        if (canned := self.take("DeleteTopics", request)) is not None:
            return canned
        response = controller_pb2.DeleteTopicsResponse()
        for name in request.names:
            known = name in self.metadata.image.topics
            response.results.add(name=name, error_code=0 if known else 3)
        response.metadata_offset = self.change(removed_topics=list(request.names))
        return response

    async def CreatePartitions(self, request, context):
        if (canned := self.take("CreatePartitions", request)) is not None:
            return canned
        response = controller_pb2.CreatePartitionsResponse()
        changed = []
        for new in request.topics:
            result = response.results.add(name=new.name, partitions=new.count)
            if not 0 < new.count <= PARTITIONS_MAX:
                result.error_code = ErrorCode.INVALID_PARTITIONS
                continue
            changed.append(topic(new.name, new.count))
        response.metadata_offset = self.change(topics=changed)
        return response

    async def AlterConfigs(self, request, context):
        if (canned := self.take("AlterConfigs", request)) is not None:
            return canned
        old = self.metadata.image.topics[request.topic]
        configs = {**old.configs, **request.set}
        for name in request.remove:
            configs.pop(name, None)
        response = controller_pb2.AlterConfigsResponse()
        if not request.validate_only:
            response.metadata_offset = self.change(
                topics=[topic(request.topic, len(old.partitions), configs)]
            )
        return response


def topic(name, partitions, configs=None, leader=NODE_ID, internal=False):
    return controller_pb2.Topic(
        name=name,
        topic_id=name.encode().ljust(16, b"\1")[:16],
        internal=internal,
        configs=configs or {},
        partitions=[
            controller_pb2.Partition(
                partition=number, leader=leader, replicas=[leader], isr=[leader]
            )
            for number in range(partitions)
        ],
    )


def follower(*topics, shards=50, transaction_version=2):
    """A metadata follower whose image holds these topics."""
    metadata = MetadataFollower(NODE_ID, None)
    metadata.take(
        controller_pb2.MetadataUpdate(
            metadata_offset=0,
            snapshot=controller_pb2.MetadataSnapshot(
                cluster_id="test-cluster",
                controller=NODE_ID,
                nodes=[controller_pb2.Node(node_id=NODE_ID)],
                topics=topics,
                shards=[
                    controller_pb2.Shard(kind=kind, shard=number, coordinator=NODE_ID)
                    for kind in (TRANSACTION, GROUP)
                    for number in range(shards)
                ],
                features=controller_pb2.Features(
                    features_epoch=4, levels={"transaction.version": transaction_version}
                ),
            ),
        )
    )
    return metadata


class World:
    """A listener's surroundings."""

    def __init__(self, *topics, shards=50, transaction_version=2, **settings):
        self.metadata = follower(*topics, shards=shards, transaction_version=transaction_version)
        self.storage = FakeStorage()
        self.coordinator = FakeCoordinator()
        self.groups = FakeGroupCoordinator()
        self.controller = FakeController(self.metadata)
        # What does not get better is not waited for, unless a test is about that.
        self.settings = ListenerSettings(**({"port": 0, "repeat_max_ms": 0} | settings))
        self.directory = LocalDirectory(
            storage=DirectStub(self.storage),
            coordinator=DirectStub(self.coordinator),
            group_coordinator=DirectStub(self.groups),
            marker_sender=None,
            controller=DirectStub(self.controller),
        )

    @property
    def cluster(self):
        return Cluster(self.settings, NODE_ID, self.metadata, self.directory)

    @asynccontextmanager
    async def listening(self):
        role = build_listener(self.settings, NODE_ID, self.metadata, self.directory)
        await role.start()
        try:
            yield role
        finally:
            await role.stop()


class WireClient:
    """Speaks Kafka's protocol frame by frame."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.correlation_id = 0

    @staticmethod
    async def connect(port, host="127.0.0.1"):
        return WireClient(*await asyncio.open_connection(host, port))

    def send(self, api_key, version, /, **fields):
        """Send a request of these fields; the schema, to read the answer with."""
        schema = schema_of(api_key, version)
        self.correlation_id += 1
        head = write_request_head(
            api_key, version, self.correlation_id, "test", APIS[api_key].is_flexible(version)
        )
        request = fields.pop("request", None) or schema.request(**fields)
        self.writer.write(framed([head, *schema.write_request(request)]))
        return schema

    async def frame(self):
        size = int.from_bytes(await self.reader.readexactly(4), "big", signed=True)
        return await self.reader.readexactly(size)

    async def receive(self, schema):
        frame = await asyncio.wait_for(self.frame(), 5)
        position = 5 if APIS[schema.api_key].response_has_tags(schema.version) else 4
        return read_correlation_id(frame), schema.read_response(frame, position)

    async def call(self, api_key, version, /, **fields):
        schema = self.send(api_key, version, **fields)
        correlation_id, response = await self.receive(schema)
        assert correlation_id == self.correlation_id
        return response

    async def is_closed_by_peer(self):
        try:
            return await asyncio.wait_for(self.reader.read(1), 5) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.writer.close()


async def eventually(condition, timeout_s=5.0):
    """Wait until it holds; fails the test when it never does."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (what it looks at sets no event)
            await asyncio.sleep(0.005)


__all__ = ["FrameSplitter", "World", "WireClient", "eventually", "follower", "topic"]
