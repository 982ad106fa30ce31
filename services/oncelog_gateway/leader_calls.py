"""Calls to partition leaders: which node to ask, for how long, and what its silence means.

A call without an answer in time becomes REQUEST_TIMED_OUT. If a node's address is not known, each partition that it
leads gets that error.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from typing import Protocol, TypeVar

from oncelog.api.v1 import controller_pb2, storage_pb2, types_pb2
from oncelog.api.v1.types_pb2 import TopicPartition
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, Partition
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import GROUP, MetadataFollower, MetadataImage
from oncelog.rpc.sessions import MethodMissing, PeerUnavailable
from oncelog.rpc.stubs import (
    GroupCoordinatorStub,
    StorageStub,
    Unary,
)
from oncelog_gateway.core.interlock import AbortMarker
from oncelog_gateway.one_reading import read_once
from oncelog_gateway.time_budget import wait_s

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class _OfPartition(Protocol):
    """A row of a leader's answer that is about one partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def error_code(self) -> int: ...


FoundT = TypeVar("FoundT", bound=_OfPartition)
RowT_co = TypeVar("RowT_co", covariant=True)


class _Partitions(Protocol[RowT_co]):
    """An answer of a leader with one row for each partition that was asked about."""

    @property
    def partitions(self) -> Iterable[RowT_co]: ...


def raise_for(error_code: int, message: str) -> None:
    """Raise KafkaError unless the code is NONE."""
    if error_code != ErrorCode.NONE:
        raise KafkaError(error_code_of(error_code), message)


async def all_answers(
    calls: Iterable[Coroutine[object, object, ResponseT]],
) -> tuple[list[ResponseT], list[KafkaError]]:
    """Await all calls at the same time. Return the answers, and the errors of the calls that failed."""
    answers: list[ResponseT] = []
    failures: list[KafkaError] = []

    async def add_answer(call: Coroutine[object, object, ResponseT]) -> None:
        try:
            answers.append(await call)
        except KafkaError as error:
            failures.append(error)

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(add_answer(call))
    return answers, failures


class LeaderCalls:
    """Sends requests to the leaders of partitions. Every method raises KafkaError."""

    def __init__(
        self, metadata: MetadataFollower, directory: Directory, call_timeout_ms: int
    ) -> None:
        self.metadata = metadata
        self.directory = directory
        self._call_timeout_ms = call_timeout_ms

    @property
    def timeout_ms(self) -> int:
        """The milliseconds that the gateway waits for a leader's answer to each call."""
        return self._call_timeout_ms

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @read_once
    async def describe_partitions(
        self, partitions: Iterable[Partition]
    ) -> dict[Partition, storage_pb2.PartitionDescription | KafkaError]:
        """Return the offsets of each partition as its leader answers them, or the error in place of the answer."""
        return await self._of_leaders(
            partitions,
            lambda storage: storage.DescribePartitions,
            lambda led: storage_pb2.DescribePartitionsRequest(partitions=_named(led)),
        )

    async def describe_producers(
        self, partitions: Iterable[Partition]
    ) -> dict[Partition, storage_pb2.PartitionProducers | KafkaError]:
        """Return the producers that each partition's leader remembers, or the error in place of its answer."""
        return await self._of_leaders(
            partitions,
            lambda storage: storage.DescribeProducers,
            lambda led: storage_pb2.DescribeProducersRequest(partitions=_named(led)),
        )

    async def describe_record(
        self, partition: Partition, offset: int
    ) -> storage_pb2.DescribeRecordResponse:
        """Return what the partition's leader says of the record at `offset`, such as the state of its transaction.
        Raises KafkaError if it answers with an error.
        """
        named = TopicPartition(topic=partition.topic, partition=partition.partition)
        request = storage_pb2.DescribeRecordRequest(partition=named, offset=offset)
        stub = self._storage(partition, self.leader_of(partition))
        answer = await self.call("the partition leader", stub.DescribeRecord, request)
        raise_for(answer.error_code, answer.error_message or f"{partition} at offset {offset}")
        return answer

    async def list_offsets(
        self, partitions: Iterable[Partition], timestamp_ms: int
    ) -> dict[Partition, storage_pb2.ListedOffset | KafkaError]:
        """Return the offset for a timestamp, as Kafka's ListOffsets: -1 is the high watermark, -2 the start of the
        log, else the first record that is not older.
        """

        def request(led: list[Partition]) -> storage_pb2.ListOffsetsRequest:
            return storage_pb2.ListOffsetsRequest(
                partitions=[
                    storage_pb2.ListOffsetsPartition(
                        topic=one.topic,
                        partition=one.partition,
                        timestamp_ms=timestamp_ms,
                        current_leader_epoch=-1,
                    )
                    for one in led
                ]
            )

        return await self._of_leaders(partitions, lambda storage: storage.ListOffsets, request)

    async def fetch(
        self, partition: Partition, offset: int, max_bytes: int, isolation: types_pb2.IsolationLevel
    ) -> storage_pb2.FetchedPartition:
        """Return the batches from `offset` on, as a consumer gets them: whole batches, at least one. The call does not
        wait for new records.

        These bytes do not count in the topics' rates, because looking at records is not consuming them.
        """
        wanted = storage_pb2.FetchPartition(
            topic=partition.topic,
            partition=partition.partition,
            fetch_offset=offset,
            max_bytes=max_bytes,
            current_leader_epoch=-1,
        )
        request = storage_pb2.FetchRequest(
            max_bytes=max_bytes, isolation_level=isolation, partitions=[wanted], uncounted=True
        )
        answer = await self.ask_leader(partition, lambda storage: storage.Fetch, request)
        (found,) = answer.partitions
        raise_for(found.error_code, f"{partition} at offset {offset}")
        return found

    async def ask_leader(
        self,
        partition: Partition,
        method: Callable[[StorageStub], Unary[RequestT, ResponseT]],
        request: RequestT,
    ) -> ResponseT:
        """Send a request to the partition's leader, and return the answer."""
        call = method(self._storage(partition, self.leader_of(partition)))
        return await self.call(f"the leader of {partition}", call, request)

    async def write_abort_marker(self, marker: AbortMarker) -> None:
        """Send one abort marker to the partition's leader, which appends it (docs/kafka-facts.md, 1.4: the request is
        WriteTxnMarkers).
        """
        node_id, stub = self._marker_writer(marker.partition)
        wanted = storage_pb2.TxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            commit=False,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
            partitions=_named([marker.partition]),
        )
        if marker.seen is not None:
            wanted.seen.start_offset, wanted.seen.last_offset = marker.seen
        request = storage_pb2.WriteTxnMarkersRequest(markers=[wanted])
        answer = await self.call(f"node {node_id}", stub.WriteTxnMarkers, request)
        for result in answer.results:
            for one in result.partitions:
                raise_for(one.error_code, one.error_message or _refusal(one.error_code, marker))

    def topic(self, name: str) -> controller_pb2.Topic:
        found = self.image.topics.get(name)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no topic {name!r}; GET /v1/topics lists all",
            )
        return found

    def leader_of(self, partition: Partition) -> int:
        """Return the leader's node id. Raises KafkaError for a partition that does not exist or has no leader now."""
        found = self.image.partition(partition)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {partition.partition} of a topic {partition.topic!r}; GET /v1/topics lists all",
            )
        if found.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return found.leader

    def _marker_writer(
        self, partition: Partition
    ) -> tuple[int, StorageStub | GroupCoordinatorStub]:
        """Return node id and stub of the role that appends markers to the partition. It is the leader or, for a
        partition of `__consumer_offsets`, the group coordinator that owns it (ADR 0015).
        """
        leader = self.leader_of(partition)
        if partition.topic != CONSUMER_OFFSETS_TOPIC:
            return leader, self._storage(partition, leader)
        shard = self.image.shards.get((GROUP, partition.partition))
        owner = -1 if shard is None else shard.coordinator
        try:
            return owner, self.directory.group_coordinator(owner)
        except KeyError:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"group shard {partition.partition} has no coordinator now",
            ) from None

    def _storage(self, partition: Partition, leader: int) -> StorageStub:
        try:
            return self.directory.storage(leader)
        except KeyError:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"node {leader}, which leads {partition}, has no known address yet",
            ) from None

    async def _of_leaders(
        self,
        partitions: Iterable[Partition],
        method: Callable[[StorageStub], Unary[RequestT, _Partitions[FoundT]]],
        request: Callable[[list[Partition]], RequestT],
    ) -> dict[Partition, FoundT | KafkaError]:
        found: dict[Partition, FoundT | KafkaError] = {}
        of_leader: dict[int, list[Partition]] = defaultdict(list)
        stubs: dict[int, StorageStub] = {}
        for partition in partitions:
            try:
                leader = self.leader_of(partition)
                stubs.setdefault(leader, self._storage(partition, leader))
                of_leader[leader].append(partition)
            except KafkaError as error:
                found[partition] = error

        async def ask_leader(leader: int, led: list[Partition]) -> None:
            try:
                call = method(stubs[leader])
                answer = await self.call("the partition leader", call, request(led))
            except KafkaError as error:
                found.update(dict.fromkeys(led, error))
                return
            for one in answer.partitions:
                partition = Partition(one.topic, one.partition)
                found[partition] = (
                    KafkaError(error_code_of(one.error_code), f"node {leader} about {partition}")
                    if one.error_code
                    else one
                )
            for partition in led:
                found.setdefault(
                    partition,
                    KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"node {leader} does not know {partition} yet",
                    ),
                )

        async with asyncio.TaskGroup() as group:
            for leader, led in of_leader.items():
                group.create_task(ask_leader(leader, led))
        return found

    async def call(
        self, whom: str, method: Unary[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        timeout_s = wait_s(self._call_timeout_ms / 1000)
        try:
            return await method(request, timeout=timeout_s)
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{whom} did not answer within {timeout_s * 1000:.0f} ms; whether it acted is not known",
            ) from None
        except MethodMissing as error:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{whom} is of an older version, which cannot do this ({error}); upgrade its process",
            ) from error
        except PeerUnavailable as error:
            if not error.was_sent:
                raise KafkaError(
                    ErrorCode.BROKER_NOT_AVAILABLE, f"{whom} cannot be reached: {error}"
                ) from error
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{whom} went away before it answered; whether it acted is not known",
            ) from error


def _refusal(error_code: int, marker: AbortMarker) -> str:
    if error_code != ErrorCode.INVALID_TXN_STATE:
        return f"{marker.partition} refuses the abort marker, and nothing was written"
    return (
        f"the transaction that was looked at in {marker.partition} has ended meanwhile, or its producer "
        f"{marker.producer_id} has written more; nothing was written: look again before you end it"
    )


def _named(partitions: Iterable[Partition]) -> list[TopicPartition]:
    return [TopicPartition(topic=one.topic, partition=one.partition) for one in partitions]
