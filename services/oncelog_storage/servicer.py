"""The storage service: it translates between protobuf and the handlers, and decides nothing.

Expected errors are codes in the responses. No exception reaches a client.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, Partition
from oncelog.record.batch import BatchHeader, read_single_batch
from oncelog.rpc import plain
from oncelog.runtime import Clock
from oncelog_storage import direct_answers, offsets
from oncelog_storage.core.offset_queries import end_offset_for
from oncelog_storage.core.partition_values import Appended
from oncelog_storage.fetch import FetchHandler
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.markers import MarkerHandler
from oncelog_storage.produce import AnyProduceRequest, ProduceHandler, refuse
from oncelog_storage.record_deletion import RecordDeletion
from oncelog_storage.record_fate import describe_producer, describe_record
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.replica_sessions import ReplicaSessions
from oncelog_storage.segment_reader import SegmentReader

_APPEND_TIMEOUT_MS: Final = 30_000


class StorageServicer:
    direct_methods: ClassVar = {
        "Fetch": "fetch_directly",
        "Produce": "produce_directly",
        "ProduceAtOnce": "produce_at_once",
        "AppendAtOnce": "append_at_once",
        "WriteMarkersAtOnce": "write_markers_at_once",
    }

    def __init__(
        self,
        replica_manager: ReplicaManager,
        produce: ProduceHandler,
        fetch: FetchHandler,
        replica_sessions: ReplicaSessions,
        markers: MarkerHandler,
        clock: Clock,
        reader: SegmentReader,
    ) -> None:
        self._reader = reader
        self._replica_manager = replica_manager
        self._produce = produce
        self._fetch = fetch
        self._replica_sessions = replica_sessions
        self._markers = markers
        self._deletion = RecordDeletion(replica_manager, replica_sessions)
        self._clock = clock

    async def Produce(self, request: pb.ProduceRequest, context: object) -> pb.ProduceResponse:
        return await self._produce.produce(request, pb.ProduceResponse)

    async def produce_directly(
        self, request: AnyProduceRequest, context: object
    ) -> direct_answers.ProduceResponse:
        return await self._produce.produce(request, direct_answers.ProduceResponse)

    def produce_at_once(
        self, request: plain.ProduceRequest, context: object
    ) -> direct_answers.PartitionsProduced | None:
        return self._produce.produce_at_once(request)

    async def Append(self, request: pb.AppendRequest, context: object) -> pb.AppendResponse:
        response = pb.AppendResponse(base_offset=-1)
        try:
            led = self._replica_manager.led(request.partition.topic, request.partition.partition)
            is_expected = request.HasField("expected_base_offset")
            expected_base_offset = request.expected_base_offset if is_expected else None
            appended = self._appended(led, request, expected_base_offset)
            if led.high_watermark <= appended.last_offset:
                timeout_s = (request.timeout_ms or _APPEND_TIMEOUT_MS) / 1000
                code = await led.wait_committed(appended.last_offset, timeout_s)
                if code:
                    raise KafkaError(
                        code, f"the batch at offset {appended.base_offset} is not known committed"
                    )
            response.base_offset = appended.base_offset
        except KafkaError as error:
            refuse(response, error)
        return response

    def append_at_once(self, request: plain.AppendRequest, context: object) -> bool:
        """Append a batch for a coordinator of this process. True if the batch is committed where it is expected.

        False: nothing was written. The caller then calls `Append`, which says why, or writes and waits.
        """
        try:
            led = self._replica_manager.led(*request.partition)
            if not led.commits_at_once:
                return False
            log_end = led.log.log_end_offset
            appended = self._appended(led, request, request.expected_base_offset)
        except KafkaError:
            return False
        if (
            appended.base_offset == request.expected_base_offset
            and led.high_watermark > appended.last_offset
        ):
            return True
        # A coordinator may drop what it decided: that must not be in the log.
        assert led.log.log_end_offset == log_end, f"{request.partition}: written, not committed"
        return False

    def _appended(
        self,
        led: HostedPartition,
        request: pb.AppendRequest | plain.AppendRequest,
        expected_base_offset: int | None,
    ) -> Appended:
        """Append a coordinator's batch, and return its place. Raises KafkaError."""
        led.require_enough_replicas()
        records = request.records
        header = _coordinator_batch(records, led)
        self._replica_manager.admit_coordinator(led, request.coordinator_epoch)
        return led.append_from_coordinator(
            records, header, request.coordinator_epoch, expected_base_offset, self._clock.now()
        )

    async def Fetch(self, request: pb.FetchRequest, context: object) -> pb.FetchResponse:
        return await self._fetch.fetch(request, pb.FetchResponse)

    async def fetch_directly(
        self, request: pb.FetchRequest, context: object
    ) -> direct_answers.FetchResponse:
        return await self._fetch.fetch(request, direct_answers.FetchResponse)

    async def ReplicaFetch(
        self, request: pb.ReplicaFetchRequest, context: object
    ) -> pb.ReplicaFetchResponse:
        return await self._replica_sessions.fetch(request)

    async def ListOffsets(
        self, request: pb.ListOffsetsRequest, context: object
    ) -> pb.ListOffsetsResponse:
        response = pb.ListOffsetsResponse()
        is_committed_only = request.isolation_level == types_pb2.READ_COMMITTED
        for part in request.partitions:
            answer = response.partitions.add(
                topic=part.topic,
                partition=part.partition,
                timestamp_ms=-1,
                offset=-1,
                leader_epoch=-1,
            )
            try:
                await offsets.await_inherited(self._led(part))
                find = partial(self._list_offset, part, is_committed_only=is_committed_only)
                found = await self._reader.read(find)
                answer.timestamp_ms, answer.offset, answer.leader_epoch = found
            except KafkaError as error:
                answer.error_code = error.error_code
        return response

    def _led(self, part: pb.ListOffsetsPartition) -> HostedPartition:
        """Return the partition of a ListOffsets request, which this node leads. Raises KafkaError."""
        led = self._replica_manager.led(part.topic, part.partition)
        led.require_leader_epoch(part.current_leader_epoch)
        return led

    def _list_offset(
        self, part: pb.ListOffsetsPartition, *, is_committed_only: bool
    ) -> tuple[int, int, int]:
        """Find an offset for ListOffsets in one step, which checks the leadership first: the topic may be gone since
        the last try.

        Raises KafkaError.
        """
        return offsets.list_offset(
            self._led(part), part.timestamp_ms, is_committed_only=is_committed_only
        )

    async def OffsetsForLeaderEpoch(
        self, request: pb.OffsetsForLeaderEpochRequest, context: object
    ) -> pb.OffsetsForLeaderEpochResponse:
        response = pb.OffsetsForLeaderEpochResponse()
        for part in request.partitions:
            answer = response.partitions.add(
                topic=part.topic, partition=part.partition, leader_epoch=-1, end_offset=-1
            )
            try:
                led = self._replica_manager.led(part.topic, part.partition)
                led.require_leader_epoch(part.current_leader_epoch)
                answer.leader_epoch, answer.end_offset = end_offset_for(led, part.leader_epoch)
            except KafkaError as error:
                answer.error_code = error.error_code
        return response

    async def WriteTxnMarkers(
        self, request: pb.WriteTxnMarkersRequest, context: object
    ) -> pb.WriteTxnMarkersResponse:
        return await self._markers.write(request)

    def write_markers_at_once(
        self, request: plain.WriteTxnMarkersRequest, context: object
    ) -> Sequence[bool]:
        return self._markers.write_at_once(request)

    async def DescribeProducers(
        self, request: pb.DescribeProducersRequest, context: object
    ) -> pb.DescribeProducersResponse:
        response = pb.DescribeProducersResponse()
        for part in request.partitions:
            answer = response.partitions.add(topic=part.topic, partition=part.partition)
            try:
                led = self._replica_manager.led(part.topic, part.partition)
            except KafkaError as error:
                refuse(answer, error)
                continue
            for entry in led.log.producers.entries():
                describe_producer(answer.producers.add(), entry)
        return response

    async def DescribePartitions(
        self, request: pb.DescribePartitionsRequest, context: object
    ) -> pb.DescribePartitionsResponse:
        response = pb.DescribePartitionsResponse()
        wanted = [Partition(part.topic, part.partition) for part in request.partitions]
        for partition in wanted or self._replica_manager.led_here():
            answer = response.partitions.add(topic=partition.topic, partition=partition.partition)
            answer.lso_holder.producer_id = -1
            try:
                _describe_partition(answer, self._replica_manager.led(*partition))
            except KafkaError as error:
                answer.error_code = error.error_code
        return response

    async def DescribeRecord(
        self, request: pb.DescribeRecordRequest, context: object
    ) -> pb.DescribeRecordResponse:
        response = pb.DescribeRecordResponse()
        try:
            await self._reader.read(partial(self._describe_record, request, response))
        except KafkaError as error:
            refuse(response, error)
        return response

    def _describe_record(
        self, request: pb.DescribeRecordRequest, response: pb.DescribeRecordResponse
    ) -> None:
        """Fill the response about one record in one step, which checks the leadership first. Raises KafkaError."""
        led = self._replica_manager.led(request.partition.topic, request.partition.partition)
        describe_record(led, request.offset, response)

    async def DeleteRecords(
        self, request: pb.DeleteRecordsRequest, context: object
    ) -> pb.DeleteRecordsResponse:
        return await self._deletion.delete(request)


def _coordinator_batch(records: bytes, led: HostedPartition) -> BatchHeader:
    """Return the header of the one whole batch that a coordinator appends. The records in it are not checked.

    Raises KafkaError for other bytes, and for a batch that a coordinator may not append here.
    """
    header = read_single_batch(records, led.log.config.max_message_bytes)
    if header.size_bytes != len(records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a coordinator sends one batch and no more")
    if header.record_count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a coordinator appends batches with every offset"
        )
    is_of_groups = led.partition.topic == CONSUMER_OFFSETS_TOPIC
    if (header.is_control or header.is_transactional) and not is_of_groups:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{led.partition} takes no part in transactions")
    return header


def _describe_partition(answer: pb.PartitionDescription, led: HostedPartition) -> None:
    log = led.log
    answer.log_start_offset = log.log_start_offset
    answer.log_end_offset = log.log_end_offset
    answer.high_watermark = led.high_watermark
    answer.last_stable_offset = led.last_stable_offset
    answer.size_bytes = log.size_bytes
    answer.segment_count = len(log.segments)
    answer.leader_epoch = led.leadership.leader_epoch
    answer.open_transaction_count = log.producers.ongoing_count
    holder = led.lso_holder()
    if holder is not None:
        describe_producer(answer.lso_holder, holder)
