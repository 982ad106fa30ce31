"""Produce: record batches to their leaders, unread (facts 3 and 9)."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import INTERNAL_TOPICS, Partition
from oncelog.rpc.stubs import StorageStub
from oncelog.security.acl import Operation
from oncelog_listener.brokers import Broker, brokers_for, is_leaving
from oncelog_listener.call import Call, CloseConnection
from oncelog_listener.cluster import (
    TopicPartition,
    Unanswered,
    milliseconds,
    wire_time,
)
from oncelog_listener.core.produce_rules import (
    Refusal,
    has_producer_id,
    refused_records,
    refused_request,
    transaction_of,
)
from oncelog_listener.core.repeating import Repeatable
from oncelog_listener.group_access import transaction_refusal
from oncelog_listener.topic_access import TOPIC_REFUSED, refused_topics

_RECORD_ERRORS_FROM: Final = 8
_LEADER_HINTS_FROM: Final = 10
_ABORTABLE_FROM: Final = 11
_ADD_PARTITION_FROM: Final = 12


def verification_mode(version: int) -> "pb.VerificationMode":
    """How the leader verifies a transactional batch: the request's version says which protocol the client speaks,
    whatever the cluster's feature level is (facts 2.1)."""
    if version >= _ADD_PARTITION_FROM:
        return pb.ADD_PARTITION
    return pb.VERIFY_ABORTABLE if version >= _ABORTABLE_FROM else pb.VERIFY_LEGACY


_ELSEWHERE: Final = Unanswered(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, "this listener stops: the client goes to another"
)


async def produce(call: Call) -> Any:
    request = call.request
    batches = [data.records for topic in request.topic_data for data in topic.partition_data]
    refused = refused_request(request.acks, request.transactional_id, batches)
    transactional_id = transaction_of(request.transactional_id, batches)
    answers: dict[TopicPartition, pb.PartitionProduced | Unanswered] = {}
    if refused is None and transactional_id is not None:
        code = transaction_refusal(call, Operation.WRITE, transactional_id)
        refused = Refusal(code, "Transactional Id authorization failed.") if code else None
    if refused is None:
        items = _accepted(call, answers)
        if request.acks and is_leaving(call.cluster):
            answers.update(dict.fromkeys(items, _ELSEWHERE))
        elif items:
            answers.update(await _append(call, items, transactional_id or ""))
    else:
        answers.update(
            ((topic.name, data.index), Unanswered(*refused))
            for topic in request.topic_data
            for data in topic.partition_data
        )
    if request.acks == 0:
        _close_on_error(answers)
        return None
    return _response(call, answers)


def _accepted(
    call: Call, answers: dict[TopicPartition, pb.PartitionProduced | Unanswered]
) -> dict[TopicPartition, pb.PartitionRecords]:
    """What goes to leaders; what is refused here goes into `answers`."""
    items: dict[TopicPartition, pb.PartitionRecords] = {}
    topics = call.request.topic_data
    refused_names = refused_topics(call, Operation.WRITE, (topic.name for topic in topics))
    for topic in topics:
        name = topic.name
        for data in topic.partition_data:
            key = (name, data.index)
            if name in refused_names:
                answers[key] = TOPIC_REFUSED
            elif name in INTERNAL_TOPICS:
                answers[key] = Unanswered(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators only"
                )
            elif key in items or key in answers:
                # Which of the two would get the answer? Neither is written.
                items.pop(key, None)
                answers[key] = Unanswered(
                    ErrorCode.INVALID_REQUEST, f"{name}-{data.index} stands twice in one request"
                )
            elif refused := refused_records(call.version, data.records):
                answers[key] = Unanswered(*refused)
            else:
                items[key] = pb.PartitionRecords(
                    topic=name, partition=data.index, records=data.records
                )
    return items


async def _append(
    call: Call, items: dict[TopicPartition, pb.PartitionRecords], transactional_id: str
) -> dict[TopicPartition, pb.PartitionProduced | Unanswered]:
    request = call.request
    timeout_ms = milliseconds(request.timeout)
    mode = verification_mode(call.version)

    async def ask(
        storage: StorageStub, partitions: list[pb.PartitionRecords]
    ) -> Sequence[pb.PartitionProduced]:
        # No deadline of our own: the leader keeps `timeout_ms`, and cutting an append short would leave it unknown.
        answer = await storage.Produce(
            pb.ProduceRequest(
                transactional_id=transactional_id,
                acks=request.acks,
                timeout_ms=timeout_ms,
                verification_mode=mode,
                partitions=partitions,
                client_id=(call.client_id or "") if transactional_id else "",
                client_host=call.session.peer if transactional_id else "",
            )
        )
        return answer.partitions

    is_idempotent = all(has_producer_id(item.records) for item in items.values())
    repeatable = Repeatable.ALWAYS if is_idempotent else Repeatable.UNLESS_DONE

    def is_wanted() -> bool:
        # Who left may have ended its transaction elsewhere, and be in its next one, where this is no part of.
        return not transactional_id or call.is_wanted()

    return await call.cluster.ask_leaders(items, ask, repeatable, is_wanted)


def _close_on_error(
    answers: dict[TopicPartition, pb.PartitionProduced | Unanswered],
) -> None:
    """Nobody reads an answer to acks=0, so Kafka tells of an error by closing the connection."""
    for (topic, partition), answer in answers.items():
        if answer.error_code:
            raise CloseConnection(
                f"acks=0 and {topic}-{partition} failed with error {answer.error_code}"
            )


def _response(call: Call, answers: dict[TopicPartition, pb.PartitionProduced | Unanswered]) -> Any:
    types = call.types
    hints = _leader_hints(call, answers) if call.version >= _LEADER_HINTS_FROM else {}
    return types.ProduceResponse(
        node_endpoints=_endpoints(call, hints),
        responses=tuple(
            types.TopicProduceResponse(
                name=topic.name,
                partition_responses=tuple(
                    _partition_response(
                        call,
                        data.index,
                        answers[topic.name, data.index],
                        hints.get((topic.name, data.index)),
                    )
                    for data in topic.partition_data
                ),
            )
            for topic in call.request.topic_data
        ),
    )


def _hinted(call: Call, hint: "_LeaderHint | None") -> dict[str, Any]:
    if hint is None:
        return {}
    leader = call.types.LeaderIdAndEpoch(
        leader_id=hint.broker.node_id, leader_epoch=hint.leader_epoch
    )
    return {"current_leader": leader}


class _LeaderHint(NamedTuple):
    broker: Broker
    leader_epoch: int


def _leader_hints(
    call: Call, answers: dict[TopicPartition, pb.PartitionProduced | Unanswered]
) -> dict[TopicPartition, _LeaderHint]:
    """Where a batch that met no leader goes next (KIP-951): to the listener that Metadata names now, mostly this one.

    A client that has an older leader epoch repeats at once, without asking for metadata.
    """
    hints: dict[TopicPartition, _LeaderHint] = {}
    for key, answer in answers.items():
        if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            continue
        found = call.cluster.image.partition(Partition(*key))
        if found is not None and found.leader >= 0:
            broker = brokers_for(call).place(f"{key[0]}-{key[1]}")
            hints[key] = _LeaderHint(broker, found.leader_epoch)
    return hints


def _endpoints(call: Call, hints: dict[TopicPartition, _LeaderHint]) -> tuple[Any, ...]:
    return tuple(
        call.types.NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in dict.fromkeys(hint.broker for hint in hints.values())
    )


def _partition_response(
    call: Call,
    partition: int,
    answer: pb.PartitionProduced | Unanswered,
    hint: _LeaderHint | None = None,
) -> Any:
    if isinstance(answer, Unanswered) or answer.error_code:
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
            **_hinted(call, hint),
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
