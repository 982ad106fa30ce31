"""Produce: record batches go to their leaders without being decoded (docs/kafka-facts.md, 3 and 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import INTERNAL_TOPICS
from oncelog.protocol.frames import Frame
from oncelog.protocol.small_produce import read_small_produce, small_produce_answer
from oncelog.rpc import plain
from oncelog.rpc.direct import takes_plain
from oncelog.rpc.stubs import StorageStub
from oncelog.security.acl import Operation
from oncelog_listener.brokers import is_leaving
from oncelog_listener.call import CloseConnection, Session
from oncelog_listener.cluster import (
    ApiError,
    Cluster,
    TopicPartition,
    milliseconds,
    wire_time,
)
from oncelog_listener.core.produce_rules import (
    Refusal,
    has_producer_id,
    is_transactional,
    refused_records,
    refused_request,
    transaction_of,
)
from oncelog_listener.core.repeating import Repeatable
from oncelog_listener.group_access import transaction_refusal
from oncelog_listener.leader_hints import LeaderHint, hinted, leader_hints, node_endpoints
from oncelog_listener.topic_access import TOPIC_REFUSED, refused_topics
from oncelog_listener.topic_ids import id_of, topic_id_of, topic_name

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import ProduceCall

_RECORD_ERRORS_FROM: Final = 8
_LEADER_HINTS_FROM: Final = 10
_ABORTABLE_FROM: Final = 11
_ADD_PARTITION_FROM: Final = 12


class _AtOnce(Protocol):
    """The part of a storage node in this process that can append a Produce request without a wait. None: it did not
    append all, and the request takes the usual way.
    """

    def ProduceAtOnce(  # noqa: N802
        self, request: plain.ProduceRequest
    ) -> Sequence[pb.PartitionProduced] | None: ...


def verification_mode(version: int) -> pb.VerificationMode:
    """Return how the leader checks that a transactional batch belongs to an open transaction. The Produce version says
    which protocol (TV1 or TV2) the client speaks.

    The cluster's feature level does not matter here (docs/kafka-facts.md, 2.1).
    """
    if version >= _ADD_PARTITION_FROM:
        return pb.ADD_PARTITION
    return pb.VERIFY_ABORTABLE if version >= _ABORTABLE_FROM else pb.VERIFY_LEGACY


_Topics: TypeAlias = "Sequence[tuple[str | None, kafka.ProduceRequestTypes.TopicProduceData]]"
"""The request's topics, with their names; None: there is no topic with the id."""
_Answers = dict[TopicPartition, pb.PartitionProduced | ApiError]
_Items = dict[TopicPartition, plain.PartitionRecords]

_NO_SUCH_ID: Final = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
_ELSEWHERE: Final = ApiError(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, "this listener stops: the client goes to another"
)


def produce_at_once(call: ProduceCall) -> kafka.ProduceResponse | None:
    """Append at once, without any wait, and return the response. This works only if the leader of all batches is in
    this process.

    None: the caller goes on with `produce`, which waits, or tells what is wrong. A batch may have been appended
    already, so each must have a sequence, by which the leader recognises the repetition.
    """
    request, cluster = call.request, call.cluster
    if not request.acks or cluster.access.is_checked:
        return None
    topics: _Topics = [(topic_name(cluster.image, topic), topic) for topic in request.topic_data]
    batches = [data.records for topic in request.topic_data for data in topic.partition_data]
    if refused_request(request.acks, request.transactional_id, batches) is not None:
        return None
    answers: _Answers = {}
    items = _accepted(call, topics, answers)
    if not items or answers or not all(map(has_producer_id, batches)):
        return None
    transactional_id = transaction_of(request.transactional_id, batches) or ""
    written = _written_at_once(cluster, _asked(call, list(items.values()), transactional_id))
    if written is None:
        return None
    answers.update(((one.topic, one.partition), one) for one in written)
    return _response(call, topics, answers, _NO_SUCH_ID)


def produce_at_a_glance(cluster: Cluster, session: Session, frame: Frame) -> bytes | None:
    """Append a Produce request of one batch without a wait, at a leader in this process. The frame is decoded by hand,
    which is faster than the message library. Return the response's frame; None: the request takes the usual way.
    """
    asked = read_small_produce(frame)
    if asked is None or asked.acks not in (-1, 1) or cluster.access.is_checked:
        return None
    name, records = asked.topic, asked.records
    transactional_id = (asked.transactional_id or "") if is_transactional(records) else None
    is_refused = name in INTERNAL_TOPICS or refused_records(asked.version, records) is not None
    if is_refused or not has_producer_id(records) or transactional_id == "":
        return None
    request = plain.ProduceRequest(
        transactional_id or "",
        asked.acks,
        asked.timeout_ms,
        verification_mode(asked.version),
        (plain.PartitionRecords(name, asked.partition, records, id_of(cluster.image, name)),),
        (asked.client_id or "") if transactional_id else "",
        session.peer if transactional_id else "",
    )
    written = _written_at_once(cluster, request)
    if written is None:
        return None
    (one,) = written
    return small_produce_answer(
        asked, one.base_offset, one.log_append_time_ms, one.log_start_offset
    )


def _written_at_once(
    cluster: Cluster, request: plain.ProduceRequest
) -> Sequence[pb.PartitionProduced] | None:
    image = cluster.image
    leaders = {
        cluster.leader_of(image, (one.topic, one.partition), one.topic_id)
        for one in request.partitions
    }
    leader = leaders.pop()
    if leaders or isinstance(leader, ApiError) or is_leaving(cluster):
        return None
    storage = cluster.storage(leader)
    if not takes_plain(storage, "ProduceAtOnce"):
        return None
    return cast(_AtOnce, storage).ProduceAtOnce(request)


async def produce(call: ProduceCall) -> kafka.ProduceResponse | None:
    request, image = call.request, call.cluster.image
    topics: _Topics = [(topic_name(image, topic), topic) for topic in request.topic_data]
    batches = [data.records for topic in request.topic_data for data in topic.partition_data]
    refused = refused_request(request.acks, request.transactional_id, batches)
    transactional_id = transaction_of(request.transactional_id, batches)
    answers: _Answers = {}
    if refused is None and transactional_id is not None:
        code = transaction_refusal(call, Operation.WRITE, transactional_id)
        refused = Refusal(code, "Transactional Id authorization failed.") if code else None
    if refused is None:
        items = _accepted(call, topics, answers)
        if request.acks and is_leaving(call.cluster):
            answers.update(dict.fromkeys(items, _ELSEWHERE))
        elif items:
            answers.update(await _append(call, items, transactional_id or ""))
    else:
        answers.update(
            ((name, data.index), ApiError(*refused))
            for name, topic in topics
            for data in topic.partition_data
            if name is not None
        )
    if request.acks == 0:
        _close_on_error(topics, answers)
        return None
    nameless = ApiError(*refused) if refused else _NO_SUCH_ID
    return _response(call, topics, answers, nameless)


def _accepted(call: ProduceCall, topics: _Topics, answers: _Answers) -> _Items:
    """Return the batches of the request that go to leaders, by partition. A batch that is refused here gets its error
    in `answers`."""
    items: _Items = {}
    image = call.cluster.image
    names = (name for name, _ in topics if name is not None)
    refused_names = refused_topics(call, Operation.WRITE, names)
    for name, topic in topics:
        if name is None:
            continue
        asked_id = topic_id_of(topic)
        topic_id = id_of(image, name) if asked_id is None else asked_id.bytes
        for data in topic.partition_data:
            key = (name, data.index)
            if name in refused_names:
                answers[key] = TOPIC_REFUSED
            elif name in INTERNAL_TOPICS:
                answers[key] = ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators only"
                )
            elif key in items or key in answers:
                # Which of the two would get the answer? Neither is written.
                items.pop(key, None)
                answers[key] = ApiError(
                    ErrorCode.INVALID_REQUEST, f"{name}-{data.index} stands twice in one request"
                )
            elif refused := refused_records(call.version, data.records):
                answers[key] = ApiError(*refused)
            else:
                assert data.records is not None, key
                items[key] = plain.PartitionRecords(name, data.index, data.records, topic_id)
    return items


def _asked(
    call: ProduceCall, partitions: list[plain.PartitionRecords], transactional_id: str
) -> plain.ProduceRequest:
    return plain.ProduceRequest(
        transactional_id,
        call.request.acks,
        milliseconds(call.request.timeout),
        verification_mode(call.version),
        partitions,
        (call.client_id or "") if transactional_id else "",
        call.session.peer if transactional_id else "",
    )


async def _append(call: ProduceCall, items: _Items, transactional_id: str) -> _Answers:
    async def ask(
        storage: StorageStub, partitions: list[plain.PartitionRecords]
    ) -> Sequence[pb.PartitionProduced]:
        # No deadline of our own: the leader keeps `timeout_ms`, and cutting an append short would leave it unknown.
        asked = _asked(call, partitions, transactional_id)
        if takes_plain(storage, "Produce"):
            message = cast(pb.ProduceRequest, asked)
        else:
            message = _message(asked)
        answer = await storage.Produce(message)
        return answer.partitions

    is_idempotent = all(has_producer_id(item.records) for item in items.values())
    repeatable = Repeatable.ALWAYS if is_idempotent else Repeatable.UNLESS_DONE

    def is_wanted() -> bool:
        # A client that left may have ended its transaction elsewhere. This batch does not belong to its next one.
        return not transactional_id or call.is_wanted()

    topic_ids = {item.topic: item.topic_id for item in items.values()}
    return await call.cluster.ask_leaders(items, ask, repeatable, is_wanted, topic_ids)


def _message(asked: plain.ProduceRequest) -> pb.ProduceRequest:
    message = pb.ProduceRequest(
        transactional_id=asked.transactional_id,
        acks=asked.acks,
        timeout_ms=asked.timeout_ms,
        verification_mode=asked.verification_mode,
        client_id=asked.client_id,
        client_host=asked.client_host,
    )
    for one in asked.partitions:
        message.partitions.add(
            topic=one.topic, partition=one.partition, records=one.records, topic_id=one.topic_id
        )
    return message


def _close_on_error(topics: _Topics, answers: _Answers) -> None:
    """Raise CloseConnection if a batch of a request with acks=0 failed. No answer is read then, so Kafka reports an
    error in this way."""
    for name, topic in topics:
        if name is None:
            raise CloseConnection(f"acks=0 and no topic has the id {topic.topic_id}")
    for key, answer in answers.items():
        if answer.error_code:
            raise CloseConnection(
                f"acks=0 and {key[0]}-{key[1]} failed with error {answer.error_code}"
            )


def _response(
    call: ProduceCall, topics: _Topics, answers: _Answers, nameless: ApiError
) -> kafka.ProduceResponse:
    types = call.types
    hints: dict[TopicPartition, LeaderHint] = {}
    if call.version >= _LEADER_HINTS_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        hints = leader_hints(call, (key for key, one in answers.items() if one.error_code == code))
    return types.ProduceResponse(
        node_endpoints=node_endpoints(call, hints),
        responses=tuple(
            types.TopicProduceResponse(
                name=name or "",
                topic_id=topic_id_of(topic),
                partition_responses=tuple(
                    _partition_response(
                        call,
                        data.index,
                        nameless if name is None else answers[name, data.index],
                        None if name is None else hints.get((name, data.index)),
                    )
                    for data in topic.partition_data
                ),
            )
            for name, topic in topics
        ),
    )


def _partition_response(
    call: ProduceCall,
    partition: int,
    answer: pb.PartitionProduced | ApiError,
    hint: LeaderHint | None = None,
) -> kafka.ProduceResponseTypes.PartitionProduceResponse:
    if isinstance(answer, ApiError) or answer.error_code:
        error_code = answer.error_code
        if error_code == ErrorCode.NETWORK_EXCEPTION:
            # The leader was lost with the batch. librdkafka gives up on this code but repeats a time-out.
            error_code = ErrorCode.REQUEST_TIMED_OUT
        return call.types.PartitionProduceResponse(
            index=partition,
            error_code=error_code,
            base_offset=-1,
            log_append_time=None,
            log_start_offset=-1,
            record_errors=tuple(
                call.types.BatchIndexAndErrorMessage(
                    batch_index=one.index, batch_index_error_message=one.message
                )
                for one in getattr(answer, "record_errors", ())
            )
            if call.version >= _RECORD_ERRORS_FROM
            else (),
            error_message=answer.error_message or None,
            **hinted(call, hint),
        )
    appended_ms = answer.log_append_time_ms
    return call.types.PartitionProduceResponse(
        index=partition,
        error_code=0,
        base_offset=answer.base_offset,
        log_append_time=None if appended_ms < 0 else wire_time(appended_ms),
        log_start_offset=answer.log_start_offset,
        record_errors=(),
        error_message=None,
    )
