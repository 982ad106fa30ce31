"""A storage node that holds producers in a dictionary; `gateway_cluster` says which rules it keeps."""

import asyncio

from oncelog.api.v1 import storage_pb2
from oncelog.api.v1.types_pb2 import PartitionError
from oncelog.errors import ErrorCode


class DictStorage:
    """Producers by partition; high watermark 100 everywhere."""

    def __init__(self):
        self.producers = {}
        self.records = {}
        self.markers = []
        self.described = []
        """Partitions that were asked for their offsets, once for each time."""
        self.fetched = []
        self.consumed = 0
        """Fetches that a leader counts as consumed."""
        self.batches = {}
        """By topic, partition and offset."""
        self.before_describe = []
        self.before_mark = lambda: None
        self.is_silent = False

    def open_transaction(
        self,
        topic,
        partition,
        *,
        producer_id,
        start_offset,
        producer_epoch=0,
        coordinator_epoch=-1,
        timestamp_ms=1,
        last_offset=None,
    ):
        self.producers.setdefault((topic, partition), []).append(
            storage_pb2.ActiveProducer(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                last_sequence=3,
                last_timestamp_ms=timestamp_ms,
                coordinator_epoch=coordinator_epoch,
                current_txn_start_offset=start_offset,
                last_offset=last_offset,
            )
        )

    def end(self, topic, partition, producer_id):
        for one in self.producers.get((topic, partition), []):
            if one.producer_id == producer_id:
                one.current_txn_start_offset = -1

    def _open(self, topic, partition):
        found = self.producers.get((topic, partition), [])
        return sorted(
            (one for one in found if one.current_txn_start_offset >= 0),
            key=lambda one: one.current_txn_start_offset,
        )

    async def _answer(self):
        while self.is_silent:
            await asyncio.Event().wait()

    async def DescribePartitions(self, request, context):  # noqa: N802
        await self._answer()
        rows = []
        self.described += [(one.topic, one.partition) for one in request.partitions]
        for one in request.partitions:
            opened = self._open(one.topic, one.partition)
            row = storage_pb2.PartitionDescription(
                topic=one.topic,
                partition=one.partition,
                log_end_offset=100,
                high_watermark=100,
                last_stable_offset=self._stable(one.topic, one.partition),
                size_bytes=4096,
                segment_count=1,
                lso_holder=opened[0] if opened else storage_pb2.ActiveProducer(producer_id=-1),
                open_transaction_count=len(opened),
            )
            rows.append(row)
        return storage_pb2.DescribePartitionsResponse(partitions=rows)

    async def DescribeProducers(self, request, context):  # noqa: N802
        await self._answer()
        if self.before_describe:
            self.before_describe.pop(0)()
        return storage_pb2.DescribeProducersResponse(
            partitions=[
                storage_pb2.PartitionProducers(
                    topic=one.topic,
                    partition=one.partition,
                    producers=self.producers.get((one.topic, one.partition), []),
                )
                for one in request.partitions
            ]
        )

    async def DescribeRecord(self, request, context):  # noqa: N802
        """What a test put there; else a record without a transaction."""
        await self._answer()
        where = (request.partition.topic, request.partition.partition)
        opened = self._open(*where)
        found = storage_pb2.DescribeRecordResponse(
            fate=storage_pb2.NOT_TRANSACTIONAL,
            log_end_offset=100,
            high_watermark=90,
            last_stable_offset=opened[0].current_txn_start_offset if opened else 90,
            producer_id=-1,
            txn_first_offset=-1,
            txn_last_offset=-1,
        )
        found.MergeFrom(
            self.records.get((*where, request.offset), storage_pb2.DescribeRecordResponse())
        )
        return found

    async def Produce(self, request, context):  # noqa: N802
        """It keeps nothing."""
        await self._answer()
        return storage_pb2.ProduceResponse(
            partitions=[
                storage_pb2.PartitionProduced(topic=one.topic, partition=one.partition)
                for one in request.partitions
            ]
        )

    async def Fetch(self, request, context):  # noqa: N802
        """It holds no records but those in `batches`: all below the last stable offset is cleaned away."""
        await self._answer()
        self.consumed += not request.uncounted
        self.fetched += [(one.topic, one.partition, one.fetch_offset) for one in request.partitions]
        return storage_pb2.FetchResponse(
            partitions=[
                storage_pb2.FetchedPartition(
                    topic=one.topic,
                    partition=one.partition,
                    high_watermark=100,
                    last_stable_offset=self._stable(one.topic, one.partition),
                    records=self.batches.get((one.topic, one.partition, one.fetch_offset), b""),
                )
                for one in request.partitions
            ]
        )

    def _stable(self, topic, partition):
        opened = self._open(topic, partition)
        return opened[0].current_txn_start_offset if opened else 100

    async def ListOffsets(self, request, context):  # noqa: N802
        """Logs begin at 5 and end at 100; record N has the timestamp N."""
        await self._answer()
        return storage_pb2.ListOffsetsResponse(
            partitions=[
                storage_pb2.ListedOffset(
                    topic=one.topic,
                    partition=one.partition,
                    offset={-2: 5, -1: 100}.get(
                        one.timestamp_ms, one.timestamp_ms if one.timestamp_ms < 100 else -1
                    ),
                )
                for one in request.partitions
            ]
        )

    async def WriteTxnMarkers(self, request, context):  # noqa: N802
        await self._answer()
        self.before_mark()
        results = []
        for marker in request.markers:
            self.markers.append(marker)
            errors = []
            for one in marker.partitions:
                code = ErrorCode.NONE
                for producer in self.producers.get((one.topic, one.partition), []):
                    if producer.producer_id == marker.producer_id:
                        if marker.HasField("seen") and not _is_as_seen(producer, marker.seen):
                            code = ErrorCode.INVALID_TXN_STATE
                        elif marker.coordinator_epoch < producer.coordinator_epoch:
                            code = ErrorCode.TRANSACTION_COORDINATOR_FENCED
                        else:
                            producer.current_txn_start_offset = -1
                errors.append(
                    PartitionError(topic=one.topic, partition=one.partition, error_code=code)
                )
            results.append(
                storage_pb2.MarkerResult(producer_id=marker.producer_id, partitions=errors)
            )
        return storage_pb2.WriteTxnMarkersResponse(results=results)


def _is_as_seen(producer, seen):
    return (producer.current_txn_start_offset, producer.last_offset) == (
        seen.start_offset,
        seen.last_offset,
    )
