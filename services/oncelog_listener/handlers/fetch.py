"""Fetch: one long poll over all the leaders a request names (facts 3).

Fetch sessions (KIP-227) are answered with session id 0, which is Kafka's way to say "no session": the client goes on
naming all its partitions, and a listener that keeps nothing can be restarted or replaced at any moment.
"""

import asyncio
from typing import Any, Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.rpc.metadata import MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog.security.acl import Operation
from oncelog_listener.call import Call, CloseConnection
from oncelog_listener.cluster import (
    PEER_FAILURES,
    TopicPartition,
    Unanswered,
    milliseconds,
)
from oncelog_listener.core.repeating import Repeatable, is_repeated
from oncelog_listener.topic_access import TOPIC_REFUSED, refused_in_turns

Answers = dict[TopicPartition, pb.FetchedPartition | Unanswered]

_SESSION_FROM: Final = 7
_FULL_FETCH_EPOCHS: Final = (0, -1)
_NEWS_WAIT_S: Final = 0.1
_READ_TIMEOUT_S: Final = 20.0
"""For reading what is there, after waiting for it."""
_MAX_WAIT_MS: Final = 300_000
"""A bound for clients that ask to wait for weeks; Kafka's clients ask for half a second."""


async def fetch(call: Call) -> Any:
    request = call.request
    if request.isolation_level not in (types_pb2.READ_UNCOMMITTED, types_pb2.READ_COMMITTED):
        raise CloseConnection(f"isolation level {request.isolation_level} is neither 0 nor 1")
    if call.version >= _SESSION_FROM and request.session_epoch not in _FULL_FETCH_EPOCHS:
        return call.types.FetchResponse(
            error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            session_id=0,
            responses=(),
        )
    session = call.session
    with call.cluster.unsent.room(
        _wanted_bytes(call), request.min_bytes, session.fetched_bytes
    ) as room:
        answers = await _answers(call, room)
        session.fetched_bytes = sum(
            len(one.records) for one in answers.values() if not isinstance(one, Unanswered)
        )
        return await _response(call, answers)


async def _answers(call: Call, room: int) -> Answers:
    """Up to so many bytes, or what was there when the wait was over."""
    request = call.request
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _wait_ms(request) / 1000
    while True:
        image = call.cluster.image
        by_leader, answers = await _by_leader(call)
        if len(by_leader) == 1:
            ((leader, partitions),) = by_leader.items()
            await _fetch_from(call, leader, partitions, answers, _wait_ms(request), room)
        elif by_leader:
            await _fetch_from_many(call, by_leader, answers, room)
        left_s = deadline - loop.time()
        if (
            left_s <= 0
            or call.is_large  # Asking once costs enough.
            or call.cluster.ending.is_set()
            or not _waits_for_leaders(answers)
        ):
            return answers
        await call.cluster.metadata.newer_than(image, min(left_s, _NEWS_WAIT_S))


def _waits_for_leaders(answers: Answers) -> bool:
    """There is nothing to tell but that leaders are being replaced. A client that is told so sleeps, and asks for
    metadata first; within the time it gave us to wait for data we can do better."""
    is_waiting = False
    for answer in answers.values():
        if isinstance(answer, Unanswered) or answer.error_code:
            if not is_repeated(Repeatable.ALWAYS, answer.error_code):
                return False
            is_waiting = True
        elif answer.records:
            return False
    return is_waiting


def _wait_ms(request: Any) -> int:
    return max(0, min(milliseconds(request.max_wait), _MAX_WAIT_MS))


def _wanted_bytes(call: Call) -> int:
    """A client may have no room for more than it asked for. At an answer that is too large librdkafka closes the
    connection and asks for the same again, for ever."""
    wanted: int = min(call.request.max_bytes, call.cluster.settings.fetch_bytes_max)
    quota_max = call.cluster.throttling.fetch_bytes_max(call)
    return wanted if quota_max is None else min(wanted, quota_max)


async def _refused_topics(call: Call) -> frozenset[str]:
    """A consumer needs READ on each topic. A client that says it is a broker needs CLUSTER_ACTION, as in Kafka."""
    names = (one.topic for one in call.request.topics)
    if call.request.replica_id < 0:
        return await refused_in_turns(call, Operation.READ, names)
    is_broker = call.may_cluster(Operation.CLUSTER_ACTION)
    return frozenset() if is_broker else frozenset(names)


async def _by_leader(
    call: Call,
) -> tuple[dict[int, list[pb.FetchPartition]], Answers]:
    cluster = call.cluster
    image = cluster.image
    by_leader: dict[int, list[pb.FetchPartition]] = {}
    answers: Answers = {}
    named: set[TopicPartition] = set()
    current_leader_epoch_known = call.version >= 9
    refused = await _refused_topics(call)
    for topic in call.request.topics:
        name = topic.topic
        for wanted in topic.partitions:
            if call.is_turn_over():
                await call.next_turn()
            key = (name, wanted.partition)
            if key in named:
                continue
            named.add(key)
            leader = TOPIC_REFUSED if name in refused else cluster.leader_of(image, key)
            if isinstance(leader, Unanswered):
                answers[key] = leader
                continue
            by_leader.setdefault(leader, []).append(
                pb.FetchPartition(
                    topic=name,
                    partition=wanted.partition,
                    fetch_offset=wanted.fetch_offset,
                    max_bytes=max(0, wanted.partition_max_bytes),
                    current_leader_epoch=wanted.current_leader_epoch
                    if current_leader_epoch_known
                    else -1,
                )
            )
    return by_leader, answers


async def _fetch_from(
    call: Call,
    leader: int,
    partitions: list[pb.FetchPartition],
    answers: Answers,
    max_wait_ms: int,
    room: int,
) -> None:
    request, cluster = call.request, call.cluster

    def leads(image: MetadataImage) -> bool:
        found = [image.partition(Partition(one.topic, one.partition)) for one in partitions]
        return all(one is not None and one.leader == leader for one in found)

    forwarded = pb.FetchRequest(
        max_wait_ms=max_wait_ms,
        # What may not be answered is not waited for.
        min_bytes=max(0, min(request.min_bytes, room)),
        max_bytes=max(1, room),
        isolation_level=request.isolation_level,
        partitions=partitions,
    )
    try:
        response = await answer_of_owner(
            cluster.storage(leader).Fetch(forwarded),
            max_wait_ms / 1000 + _READ_TIMEOUT_S,
            cluster.metadata,
            leads,
        )
    except PEER_FAILURES as error:
        lost = Unanswered(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"storage node {leader}: {error!r}")
        answers.update(((wanted.topic, wanted.partition), lost) for wanted in partitions)
        return
    for found in response.partitions:
        answers[found.topic, found.partition] = found
    for wanted in partitions:
        if (wanted.topic, wanted.partition) not in answers:
            left_out = Unanswered(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"storage node {leader} left it out"
            )
            answers[wanted.topic, wanted.partition] = left_out


async def _fetch_from_many(
    call: Call,
    by_leader: dict[int, list[pb.FetchPartition]],
    answers: Answers,
    room: int,
) -> None:
    """Ask all leaders without waiting; if that is too little, wait until the first of them has something.

    The answers of the first round stand for the leaders that are still silent then: an answer without a session must
    hold every partition of its request.
    """
    share = room // len(by_leader)
    async with asyncio.TaskGroup() as group:
        for leader, partitions in by_leader.items():
            group.create_task(_fetch_from(call, leader, partitions, answers, 0, share))
    wait_ms = _wait_ms(call.request)
    if wait_ms == 0 or _is_enough(min(call.request.min_bytes, room), answers):
        return
    waiting = [
        asyncio.create_task(_fetch_from(call, leader, partitions, answers, wait_ms, share))
        for leader, partitions in by_leader.items()
    ]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()


def _is_enough(min_bytes: int, answers: Answers) -> bool:
    total = 0
    for answer in answers.values():
        if isinstance(answer, Unanswered) or answer.error_code:
            return True
        total += len(answer.records)
    return total >= min_bytes


async def _response(call: Call, answers: Answers) -> Any:
    """What is answered, in the request's order. A partition that stands there twice is answered once, as in Kafka:
    its records must not be sent again for each time."""
    types = call.types
    topics: list[Any] = []
    for topic in call.request.topics:
        partitions: list[Any] = []
        for wanted in topic.partitions:
            answer = answers.pop((topic.topic, wanted.partition), None)
            if answer is not None:
                partitions.append(_partition_data(call, wanted.partition, answer))
            if call.is_turn_over():
                await call.next_turn()
        if partitions or not topic.partitions:
            topics.append(
                types.FetchableTopicResponse(topic=topic.topic, partitions=tuple(partitions))
            )
    return types.FetchResponse(error_code=0, session_id=0, responses=tuple(topics))


def _partition_data(call: Call, partition: int, answer: pb.FetchedPartition | Unanswered) -> Any:
    types = call.types
    if isinstance(answer, Unanswered):
        return types.PartitionData(
            partition_index=partition,
            error_code=answer.error_code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )
    aborted = None
    if call.request.isolation_level == types_pb2.READ_COMMITTED:
        # An array even when empty: null means that the reader did not ask (facts 3).
        aborted = tuple(
            types.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in answer.aborted_transactions
        )
    return types.PartitionData(
        partition_index=partition,
        error_code=answer.error_code,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=aborted,
        records=answer.records,
    )
