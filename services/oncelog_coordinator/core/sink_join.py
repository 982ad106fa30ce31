"""The answers to JoinAttempt, by which a Spark task gets its producer id, and the changes that a join makes.

| state, tested in this order | answer |
|---|---|
| another query, which may not adopt the sink | QUERY_CHANGED |
| batch id <= last committed | SKIP |
| a run that a later one superseded | FENCED |
| nonce unknown, superseded, timed out or decided | FENCED |
| attempt of another batch or query | FENCED |
| the same task attempt again | the same producer id |
| else | a new branch |

A nonce names one attempt to write a micro-batch. It must be opened before it is joined. (Were a first join to open the
attempt, a zombie driver that never reaches the coordinator with OpenAttempt could still supersede a live one.)
"""

from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, ProducerEpoch, ProducerId, branch_transactional_id
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.sink_events import JoinAnswer, JoinAttempt
from oncelog_coordinator.core.sink_limits import SinkLimits, refuse_arguments
from oncelog_coordinator.core.sink_records import Branch, SinkHeader
from oncelog_coordinator.core.sink_state import NOT_SEALED, SinkMap


def joined_before(sinks: SinkMap, event: JoinAttempt) -> Branch | None:
    """Return the branch (a producer id) that this very try of a task got by an earlier join; None: it has none."""
    attempt = sinks.open_attempt(event.sink, event.nonce)
    if attempt is None:
        return None
    return attempt.branch_of(event.task_partition, event.task_attempt_id)


def refuse_join(
    sinks: SinkMap, limits: SinkLimits, event: JoinAttempt
) -> tuple[JoinAnswer, str] | None:
    """Return the answer to a join that is refused or skipped, and its label: the name of the decision in logs and
    metrics. None: the task has a producer id or gets one."""
    refusal = refuse_arguments(event, limits)
    if refusal is not None:
        return JoinAnswer(*refusal), "join_refused"
    sink = sinks.sinks.get(event.sink)
    if sink is None or sink.header is None:
        return _fenced_join(
            f"sink {event.sink!r} has no attempt {event.nonce.hex()}"
        ), "join_fenced"
    header = sink.header
    is_other_query = header.query_id not in ("", event.query_id)
    if is_other_query and (not event.adopt_query or event.query_id in header.retired_query_ids):
        message = (
            f"sink {event.sink!r} belongs to query {header.query_id!r}, not to {event.query_id!r}."
            " Batch ids of a new checkpoint start again at 0: set onNewQuery=adopt to let it take over,"
            " or choose another transactionalId"
        )
        return JoinAnswer(error_message=message, answer=SinkAnswer.QUERY_CHANGED), "query_changed"
    if not is_other_query and event.batch_id <= sink.last_committed_batch_id:
        return JoinAnswer(answer=SinkAnswer.SKIP), "skipped"
    if event.run_id in header.superseded_run_ids:
        return _fenced_join(
            f"run {event.run_id!r} was superseded by {header.run_id!r}"
        ), "join_fenced"
    attempt = sinks.open_attempt(event.sink, event.nonce)
    if attempt is None:
        message = f"attempt {event.nonce.hex()} is not open: superseded, timed out or never opened"
        return _fenced_join(message), "join_fenced"
    if attempt.branches and (is_other_query or attempt.batch_id != event.batch_id):
        message = (
            f"attempt {event.nonce.hex()} is of batch {attempt.batch_id} of {header.query_id!r}"
        )
        return _fenced_join(message), "join_fenced"
    if is_other_query and len(header.retired_query_ids) >= limits.retired_queries_max:
        message = f"sink {event.sink!r} changed its query too often; choose another transactionalId"
        return JoinAnswer(ErrorCode.POLICY_VIOLATION, message), "join_refused"
    is_full = len(attempt.branches) >= limits.branches_max
    if is_full and joined_before(sinks, event) is None:
        message = f"attempt {event.nonce.hex()} has {len(attempt.branches)} branches, its bound; use fewer tasks"
        return JoinAnswer(ErrorCode.POLICY_VIOLATION, message), "join_refused"
    return None


def header_after_join(header: SinkHeader, event: JoinAttempt, limits: SinkLimits) -> SinkHeader:
    """Return the sink's header record (which query and run own the sink) once this join is accepted.

    When another query adopts the sink, the query that had it is retired. It can never take the sink back, even if its
    zombies ask for it.
    """
    if not header.query_id:
        header = replace(header, query_id=event.query_id)
    elif header.query_id != event.query_id:
        header = replace(
            header,
            query_id=event.query_id,
            query_generation=header.query_generation + 1,
            retired_query_ids=(*header.retired_query_ids, header.query_id),
        )
    if event.run_id and event.run_id != header.run_id:
        superseded = header.superseded_run_ids
        if header.run_id:
            superseded = (*superseded, header.run_id)[-limits.superseded_runs_max :]
        header = replace(header, run_id=event.run_id, superseded_run_ids=superseded)
    return header


def new_branch(
    event: JoinAttempt, header: SinkHeader, producer_id: ProducerId, now: Millis
) -> Branch:
    return Branch(
        sink=event.sink,
        nonce=event.nonce,
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(0),
        query_generation=header.query_generation,
        batch_id=event.batch_id,
        task_partition=event.task_partition,
        task_attempt_id=event.task_attempt_id,
        joined_time_ms=now,
        sealed_time_ms=NOT_SEALED,
        row_count=0,
        crc32c=0,
        partitions=(),
    )


def join_answer(branch: Branch) -> JoinAnswer:
    return JoinAnswer(
        producer_id=branch.producer_id,
        producer_epoch=branch.producer_epoch,
        transactional_id=branch_transactional_id(
            branch.sink, branch.batch_id, branch.task_partition
        ),
    )


def _fenced_join(message: str) -> JoinAnswer:
    return JoinAnswer(error_message=message, answer=SinkAnswer.FENCED)
