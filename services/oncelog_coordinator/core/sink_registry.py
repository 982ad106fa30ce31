"""The Spark sinks of a shard as a whole: operators list, describe and delete them, and unused ones of batch jobs
expire.

A sink holds the last batch ids, which make a batch that runs again harmless. So a streaming sink stays until an
operator deletes it. A batch job has a sink of its own for each jobId; it expires when no run has opened it for seven
days, as a transactional.id does in Kafka. A sink is never removed while a try to write a batch is open, or its markers
are under way.
"""

from typing import Final, assert_never

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, is_job_sink
from oncelog.machine import Decision, Reply, SetTimer, answered
from oncelog_coordinator.core.sink_events import (
    CallAnswer,
    DecisionDescription,
    DeleteSink,
    DescribeSink,
    ExpireSinks,
    ListSinks,
    ListSinksAnswer,
    SinkDescription,
    SinkListing,
)
from oncelog_coordinator.core.sink_limits import SinkLimits
from oncelog_coordinator.core.sink_records import UNKNOWN, SinkRecord, SinkRecordType, Tombstone
from oncelog_coordinator.core.sink_state import Sink, SinkMap, describe_attempt

EXPIRE_TIMER: Final = "expire sinks"

EXPIRED_MAX: Final = 500
"""The most sinks that expire in one step. The next step follows soon after."""

NEXT_EXPIRED_AFTER_MS: Final = Millis(50)

RegistryEvent = DescribeSink | ListSinks | DeleteSink | ExpireSinks


def decide_registry(
    sinks: SinkMap, limits: SinkLimits, event: RegistryEvent, now: Millis
) -> Decision[SinkRecord]:
    match event:
        case DescribeSink():
            answer = _described(sinks.sinks.get(event.sink), event.sink)
            label = "sink_described" if answer.error_code is ErrorCode.NONE else "sink_unknown"
            return answered(event, answer, label)
        case ListSinks():
            listed = tuple(_listed(sinks.sinks[name]) for name in sorted(sinks.sinks))
            return answered(event, ListSinksAnswer(ErrorCode.NONE, listed), "sinks_listed")
        case DeleteSink():
            return _delete(sinks.sinks.get(event.sink), event)
        case ExpireSinks():
            return _expire(sinks, limits, now)
        case _:
            assert_never(event)


def expire_timer(after_ms: Millis) -> SetTimer:
    return SetTimer(EXPIRE_TIMER, after_ms, ExpireSinks(), Millis(after_ms // 10))


def full_shard_message(sink: str, limits: SinkLimits) -> str:
    return (
        f"no room for sink {sink!r}: its shard has {limits.sinks_max} sinks, which is its bound. `oncelog sinks list`"
        " shows all, `oncelog sinks delete NAME` forgets one that is not used any more. A foreachBatch with a jobId for"
        " each batch makes a sink each: use batchId in its place"
    )


def _described(sink: Sink | None, name: str) -> SinkDescription:
    if sink is None or sink.header is None:
        return SinkDescription(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, name)
    return SinkDescription(
        error_code=ErrorCode.NONE,
        sink=sink.name,
        query_id=sink.header.query_id,
        last_committed_batch_id=sink.last_committed_batch_id,
        sink_epoch=sink.header.sink_epoch,
        attempts=tuple(describe_attempt(attempt) for attempt in sink.sorted_attempts()),
        decisions=tuple(
            DecisionDescription(
                batch.batch_id,
                batch.nonce,
                batch.branch_count,
                batch.row_count,
                batch.decided_time_ms,
                None if batch.row_checksum == UNKNOWN else batch.row_checksum,
            )
            for batch in sink.committed_batches()
        ),
    )


def _listed(sink: Sink) -> SinkListing:
    return SinkListing(
        sink=sink.name,
        query_id=sink.header.query_id if sink.header is not None else "",
        is_job=is_job_sink(sink.name),
        last_committed_batch_id=sink.last_committed_batch_id,
        last_used_ms=_last_used(sink),
        attempt_count=len(sink.attempts),
    )


def _last_used(sink: Sink) -> Millis:
    times = [batch.decided_time_ms for batch in sink.committed_batches()]
    if sink.header is not None:
        times.append(sink.header.opened_time_ms)
    return max(times, default=Millis(UNKNOWN))


def _delete(sink: Sink | None, event: DeleteSink) -> Decision[SinkRecord]:
    if sink is None:
        message = f"no sink is named {event.sink!r}; GET /v1/sinks lists all"
        answer = CallAnswer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, message)
        return answered(event, answer, "delete_refused")
    if sink.attempts:
        message = (
            f"sink {event.sink!r} is being written to: stop its query and try again. The attempt of a driver that is"
            " dead times out; `oncelog sinks describe` shows when"
        )
        answer = CallAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, message)
        return answered(event, answer, "delete_refused")
    return Decision(_forgotten(sink), (Reply(event.request_id, CallAnswer()),), "sink_deleted")


def _expire(sinks: SinkMap, limits: SinkLimits, now: Millis) -> Decision[SinkRecord]:
    latest = now - limits.job_expiration_ms
    expired: list[Sink] = []
    for name, sink in sinks.sinks.items():
        if is_job_sink(name) and not sink.attempts and _last_used(sink) <= latest:
            expired.append(sink)
            if len(expired) == EXPIRED_MAX:
                break
    is_full = len(expired) == EXPIRED_MAX
    again = expire_timer(NEXT_EXPIRED_AFTER_MS if is_full else limits.expire_interval_ms)
    records = tuple(record for sink in expired for record in _forgotten(sink))
    return Decision(records, (again,), "sinks_expired" if expired else "no_sink_expired")


def _forgotten(sink: Sink) -> tuple[SinkRecord, ...]:
    """Return the tombstones that remove a sink from the log.

    That of its header record is last: if only the first is written, the sink is still listed and expires again.
    """
    return (
        Tombstone(SinkRecordType.COMPLETE, sink.name),
        Tombstone(SinkRecordType.SINK, sink.name),
    )
