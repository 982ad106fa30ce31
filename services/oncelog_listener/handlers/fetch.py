"""Fetch: one long poll over all the leaders whose partitions a client wants (docs/kafka-facts.md, 3).

What a client wants stands in its request, or in its fetch session (KIP-227, `core/fetch_sessions.py`) with the changes
that the request names. With a session the response holds only partitions with something new, and leaders answer only
those.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.rpc.metadata import MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog.security.acl import Operation
from oncelog_listener.cluster import (
    PEER_FAILURES,
    ApiError,
    TopicPartition,
    milliseconds,
)
from oncelog_listener.core.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Key,
    WantedPartition,
)
from oncelog_listener.core.repeating import Repeatable, is_repeated
from oncelog_listener.handlers.fetch_response import (
    TOPIC_IDS_FROM,
    Answers,
    Fetched,
    Reading,
    response_of,
)
from oncelog_listener.isolation import isolation_of
from oncelog_listener.topic_access import TOPIC_REFUSED, refused_in_turns
from oncelog_listener.topic_ids import id_of, name_of

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import FetchCall

_SESSION_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_REPLICA_STATE_FROM: Final = 15
_NEWS_WAIT_S: Final = 0.1
_READ_TIMEOUT_S: Final = 20.0
"""The seconds that a leader has for reading what is there, beside the wait for records."""
_MAX_WAIT_MS: Final = 300_000
"""The longest wait in milliseconds, for clients that ask to wait for weeks; Kafka's clients ask for half a second."""
_NO_SUCH_ID: Final = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
_OTHER_TOPIC: Final = ApiError(
    ErrorCode.INCONSISTENT_TOPIC_ID, "the topic was deleted, and made again under its name"
)


class _Made(NamedTuple):
    """The request to a leader for one partition, kept for later fetches of it. It is used again only while the metadata
    is the same."""

    image: MetadataImage
    leader: int
    name: TopicPartition
    request: pb.FetchPartition


@dataclass(slots=True)
class _Share:
    """The partitions of one Fetch that go to one leader: the requests, and the key of each in the client's request."""

    request: list[pb.FetchPartition] = field(default_factory=list)
    keys: dict[TopicPartition, Key] = field(default_factory=dict)


async def fetch(call: FetchCall) -> kafka.FetchResponse:
    request = call.request
    isolation_of(request.isolation_level)
    reading = await _reading(call)
    if isinstance(reading, ErrorCode):
        return call.types.FetchResponse(error_code=reading, session_id=NO_SESSION, responses=())
    session = call.session
    with call.cluster.unsent.room(
        _wanted_bytes(call), request.min_bytes, session.fetched_bytes
    ) as room:
        answers = await _answers(call, reading, room)
        session.fetched_bytes = sum(
            len(one.records) for one in answers.values() if not isinstance(one, ApiError)
        )
        return await response_of(call, reading, answers, _now_ms())


# ---------------------------------------------------------------------------------------------- what is wanted


async def _reading(call: FetchCall) -> Reading | ErrorCode:
    """Return the partitions that the client wants to read, from its request and its fetch session. An error code: the
    session that the request names does not exist, or has another epoch."""
    request, sessions, connection = call.request, call.cluster.fetch_sessions, call.session
    if call.version < _SESSION_FROM:
        return Reading(await _wanted(call, {}), None, is_kept=False)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(connection.connection)
        is_kept = request.session_epoch == INITIAL_EPOCH
        return Reading(await _wanted(call, {}), None, is_kept)
    session = sessions.find(
        connection.connection,
        request.session_id,
        request.session_epoch,
        _now_ms(),
        uses_topic_ids=call.version >= TOPIC_IDS_FROM,
    )
    if isinstance(session, ErrorCode):
        return session
    is_changed = bool(request.topics or request.forgotten_topics_data)
    if is_changed:
        await _wanted(call, session.partitions)
        await _forget(call, session.partitions)
    is_kept = not is_changed or sessions.is_kept(connection.connection, session, _now_ms())
    return Reading(session.partitions, session, is_kept)


async def _wanted(
    call: FetchCall, partitions: dict[Key, WantedPartition]
) -> dict[Key, WantedPartition]:
    """Put the partitions that the request names into `partitions`, and return them. If it names a partition twice, the
    last counts, as in Kafka."""
    image = call.cluster.image
    has_ids, has_epoch = call.version >= TOPIC_IDS_FROM, call.version >= _LEADER_EPOCH_FROM
    for topic in call.request.topics:
        topic_id = topic.topic_id if has_ids else None
        name = name_of(image, topic_id) if has_ids else topic.topic
        of_topic = topic_id if has_ids else name
        for one in topic.partitions:
            if call.is_turn_over():
                await call.next_turn()
            key = (of_topic, one.partition)
            wanted = partitions.get(key)
            if wanted is None:
                wanted = partitions[key] = WantedPartition(name, topic_id, one.partition)
            wanted.fetch_offset = one.fetch_offset
            wanted.max_bytes = max(0, one.partition_max_bytes)
            wanted.leader_epoch = one.current_leader_epoch if has_epoch else -1
            wanted.made = None
    return partitions


async def _forget(call: FetchCall, partitions: dict[Key, WantedPartition]) -> None:
    has_ids = call.version >= TOPIC_IDS_FROM
    for topic in call.request.forgotten_topics_data:
        of_topic = topic.topic_id if has_ids else topic.topic
        for index in topic.partitions:
            if call.is_turn_over():
                await call.next_turn()
            partitions.pop((of_topic, index), None)


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


# ------------------------------------------------------------------------------------------------- the long poll


async def _answers(call: FetchCall, reading: Reading, room: int) -> Answers:
    """Fetch from all leaders until there is enough or the client's wait is over. Return their answers, of at most
    `room` bytes in total."""
    request = call.request
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _wait_ms(request) / 1000
    while True:
        image = call.cluster.image
        by_leader, answers = await _by_leader(call, reading)
        if len(by_leader) == 1:
            ((leader, share),) = by_leader.items()
            await _fetch_from(call, reading, leader, share, answers, _wait_ms(request), room)
        elif by_leader:
            await _fetch_from_many(call, reading, by_leader, answers, room)
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
    """True if no partition has records, and some have errors that only a new leader ends.

    The listener then waits within the client's `max_wait`. A client that reads such an error would sleep, and ask for
    metadata first.
    """
    is_waiting = False
    for answer in answers.values():
        if isinstance(answer, ApiError) or answer.error_code:
            if not is_repeated(Repeatable.ALWAYS, answer.error_code):
                return False
            is_waiting = True
        elif answer.records:
            return False
    return is_waiting


def _wait_ms(request: kafka.FetchRequest) -> int:
    return max(0, min(milliseconds(request.max_wait), _MAX_WAIT_MS))


def _wanted_bytes(call: FetchCall) -> int:
    """Return the most bytes that the response may have: the client's `max_bytes`, bounded by our settings and its
    quota.

    At an answer that is too large librdkafka closes the connection and asks for the same again, for ever.
    """
    wanted: int = min(call.request.max_bytes, call.cluster.settings.fetch_bytes_max)
    quota_max = call.cluster.throttling.fetch_bytes_max(call)
    return wanted if quota_max is None else min(wanted, quota_max)


async def _refused_topics(call: FetchCall, names: Iterable[str]) -> frozenset[str]:
    """Return the topics that the client may not read.

    A consumer needs READ on each topic. A client that says it is a broker needs CLUSTER_ACTION, as in Kafka.
    """
    request = call.request
    has_state = call.version >= _REPLICA_STATE_FROM
    replica_id = request.replica_state.replica_id if has_state else request.replica_id
    if replica_id < 0:
        return await refused_in_turns(call, Operation.READ, names)
    is_broker = call.may_cluster(Operation.CLUSTER_ACTION)
    return frozenset() if is_broker else frozenset(names)


async def _by_leader(call: FetchCall, reading: Reading) -> tuple[dict[int, _Share], Answers]:
    """Group the partitions by the leader to ask. Return each leader's share, and an error for each partition that has
    no leader to ask."""
    image = call.cluster.image
    by_leader: dict[int, _Share] = {}
    answers: Answers = {}
    wanted_partitions = reading.partitions.values()
    if call.version >= TOPIC_IDS_FROM:
        for wanted in wanted_partitions:
            if wanted.topic is None:
                wanted.topic = name_of(image, wanted.topic_id)
    names = (one.topic for one in wanted_partitions if one.topic is not None)
    refused = await _refused_topics(call, names)
    for key, wanted in reading.partitions.items():
        if call.is_turn_over():
            await call.next_turn()
        made = wanted.made
        if not isinstance(made, _Made) or made.image is not image or wanted.topic in refused:
            found = _made(call, image, wanted, refused)
            if isinstance(found, ApiError):
                answers[key] = found
                continue
            made = wanted.made = found
        share = by_leader.get(made.leader)
        if share is None:
            share = by_leader[made.leader] = _Share()
        share.keys[made.name] = key
        share.request.append(made.request)
    return by_leader, answers


def _made(
    call: FetchCall, image: MetadataImage, wanted: WantedPartition, refused: frozenset[str]
) -> _Made | ApiError:
    """Return the request for the partition and its leader. An ApiError is the partition's answer: no leader is
    asked."""
    topic_id = b"" if wanted.topic_id is None else wanted.topic_id.bytes
    leader = _leader_of(call, image, wanted, topic_id, refused)
    if isinstance(leader, ApiError):
        return leader
    assert wanted.topic is not None, wanted.topic_id
    request = pb.FetchPartition(
        topic=wanted.topic,
        partition=wanted.partition,
        fetch_offset=wanted.fetch_offset,
        max_bytes=wanted.max_bytes,
        current_leader_epoch=wanted.leader_epoch,
        topic_id=topic_id or id_of(image, wanted.topic),
        known_high_watermark=wanted.high_watermark,
        known_log_start_offset=wanted.log_start_offset,
    )
    return _Made(image, leader, (wanted.topic, wanted.partition), request)


def _leader_of(
    call: FetchCall,
    image: MetadataImage,
    wanted: WantedPartition,
    topic_id: bytes,
    refused: frozenset[str],
) -> int | ApiError:
    if wanted.topic is None:
        return _NO_SUCH_ID
    if wanted.topic in refused:
        return TOPIC_REFUSED
    leader = call.cluster.leader_of(image, (wanted.topic, wanted.partition), topic_id)
    if isinstance(leader, ApiError) and leader.error_code is ErrorCode.UNKNOWN_TOPIC_ID:
        # Its name is known from an earlier request of the session.
        return _OTHER_TOPIC
    return leader


async def _fetch_from(
    call: FetchCall,
    reading: Reading,
    leader: int,
    share: _Share,
    answers: Answers,
    max_wait_ms: int,
    room: int,
) -> None:
    request, cluster = call.request, call.cluster

    def leads(image: MetadataImage) -> bool:
        found = [image.partition(Partition(*one)) for one in share.keys]
        return all(one is not None and one.leader == leader for one in found)

    forwarded = pb.FetchRequest(
        max_wait_ms=max_wait_ms,
        # The leader does not wait for more bytes than the answer may have.
        min_bytes=max(0, min(request.min_bytes, room)),
        max_bytes=max(1, room),
        isolation_level=isolation_of(request.isolation_level),
        partitions=share.request,
        changes_only=reading.session is not None,
    )
    try:
        response = await answer_of_owner(
            cluster.storage(leader).Fetch(forwarded),
            max_wait_ms / 1000 + _READ_TIMEOUT_S,
            cluster.metadata,
            leads,
        )
    except PEER_FAILURES as error:
        lost = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"storage node {leader}: {error!r}")
        answers.update(dict.fromkeys(share.keys.values(), lost))
        return
    for found in response.partitions:
        answers[share.keys[found.topic, found.partition]] = Fetched(
            found.error_code,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            found.records,
            found.aborted_transactions,
        )
    if reading.session is not None:
        return
    for key in share.keys.values():
        if key not in answers:
            answers[key] = ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"storage node {leader} left it out"
            )


async def _fetch_from_many(
    call: FetchCall,
    reading: Reading,
    by_leader: dict[int, _Share],
    answers: Answers,
    room: int,
) -> None:
    """Ask all leaders without waiting. If that yields too few bytes, ask again with a wait, until the first leader has
    something.

    Leaders that are still silent then keep their first answer: a response without a session must hold every partition
    of its request.
    """
    room //= len(by_leader)
    async with asyncio.TaskGroup() as group:
        for leader, share in by_leader.items():
            group.create_task(_fetch_from(call, reading, leader, share, answers, 0, room))
    wait_ms = _wait_ms(call.request)
    if wait_ms == 0 or _is_enough(min(call.request.min_bytes, room * len(by_leader)), answers):
        return
    waiting = [
        asyncio.create_task(_fetch_from(call, reading, leader, share, answers, wait_ms, room))
        for leader, share in by_leader.items()
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
        if isinstance(answer, ApiError) or answer.error_code:
            return True
        total += len(answer.records)
    return total >= min_bytes
