"""Small roles behind a listener: they answer the contracts' methods from dictionaries, and remember their requests.

`canned` replaces the answer of a method, by its name, with a fixed message or an exception.
"""

# ruff: noqa: N802 (the methods' names are the contract's)

import asyncio
import functools

from tests.worlds.listener.listener_image import topic

from oncelog.api.v1 import controller_pb2, coordinator_pb2, storage_pb2
from oncelog.errors import ErrorCode
from oncelog.record.batch import read_header, stamp

PARTITIONS_MAX = 1_000
IMAGE_LAG_S = 0.01


def _remembered(method):
    @functools.wraps(method)
    async def answer(self, request, context):
        canned = self.take(method.__name__, request)
        return await method(self, request, context) if canned is None else canned

    return answer


class FakeRole:
    WITH_A_GATE = ()
    """Methods that wait at a gate before they give even a canned answer."""

    def __init_subclass__(cls):
        for name, method in list(vars(cls).items()):
            is_call = name[0].isupper() and callable(method) and not hasattr(method, "__wrapped__")
            if is_call and name not in cls.WITH_A_GATE:
                setattr(cls, name, _remembered(method))

    def __init__(self):
        self.calls = []
        self.canned = {}

    def received(self, method):
        return [request for name, request in self.calls if name == method]

    def take(self, method, request):
        """The canned answer of the method, or None."""
        self.calls.append((method, request))
        answer = self.canned.get(method)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class FakeStorage(FakeRole):
    WITH_A_GATE = ("Produce",)

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

    async def DescribePartitions(self, request, context):
        response = storage_pb2.DescribePartitionsResponse()
        for one in request.partitions:
            size = sum(map(len, self.log(one.topic, one.partition)))
            response.partitions.add(topic=one.topic, partition=one.partition, size_bytes=size)
        return response

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
        response = storage_pb2.ListOffsetsResponse()
        for one in request.partitions:
            offset = 0 if one.timestamp_ms == -2 else self.end_offset(one.topic, one.partition)
            response.partitions.add(
                topic=one.topic, partition=one.partition, timestamp_ms=-1, offset=offset
            )
        return response

    async def OffsetsForLeaderEpoch(self, request, context):
        response = storage_pb2.OffsetsForLeaderEpochResponse()
        for one in request.partitions:
            end = self.end_offset(one.topic, one.partition)
            response.partitions.add(
                topic=one.topic,
                partition=one.partition,
                leader_epoch=one.leader_epoch,
                end_offset=end,
            )
        return response

    async def WriteTxnMarkers(self, request, context):
        response = storage_pb2.WriteTxnMarkersResponse()
        for marker in request.markers:
            result = response.results.add(producer_id=marker.producer_id)
            for one in marker.partitions:
                result.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def DescribeProducers(self, request, context):
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
        response = storage_pb2.DeleteRecordsResponse()
        for one in request.partitions:
            response.partitions.add(topic=one.topic, partition=one.partition, low_watermark=5)
        return response


class FakeCoordinator(FakeRole):
    async def InitProducerId(self, request, context):
        return coordinator_pb2.InitProducerIdResponse(producer_id=4000, producer_epoch=0)

    async def AddPartitionsToTxn(self, request, context):
        response = coordinator_pb2.AddPartitionsToTxnResponse()
        for transaction in request.transactions:
            result = response.results.add(transactional_id=transaction.transactional_id)
            for one in transaction.partitions:
                result.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def AddOffsetsToTxn(self, request, context):
        return coordinator_pb2.AddOffsetsToTxnResponse()

    async def EndTxn(self, request, context):
        is_tv2 = request.client_transaction_version == 2
        return coordinator_pb2.EndTxnResponse(
            producer_id=request.producer_id if is_tv2 else -1,
            producer_epoch=min(request.producer_epoch + 1, 32_767) if is_tv2 else -1,
        )

    async def DescribeTransactions(self, request, context):
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
        response = coordinator_pb2.ListTransactionsResponse(unknown_state_filters=["Bogus"])
        response.transactions.add(transactional_id="pay", producer_id=4000, state="Ongoing")
        return response

    async def OpenAttempt(self, request, context):
        return coordinator_pb2.OpenAttemptResponse(sink_epoch=9)


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
        asyncio.get_running_loop().call_later(IMAGE_LAG_S, self.metadata.apply_update, update)
        return self.metadata_offset

    async def CreateTopics(self, request, context):
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
        response = controller_pb2.DeleteTopicsResponse()
        for name in request.names:
            known = name in self.metadata.image.topics
            response.results.add(name=name, error_code=0 if known else 3)
        removed = list(request.names)
        for topic_id in request.topic_ids:
            found = self.metadata.image.topics_by_id.get(topic_id)
            if found is None:
                response.results.add(topic_id=topic_id, error_code=100)
            else:
                response.results.add(name=found.name, topic_id=topic_id)
                removed.append(found.name)
        response.metadata_offset = self.change(removed_topics=removed)
        return response

    async def CreatePartitions(self, request, context):
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

    async def CreateAcls(self, request, context):
        response = controller_pb2.CreateAclsResponse(metadata_offset=self.metadata_offset)
        for _ in request.acls:
            response.results.add()
        return response

    async def DeleteAcls(self, request, context):
        response = controller_pb2.DeleteAclsResponse(metadata_offset=self.metadata_offset)
        for _ in request.filters:
            response.results.add()
        return response

    async def AlterUserScramCredentials(self, request, context):
        response = controller_pb2.AlterUserScramCredentialsResponse(
            metadata_offset=self.metadata_offset
        )
        for user in dict.fromkeys(one.user for one in request.credentials):
            response.results.add(user=user)
        return response

    async def AlterClientQuotas(self, request, context):
        response = controller_pb2.AlterClientQuotasResponse(metadata_offset=self.metadata_offset)
        for _ in request.changes:
            response.results.add()
        return response

    async def AlterConfigs(self, request, context):
        if request.kind != controller_pb2.CONFIG_KIND_TOPIC:
            return controller_pb2.AlterConfigsResponse(metadata_offset=self.metadata_offset)
        old = self.metadata.image.topics[request.name]
        configs = {**old.configs, **request.set}
        for name in request.remove:
            configs.pop(name, None)
        response = controller_pb2.AlterConfigsResponse()
        if not request.validate_only:
            response.metadata_offset = self.change(
                topics=[topic(request.name, len(old.partitions), configs)]
            )
        return response

    def _of_each(self, response, keys):
        """For each partition NONE, or UNKNOWN_TOPIC_OR_PARTITION where the image has none."""
        for topic_name, partition in keys:
            known = self.metadata.image.topics.get(topic_name)
            is_there = known is not None and partition in range(len(known.partitions))
            code = ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.partitions.add(topic=topic_name, partition=partition, error_code=code)
        response.metadata_offset = self.metadata_offset
        return response

    async def ElectLeaders(self, request, context):
        keys = [(one.topic, one.partition) for one in request.partitions]
        return self._of_each(controller_pb2.ElectLeadersResponse(), keys)

    async def ReassignPartitions(self, request, context):
        keys = [(one.partition.topic, one.partition.partition) for one in request.assignments]
        return self._of_each(controller_pb2.ReassignPartitionsResponse(), keys)

    async def UpdateFeatures(self, request, context):
        return controller_pb2.UpdateFeaturesResponse(metadata_offset=self.metadata_offset)
