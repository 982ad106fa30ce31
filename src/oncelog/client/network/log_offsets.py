"""Offsets of many partitions, each from its leader: the start and end of a log, and the first record since a time."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from oncelog.client.core.cluster_view import NO_NODE
from oncelog.client.errors import AuthorizationError, RefusedError
from oncelog.client.network.brokers import Brokers
from oncelog.client.network.consumer_messages import list_offsets_request, listed_offsets
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions


class OffsetAtTime(NamedTuple):
    offset: int
    timestamp_ms: int
    """The time of the record at the offset, in ms; -1 if the question was for an end of the log."""
    leader_epoch: int


async def offsets_at(
    brokers: Brokers, isolation: int, wanted: Mapping[Partition, int], timeout_ms: int
) -> dict[Partition, OffsetAtTime | None]:
    """Return each partition's offset for a timestamp in ms, -2 for the start, -1 for the end; None: no record is that
    new.

    Raises TimedOutError where a leader does not answer in time, AuthorizationError, RefusedError.
    """
    found: dict[Partition, OffsetAtTime | None] = {}

    async def attempt() -> None:
        left = {one: when for one, when in wanted.items() if one not in found}
        by_node = await _by_leader(brokers, left)
        await asyncio.gather(
            *(
                _ask(brokers, node_id, isolation, asked, found, timeout_ms)
                for node_id, asked in by_node.items()
            )
        )

    await brokers.retrying(attempt, timeout_ms, "reading offsets")
    return {partition: found[partition] for partition in wanted}


async def _by_leader(
    brokers: Brokers, wanted: Mapping[Partition, int]
) -> dict[int, list[tuple[Partition, int, int]]]:
    """Group the questions by the node id of the leader. Raises KafkaError where a leader is not known."""
    topics = sorted({partition.topic for partition in wanted})
    if any(_unled(brokers, partition) for partition in wanted):
        await brokers.refresh(topics)
    by_node: dict[int, list[tuple[Partition, int, int]]] = {}
    for partition, timestamp_ms in wanted.items():
        leader = brokers.view.leader(partition)
        if leader is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(partition))
        if leader.node_id == NO_NODE:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(partition))
        one = (partition, timestamp_ms, leader.epoch)
        by_node.setdefault(leader.node_id, []).append(one)
    return by_node


def _unled(brokers: Brokers, partition: Partition) -> bool:
    leader = brokers.view.leader(partition)
    return leader is None or leader.node_id not in brokers.view.nodes


async def _ask(
    brokers: Brokers,
    node_id: int,
    isolation: int,
    asked: list[tuple[Partition, int, int]],
    found: dict[Partition, OffsetAtTime | None],
    timeout_ms: int,
) -> None:
    response = await brokers.call_node(
        node_id,
        versions.LIST_OFFSETS,
        lambda types: list_offsets_request(types, isolation, asked, timeout_ms),
    )
    answers = listed_offsets(response)
    for partition, _, _ in asked:
        one = answers.get(partition)
        code = ErrorCode.NETWORK_EXCEPTION if one is None else error_code_of(one.error_code)
        if code is ErrorCode.NONE and one is not None:
            found[partition] = (
                None
                if one.offset < 0
                else OffsetAtTime(one.offset, one.timestamp, one.leader_epoch)
            )
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise AuthorizationError(f"the user may not read the offsets of {partition}", code)
        elif code.is_retriable:
            await brokers.refresh([partition.topic])
            raise KafkaError(code, str(partition))
        else:
            raise RefusedError(f"the offsets of {partition}: {code.name}", code)
