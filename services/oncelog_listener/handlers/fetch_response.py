"""The response to a Fetch: every partition of the request, or in a fetch session only those with something new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode
from oncelog_listener.call import Call
from oncelog_listener.cluster import ApiError, TopicPartition
from oncelog_listener.core.fetch_sessions import NO_SESSION, FetchSession, Key, WantedPartition
from oncelog_listener.leader_hints import LeaderHint, hinted, leader_hints, node_endpoints

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import FetchCall

TOPIC_IDS_FROM: Final = 13
_LEADER_HINTS_FROM: Final = 16
_HINTED_CODES: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Fetched(NamedTuple):
    """A leader's answer for one partition, with its fields copied out of protobuf once: each access to bytes there
    would copy them."""

    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes
    aborted_transactions: Iterable[pb.AbortedTransaction]


Answers = dict[Key, Fetched | ApiError]


@dataclass(slots=True)
class Reading:
    """The partitions that one Fetch request reads, and the client's fetch session, if it has one."""

    partitions: dict[Key, WantedPartition]
    session: FetchSession | None
    """The session of the request, in which only news are answered; None: there is none."""
    is_kept: bool
    """True if the session goes on, or a new one may be opened."""


async def response_of(
    call: FetchCall, reading: Reading, answers: Answers, now_ms: float
) -> kafka.FetchResponse:
    """Return the response. Without a session it has every partition in the order of the request; with one, only those
    with something new."""
    session = reading.session
    told: list[Key] = []
    for key in list(reading.partitions) if session is None else list(answers):
        if call.is_turn_over():
            await call.next_turn()
        answer = answers[key]
        if _is_news(reading.partitions[key], answer) or session is None:
            told.append(key)
            if session and not isinstance(answer, ApiError) and answer.records:
                session.to_the_end(key)
    session_id = NO_SESSION
    if reading.is_kept:
        session_id = _session_id(call, reading, now_ms)
    hints: dict[TopicPartition, LeaderHint] = {}
    if call.version >= _LEADER_HINTS_FROM:
        hints = leader_hints(call, _without_leader(reading, answers))
    types = call.types
    topics: list[kafka.FetchResponseTypes.FetchableTopicResponse] = []
    for _, keys in groupby(told, key=lambda key: key[0]):
        partitions: list[kafka.FetchResponseTypes.PartitionData] = []
        for key in keys:
            wanted = reading.partitions[key]
            partitions.append(_partition_data(call, wanted, answers.pop(key), hints))
            if call.is_turn_over():
                await call.next_turn()
        topics.append(
            types.FetchableTopicResponse(
                topic=wanted.topic or "", topic_id=wanted.topic_id, partitions=tuple(partitions)
            )
        )
    return types.FetchResponse(
        error_code=0,
        session_id=session_id,
        responses=tuple(topics),
        node_endpoints=node_endpoints(call, hints) if hints else (),
    )


def _is_news(wanted: WantedPartition, answer: Fetched | ApiError) -> bool:
    if isinstance(answer, ApiError):
        return wanted.is_news(answer.error_code, -1, -1, has_records=False)
    return wanted.is_news(
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        has_records=bool(answer.records),
    )


def _session_id(call: Call, reading: Reading, now_ms: float) -> int:
    if reading.session is not None:
        return reading.session.id
    return call.cluster.fetch_sessions.open(
        call.session.connection,
        reading.partitions,
        now_ms,
        uses_topic_ids=call.version >= TOPIC_IDS_FROM,
    )


def _without_leader(reading: Reading, answers: Answers) -> Iterator[TopicPartition]:
    for key, answer in answers.items():
        if answer.error_code in _HINTED_CODES:
            wanted = reading.partitions[key]
            if wanted.topic is not None:
                yield wanted.topic, wanted.partition


def _partition_data(
    call: FetchCall,
    wanted: WantedPartition,
    answer: Fetched | ApiError,
    hints: dict[TopicPartition, LeaderHint],
) -> kafka.FetchResponseTypes.PartitionData:
    types = call.types
    hint = hints.get((wanted.topic, wanted.partition)) if hints and wanted.topic else None
    if isinstance(answer, ApiError):
        return types.PartitionData(
            partition_index=wanted.partition,
            error_code=answer.error_code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
            **hinted(call, hint),
        )
    aborted = None
    if call.request.isolation_level == types_pb2.READ_COMMITTED:
        # An array even when empty: null means that the reader did not ask (facts 3).
        aborted = tuple(
            types.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in answer.aborted_transactions
        )
    return types.PartitionData(
        partition_index=wanted.partition,
        error_code=answer.error_code,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=aborted,
        records=answer.records,
        **hinted(call, hint),
    )
