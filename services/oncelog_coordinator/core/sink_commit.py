"""The answers to CommitBatch, by which Spark's driver commits a micro-batch. The rows are tested in this order.

| state | answer |
|---|---|
| no messages: no task ran, nothing was written | OK |
| another query | QUERY_CHANGED |
| batch id <= last, every message a skip whose rows are not those that were committed (`sink_replay`) | REPLAY_REFUSED |
| batch id <= last, every message a skip, or decided by this nonce | ALREADY |
| batch id <= last, decided by another nonce | this nonce is aborted; ALREADY_OTHER |
| messages of more than one nonce, or a skip among live ones | FENCED |
| attempt not open, or of another batch, or a winner not sealed | FENCED |
| else | the decision; OK |

A message is what one task returned; a nonce names one attempt, a try to write the batch. The order matters. A repeated
commit of a decided batch must be ALREADY even though its attempt is no longer open. Batch ids are compared only once
the query is known to own them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.sink_events import BranchMessage, CommitBatch
from oncelog_coordinator.core.sink_records import Branch
from oncelog_coordinator.core.sink_replay import refuse_replay
from oncelog_coordinator.core.sink_state import Attempt, Sink


@dataclass(frozen=True, slots=True)
class CommitVerdict:
    """The answer to a CommitBatch, and which attempts (tries to write a micro-batch) it commits or aborts.

    `winners` are the tasks' branches (their producer ids) that become visible; None: nothing is committed now.
    """

    label: str
    answer: SinkAnswer
    message: str = ""
    attempt: Attempt | None = None
    """The attempt that the winners belong to; None if there are no winners."""
    winners: tuple[Branch, ...] | None = None
    aborts: tuple[Attempt, ...] = ()


def judge_commit(sink: Sink | None, event: CommitBatch) -> CommitVerdict:
    if not event.messages:
        return CommitVerdict("commit_empty", SinkAnswer.OK)
    if sink is None or sink.header is None or not sink.header.query_id:
        return _fenced(
            "unknown_sink", f"nothing has joined sink {event.sink!r}; run the batch again"
        )
    query_ids = {message.query_id for message in event.messages}
    if query_ids != {sink.header.query_id}:
        return CommitVerdict(
            "query_changed",
            SinkAnswer.QUERY_CHANGED,
            f"sink {event.sink!r} belongs to query {sink.header.query_id!r},"
            f" not to {', '.join(sorted(map(repr, query_ids)))}",
        )
    live = [message for message in event.messages if not message.skipped]
    nonces = {message.nonce for message in live}
    last = sink.last_committed_batch_id
    if event.batch_id <= last:
        refusal = refuse_replay(sink, event) if not live else None
        if refusal is not None:
            return CommitVerdict("replay_refused", SinkAnswer.REPLAY_REFUSED, refusal)
        return _judge_decided(sink, event.batch_id, nonces, last)
    if len(nonces) > 1:
        return _fenced(
            "mixed_nonces", "the messages come from several attempts; run the batch again"
        )
    if len(live) < len(event.messages):
        return _fenced("mixed_skip", f"a task skipped batch {event.batch_id}; run the batch again")
    return _judge_winners(sink, event.batch_id, live)


def _judge_decided(sink: Sink, batch_id: int, nonces: set[bytes], last: int) -> CommitVerdict:
    decider = next(
        (batch.nonce for batch in sink.committed_batches() if batch.batch_id == batch_id), None
    )
    if not nonces or (decider is not None and nonces == {decider}):
        return CommitVerdict("already", SinkAnswer.ALREADY)
    return CommitVerdict(
        "already_other",
        SinkAnswer.ALREADY_OTHER,
        f"batch {batch_id} was decided by another attempt (the last one is {last}); this driver must stop",
        aborts=tuple(attempt for attempt in sink.open_attempts() if attempt.nonce in nonces),
    )


def _judge_winners(sink: Sink, batch_id: int, live: Sequence[BranchMessage]) -> CommitVerdict:
    nonce = live[0].nonce
    attempt = sink.attempts.get(nonce)
    if attempt is None or not attempt.is_open:
        return _fenced(
            "attempt_closed", f"attempt {nonce.hex()} is not open: superseded or timed out"
        )
    if attempt.batch_id != batch_id:
        return _fenced(
            "other_batch", f"attempt {nonce.hex()} is of batch {attempt.batch_id}, not {batch_id}"
        )
    winners: dict[int, Branch] = {}
    for message in live:
        branch = attempt.branches.get(message.producer_id)
        if branch is None or (branch.producer_epoch, branch.task_partition) != (
            message.producer_epoch,
            message.task_partition,
        ):
            return _fenced(
                "unknown_branch",
                f"attempt {nonce.hex()} has no branch of producer id {message.producer_id},"
                f" epoch {message.producer_epoch}, task partition {message.task_partition}",
            )
        if not branch.is_sealed:
            return _fenced("not_sealed", f"producer id {branch.producer_id} is not sealed")
        # Two winners of one task partition would make its rows visible twice.
        if branch.task_partition in winners:
            return _fenced("two_winners", f"task partition {branch.task_partition} has two winners")
        winners[branch.task_partition] = branch
    return CommitVerdict(
        "committed", SinkAnswer.OK, attempt=attempt, winners=tuple(winners.values())
    )


def _fenced(label: str, message: str) -> CommitVerdict:
    return CommitVerdict(label, SinkAnswer.FENCED, message)
