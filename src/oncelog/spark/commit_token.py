"""The token of Spark's sink on Apache Kafka: a record, committed in one transaction with a batch's rows, that says
which batch of which query they are.

It is the value of a record in the sink's topic, in JSON, so any Kafka tool shows it. A token repeats what is known of
the batches before it, so the newest one suffices. This module does no I/O: from the newest token and a batch it decides
what to write next (ADR 0053).

| the batch | |
|---|---|
| this very attempt committed a batch that the token knows | committed already: an answer was lost |
| of a job without a name, whose answer was lost, and the token no longer reaches back so far | refused: nobody knows |
| of another query, which may not adopt the sink | refused |
| at or below the last, and its rows are those that were committed | committed already |
| at or below the last, with other rows | refused |
| above 0, and there is no token | refused, unless it may adopt: a lost token, or a checkpoint from elsewhere |
| else | a token to write |
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple, Self, TypedDict

from oncelog.errors import OncelogError
from oncelog.ids import job_sink_name
from oncelog.spark.attempt import QueryChangedError, refused_replay

FORMAT: Final = 1
BATCHES_MAX: Final = 20
"""Committed batches that a token knows, as on oncelog."""
RETIRED_QUERIES_MAX: Final = 32
"""The most queries that a token names as retired. None is forgotten, so that no query can take a sink back: over the
bound, adoption is refused."""

_TOPIC_NAME_MAX: Final = 249
_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class TokenPlace(NamedTuple):
    """The place of a sink's tokens (the records that say which batch is committed): topic and key. Only the producer
    with this transactional.id writes them."""

    topic: str
    key: str
    transactional_id: str


def place_of_stream(transactional_id: str) -> TokenPlace:
    """Return the topic and key of a stream's tokens (the records that say which batch is committed). foreachBatch with
    a batchId uses the same."""
    return TokenPlace(_topic_name("__oncelog_sink_", transactional_id), "batches", transactional_id)


def place_of_job(transactional_id: str, job_id: str | None) -> TokenPlace:
    """Return the topic and key of a batch job's tokens. All jobs of a transactionalId share a topic and a
    transactional.id. Each jobId has a key of its own; jobs without one share a key."""
    key = "unnamed jobs" if job_id is None else f"job {job_id}"
    topic = _topic_name("__oncelog_jobs_", transactional_id)
    return TokenPlace(topic, key, job_sink_name(transactional_id, None))


def _topic_name(prefix: str, transactional_id: str) -> str:
    name = prefix + transactional_id
    if len(name) <= _TOPIC_NAME_MAX and _TOPIC_NAME.fullmatch(transactional_id):
        return name
    return prefix + hashlib.sha256(transactional_id.encode()).hexdigest()


class _Stored(TypedDict):
    """The JSON of a token (the record that says which batches are committed), as Python reads it."""

    format: int
    query_id: str
    batches: list[tuple[int, int, int, str]]
    retired_query_ids: list[str]


class CommittedBatch(NamedTuple):
    batch_id: int
    row_count: int
    row_checksum: int
    nonce: str
    """The nonce of the attempt that committed it."""


@dataclass(frozen=True, slots=True)
class BatchToCommit:
    """A batch that a Spark driver wants to commit, with the count and checksum of its rows."""

    nonce: str
    """The nonce of the attempt: the same in all its tasks, and new for each try."""
    query_id: str
    batch_id: int | None
    """The id of the batch; None: the next one, of a job that has no name."""
    row_count: int
    row_checksum: int
    verify_replay: bool = True
    adopt_query: bool = False


@dataclass(frozen=True, slots=True)
class CommitToken:
    """The value of a sink's token, the record that says which batches are committed: the query, and its last batches,
    oldest first (never empty).
    """

    query_id: str
    batches: tuple[CommittedBatch, ...]
    retired_query_ids: tuple[str, ...] = ()

    @property
    def last_batch_id(self) -> int:
        return self.batches[-1].batch_id

    def to_bytes(self) -> bytes:
        return json.dumps({"format": FORMAT} | asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes, where: str) -> Self:
        """Read a token (which batches are committed) from a record's value. Raises OncelogError naming `where`, for
        what is no token or one of a newer version."""
        try:
            found: _Stored = json.loads(value)
            token_format = int(found["format"])
            if token_format > FORMAT:
                raise OncelogError(
                    f"{where} has a token of format {token_format}, from a newer oncelog: use that one here too"
                )
            return cls(
                query_id=str(found["query_id"]),
                batches=_batches(found["batches"]),
                retired_query_ids=tuple(map(str, found["retired_query_ids"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise OncelogError(
                f"{where} has a record that is no token of a sink ({error!r}): somebody else writes to this topic"
            ) from error


def _batches(found: Sequence[tuple[int, int, int, str]]) -> tuple[CommittedBatch, ...]:
    """Return the committed batches from a token's JSON. Raises ValueError and TypeError for what is no such list."""
    if not found:
        raise ValueError("no batch is in it")
    return tuple(
        CommittedBatch(int(batch_id), int(row_count), int(checksum), str(nonce))
        for batch_id, row_count, checksum, nonce in found
    )


def token_after(
    token: CommitToken | None, batch: BatchToCommit, sink: str, asked_after: int | None = None
) -> CommitToken | None:
    """Return the token (the record that says which batches are committed) to write with the rows of `batch`; None if
    they are committed already. `token` is the newest one found.

    `asked_after`: the last batch when a commit of this very batch was asked for and not answered; None: never. Raises
    QueryChangedError, ReplayRefusedError, and OncelogError where so many batches came since that nobody can know.
    """
    if token is None:
        return _first(batch, sink)
    if any(one.nonce == batch.nonce for one in token.batches):
        return None
    oldest = token.batches[0].batch_id
    if batch.batch_id is None and asked_after is not None and oldest > asked_after + 1:
        raise OncelogError(
            f"sink {sink!r}: the commit of a job without a name was not answered, and {len(token.batches)} others were "
            "committed since. Nobody knows whether its rows are written: look before you run it again, or give it "
            "a jobId"
        )
    if token.query_id != batch.query_id:
        return _adopted(token, batch, sink)
    if batch.batch_id is not None and batch.batch_id <= token.last_batch_id:
        if batch.verify_replay and (why := _difference(token, batch, batch.batch_id)):
            raise refused_replay(f"sink {sink!r}: {why}", sink)
        return None
    batches = (*token.batches, _committed(batch, token.last_batch_id + 1))
    return CommitToken(batch.query_id, batches[-BATCHES_MAX:], token.retired_query_ids)


def _committed(batch: BatchToCommit, next_batch_id: int) -> CommittedBatch:
    batch_id = next_batch_id if batch.batch_id is None else batch.batch_id
    return CommittedBatch(batch_id, batch.row_count, batch.row_checksum, batch.nonce)


def _first(batch: BatchToCommit, sink: str) -> CommitToken:
    if batch.batch_id and not batch.adopt_query:
        raise QueryChangedError(
            f"sink {sink!r} has committed nothing on this cluster, and the query is at batch {batch.batch_id}: it "
            "wrote elsewhere until now, or the sink's topic was deleted, and then this batch may be written already. "
            "Start once with onNewQuery=adopt if nothing of this batch is written"
        )
    return CommitToken(batch.query_id, (_committed(batch, 0),))


def _adopted(token: CommitToken, batch: BatchToCommit, sink: str) -> CommitToken:
    if not batch.adopt_query or batch.query_id in token.retired_query_ids:
        raise QueryChangedError(
            f"sink {sink!r} belongs to query {token.query_id!r}, not to {batch.query_id!r}. Batch numbers of a new "
            "checkpoint start again at 0, so the sink cannot tell new batches from committed ones. If the checkpoint "
            "was deleted or changed on purpose, start once with onNewQuery=adopt; if this is another query, give it a "
            "transactionalId of its own"
        )
    if len(token.retired_query_ids) >= RETIRED_QUERIES_MAX:
        raise QueryChangedError(
            f"sink {sink!r} changed its query {RETIRED_QUERIES_MAX} times; choose another transactionalId"
        )
    retired = (*token.retired_query_ids, token.query_id)
    return CommitToken(batch.query_id, (_committed(batch, 0),), retired)


def _difference(token: CommitToken, batch: BatchToCommit, batch_id: int) -> str | None:
    """Return in which way a batch that Spark runs again differs from the committed one, such as its row count; None:
    they are equal.

    The coordinator's `sink_replay` compares in the same way.
    """
    committed = {one.batch_id: one for one in token.batches}.get(batch_id)
    rows = f"batch {batch_id} has {batch.row_count} rows now"
    if committed is None:
        if not batch.row_count:
            return None
        oldest = token.batches[0].batch_id
        if batch_id > oldest:
            return f"{rows}, and none when it was committed"
        return (
            f"{rows}, and is older than the batches {oldest} to {token.last_batch_id} that the sink can "
            "compare"
        )
    if batch.row_count != committed.row_count:
        return f"{rows}, and was committed with {committed.row_count}"
    if batch.row_checksum != committed.row_checksum:
        return f"{rows} as when it was committed, but not the same ones"
    return None
