"""A storage node for tests: the real role, hand-made metadata, and a coordinator that answers as it is told."""

import asyncio
from contextlib import asynccontextmanager

from oncelog.api.v1 import controller_pb2, coordinator_pb2, storage_pb2, types_pb2
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.record.records import Record, encode_batch
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower
from oncelog_storage.log_checkpoint import sync_logs
from oncelog_storage.settings import StorageSettings
from oncelog_storage.wiring import build_storage

NODE = 1
NOW = 1_700_000_000_000
SHARDS = 4
MARKER_FIELDS = (
    "producer_id",
    "producer_epoch",
    "commit",
    "coordinator_epoch",
    "transaction_version",
    "transaction_start_ms",
    "transactional_id",
)


class ManualClock:
    def __init__(self, now=NOW):
        self.time = now

    def now(self):
        return self.time


class FakeCoordinator:
    """Answers AddPartitionsToTxn with `codes`, one call each, then with success; `gate` holds the answer back."""

    def __init__(self):
        self.codes = []
        self.calls = []
        self.gate = None
        self.fails = None
        self.transaction_start_ms = 0
        self.described = []

    async def DescribeTransactions(self, request, context=None, timeout=None):  # noqa: N802
        """`described` is taken up one by one: a description, or what is raised; then there are no transactions."""
        found = self.described.pop(0) if self.described else None
        if isinstance(found, Exception):
            raise found
        (name,) = request.transactional_ids
        if found is None:
            found = coordinator_pb2.TransactionDescription(error_code=105, transactional_id=name)
        return coordinator_pb2.DescribeTransactionsResponse(transactions=[found])

    async def AddPartitionsToTxn(self, request, context=None, timeout=None):  # noqa: N802
        self.calls.append(request.transactions[0])
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        code = self.codes.pop(0) if self.codes else 0
        txn = request.transactions[0]
        answer = coordinator_pb2.AddPartitionsToTxnResponse()
        result = answer.results.add(
            transactional_id=txn.transactional_id, transaction_start_ms=self.transaction_start_ms
        )
        for each in txn.partitions:
            result.partitions.add(topic=each.topic, partition=each.partition, error_code=code)
        return answer


def topic(
    name,
    partitions=1,
    topic_id=None,
    leader=NODE,
    leader_epoch=0,
    replicas=(NODE,),
    isr=(NODE,),
    **configs,
):
    return controller_pb2.Topic(
        name=name,
        topic_id=topic_id or name.encode().ljust(16, b"\0")[:16],
        configs={key.replace("_", "."): str(value) for key, value in configs.items()},
        partitions=[
            controller_pb2.Partition(
                partition=index,
                leader=leader,
                leader_epoch=leader_epoch,
                replicas=replicas,
                isr=isr,
            )
            for index in range(partitions)
        ],
    )


class Calls:
    """Calls of the servicer `storage`, each for one partition."""

    def __init__(self, storage):
        self.storage = storage

    async def produce(
        self, name, records, partition=0, acks=-1, transactional_id="", mode=2, timeout_ms=1000
    ):
        part = storage_pb2.PartitionRecords(topic=name, partition=partition, records=bytes(records))
        request = storage_pb2.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            verification_mode=mode,
            partitions=[part],
        )
        return (await self.storage.Produce(request, None)).partitions[0]

    async def fill(self, name, count, records, **fields):
        """The same batch so many times."""
        for _ in range(count):
            assert (await self.produce(name, records, **fields)).error_code == 0

    async def fetch(self, name, offset, partition=0, max_bytes=1 << 20, committed=False, **fields):
        part = storage_pb2.FetchPartition(
            topic=name,
            partition=partition,
            fetch_offset=offset,
            max_bytes=max_bytes,
            current_leader_epoch=fields.pop("current_leader_epoch", -1),
        )
        request = storage_pb2.FetchRequest(
            max_bytes=fields.pop("total_bytes", 1 << 24),
            isolation_level=int(committed),
            partitions=[part],
            **fields,
        )
        return (await self.storage.Fetch(request, None)).partitions[0]

    async def mark(self, name, *markers, partition=0, seen=None):
        """Each marker is (producer id, epoch, commit) or more: coordinator epoch, transaction version, start, name."""
        request = storage_pb2.WriteTxnMarkersRequest()
        for marker in markers:
            fields = dict(zip(MARKER_FIELDS, marker, strict=False))
            added = request.markers.add(**fields)
            added.partitions.add(topic=name, partition=partition)
            if seen is not None:
                added.seen.start_offset, added.seen.last_offset = seen
        answer = await self.storage.WriteTxnMarkers(request, None)
        return [result.partitions[0].error_code for result in answer.results]

    async def producers(self, name, partition=0):
        named = types_pb2.TopicPartition(topic=name, partition=partition)
        request = storage_pb2.DescribeProducersRequest(partitions=[named])
        return (await self.storage.DescribeProducers(request, None)).partitions[0].producers

    async def append(self, name, records, partition=0, coordinator_epoch=0, **fields):
        request = storage_pb2.AppendRequest(
            partition=types_pb2.TopicPartition(topic=name, partition=partition),
            coordinator_epoch=coordinator_epoch,
            records=bytes(records),
            timeout_ms=1000,
            **fields,
        )
        return await self.storage.Append(request, None)

    async def list_offset(self, name, timestamp, partition=0, committed=False):
        request = storage_pb2.ListOffsetsRequest(isolation_level=int(committed))
        request.partitions.add(
            topic=name, partition=partition, timestamp_ms=timestamp, current_leader_epoch=-1
        )
        return (await self.storage.ListOffsets(request, None)).partitions[0]

    async def delete_records(self, name, before_offset, partition=0, timeout_ms=0):
        """(error code, low watermark)."""
        request = storage_pb2.DeleteRecordsRequest(timeout_ms=timeout_ms)
        request.partitions.add(topic=name, partition=partition, before_offset=before_offset)
        answer = (await self.storage.DeleteRecords(request, None)).partitions[0]
        return answer.error_code, answer.low_watermark

    async def describe(self, name, partition=0):
        request = storage_pb2.DescribePartitionsRequest()
        request.partitions.add(topic=name, partition=partition)
        return (await self.storage.DescribePartitions(request, None)).partitions[0]

    async def describe_record(self, name, offset):
        partition = types_pb2.TopicPartition(topic=name)
        request = storage_pb2.DescribeRecordRequest(partition=partition, offset=offset)
        return await self.storage.DescribeRecord(request, None)


class Node(Calls):
    """`metadata` takes updates; `coordinator` is the fake."""

    def __init__(self, path, topics, clock=None, sync=sync_logs, **settings):
        self.clock = clock or ManualClock()
        self.coordinator = FakeCoordinator()
        self.metadata = MetadataFollower(NODE, None)
        self._metadata_offset = 0
        self._snapshot(topics)
        self.directory = LocalDirectory(
            storage=None, coordinator=self.coordinator, marker_sender=None, controller=None
        )
        self.role = build_storage(
            StorageSettings(data_dir=path, **settings),
            NODE,
            self.metadata,
            self.directory,
            self.clock,
            sync,
        )
        super().__init__(self.role.servicer)

    def _snapshot(self, topics):
        shards = [
            controller_pb2.Shard(kind=kind, shard=shard, coordinator=NODE, coordinator_epoch=0)
            for kind in (TRANSACTION, GROUP)
            for shard in range(SHARDS)
        ]
        internal = [topic(TRANSACTION_STATE_TOPIC, SHARDS), topic(CONSUMER_OFFSETS_TOPIC, SHARDS)]
        self._take(
            snapshot=controller_pb2.MetadataSnapshot(
                cluster_id="test-cluster", topics=[*topics, *internal], shards=shards
            )
        )

    def delta(self, **fields):
        self._take(delta=controller_pb2.MetadataDelta(**fields))

    def _take(self, **update):
        self._metadata_offset += 1
        self.metadata.apply_update(
            controller_pb2.MetadataUpdate(metadata_offset=self._metadata_offset, **update)
        )


@asynccontextmanager
async def running(path, *topics, **settings):
    node = Node(path, topics, **settings)
    await node.role.start()
    try:
        yield node
    finally:
        await node.role.stop()


def batch(count=1, *, timestamp=NOW, value=b"v", key=b"k", **fields):
    records = [Record(key, value, timestamp + index) for index in range(count)]
    return bytes(encode_batch(records, **fields))


def txn_batch(producer_id, sequence, count=1, *, producer_epoch=0, **fields):
    return batch(
        count,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=True,
        **fields,
    )


async def until(condition, timeout_s=30.0):
    """Wait for a condition with a deadline."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
