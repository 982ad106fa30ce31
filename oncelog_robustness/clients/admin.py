"""The admin client that every library's adapter uses, for topics and offsets. It speaks Kafka's protocol itself,
because no Python client can ask for stable offsets only (RequireStable)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from oncelog.client.core.addresses import Address
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.protocol import versions
from oncelog_robustness.clients.contract import Refused, Unanswered
from oncelog_robustness.clients.wire import (
    GROUP,
    Brokers,
    Lost,
    Unreachable,
    by_topic,
    check,
    retrying,
    types_of,
)
from oncelog_robustness.history import Isolation, Partition

CALL_TIMEOUT_S: Final = 30.0
SERVER_TIMEOUT: Final = timedelta(seconds=5)
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

ResultT = TypeVar("ResultT")


class WireAdmin:
    """An `Admin` that speaks Kafka's protocol itself. It repeats each request until that succeeds or 30 seconds are
    over."""

    def __init__(self, bootstrap: Sequence[str], client: str) -> None:
        self._brokers = Brokers(bootstrap, client)

    async def create_topic(
        self, topic: str, partitions: int, replicas: int, config: Mapping[str, str]
    ) -> None:
        types = types_of(versions.CREATE_TOPICS)
        wanted = types.CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=(),
            configs=tuple(
                types.CreatableTopicConfig(name=name, value=value) for name, value in config.items()
            ),
        )
        request = types.CreateTopicsRequest(topics=(wanted,), timeout=SERVER_TIMEOUT)

        async def create() -> None:
            response = await self._brokers.call_any(versions.CREATE_TOPICS, request)
            found = response.topics[0]
            if error_code_of(found.error_code.value) is not ErrorCode.TOPIC_ALREADY_EXISTS:
                check(found.error_code.value, f"create {topic}: {found.error_message}")

        await self._done(create)
        await self._done(lambda: self._has_leaders(topic, partitions))

    async def add_partitions(self, topic: str, partitions: int) -> None:
        types = types_of(versions.CREATE_PARTITIONS)
        wanted = types.CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
        request = types.CreatePartitionsRequest(
            topics=(wanted,), timeout=SERVER_TIMEOUT, validate_only=False
        )

        async def add() -> None:
            if await self._brokers.refresh(topic) >= partitions:
                return
            response = await self._brokers.call_any(versions.CREATE_PARTITIONS, request)
            found = response.results[0]
            # An earlier try of ours may have done it, unanswered.
            if error_code_of(found.error_code.value) is not ErrorCode.INVALID_PARTITIONS:
                check(found.error_code.value, f"partitions of {topic}: {found.error_message}")

        await self._done(add)
        await self._done(lambda: self._has_leaders(topic, partitions))

    async def _has_leaders(self, topic: str, partitions: int) -> None:
        if await self._brokers.refresh(topic) < partitions:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic} has not all partitions yet")
        for partition in range(partitions):
            await self._brokers.leader_of((topic, partition))

    async def delete_topic(self, topic: str) -> None:
        request = types_of(versions.DELETE_TOPICS).DeleteTopicsRequest(
            topic_names=(topic,), timeout=SERVER_TIMEOUT
        )

        async def delete() -> None:
            response = await self._brokers.call_any(versions.DELETE_TOPICS, request)
            code = error_code_of(response.responses[0].error_code.value)
            if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                check(code, f"delete {topic}")

        await self._done(delete)

    async def delete_records(self, before: Mapping[Partition, int]) -> None:
        types = types_of(versions.DELETE_RECORDS)

        async def delete(partition: Partition, offset: int) -> None:
            topic, number = partition
            wanted = types.DeleteRecordsPartition(partition_index=number, offset=offset)
            request = types.DeleteRecordsRequest(
                topics=(types.DeleteRecordsTopic(name=topic, partitions=(wanted,)),),
                timeout=SERVER_TIMEOUT,
            )
            leader = await self._brokers.leader_of(partition)
            response = await self._brokers.call(leader, versions.DELETE_RECORDS, request)
            check(response.topics[0].partitions[0].error_code.value, f"records of {partition}")

        for partition, offset in before.items():
            await self._done(lambda one=partition, at=offset: delete(one, at))  # type: ignore[misc]

    async def bounds(
        self, partitions: Sequence[Partition], isolation: Isolation
    ) -> Mapping[Partition, tuple[int, int]]:
        level = READ_COMMITTED if isolation is Isolation.READ_COMMITTED else READ_UNCOMMITTED

        async def ask() -> Mapping[Partition, tuple[int, int]]:
            starts = await self._offsets(partitions, EARLIEST, level)
            ends = await self._offsets(partitions, LATEST, level)
            return {partition: (starts[partition], ends[partition]) for partition in partitions}

        return await self._done(ask)

    async def _offsets(
        self, partitions: Sequence[Partition], timestamp: int, level: int
    ) -> dict[Partition, int]:
        types = types_of(versions.LIST_OFFSETS)
        of_leader: dict[Address, list[Partition]] = {}
        for partition in partitions:
            of_leader.setdefault(await self._brokers.leader_of(partition), []).append(partition)
        found = {}
        for leader, wanted in of_leader.items():
            request = types.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=level,
                topics=tuple(
                    types.ListOffsetsTopic(
                        name=topic,
                        partitions=tuple(
                            types.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                            for number in numbers
                        ),
                    )
                    for topic, numbers in by_topic(wanted).items()
                ),
            )
            response = await self._brokers.call(leader, versions.LIST_OFFSETS, request)
            for topic in response.topics:
                for one in topic.partitions:
                    check(one.error_code.value, f"offsets of {topic.name} {one.partition_index}")
                    found[(str(topic.name), int(one.partition_index))] = int(one.offset)
        return found

    async def committed(
        self, group: str, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int]:
        types = types_of(versions.OFFSET_FETCH)
        request = types.OffsetFetchRequest(
            group_id=group,
            topics=tuple(
                types.OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in by_topic(partitions).items()
            ),
            require_stable=True,
        )

        async def ask() -> dict[Partition, int]:
            coordinator = await self._brokers.coordinator_of(GROUP, group)
            response = await self._brokers.call(coordinator, versions.OFFSET_FETCH, request)
            check(response.error_code.value, f"offsets of {group}")
            found = {}
            for topic in response.topics:
                for one in topic.partitions:
                    check(one.error_code.value, f"offset of {group} in {topic.name}")
                    found[(str(topic.name), int(one.partition_index))] = int(one.committed_offset)
            return found

        return await self._done(ask)

    async def close(self) -> None:
        self._brokers.close()

    async def _done(self, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
        try:
            return await retrying(self._brokers, attempt, CALL_TIMEOUT_S)
        except (Lost, Unreachable) as error:
            raise Unanswered(str(error)) from error
        except KafkaError as error:
            if error.error_code.is_retriable:
                raise Unanswered(str(error)) from error
            raise Refused(str(error)) from error
