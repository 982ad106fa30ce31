"""A client that makes the calls about a Spark sink's attempts (tries to write a micro-batch) in every wrong order.
Attempts are opened twice, joined by strangers, sealed again, and committed without their tasks or with those of
others.

No record is written, so none can be lost. The inspector watches inside the cluster what a coordinator does with
such calls.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.addresses import parse_addresses
from oncelog.errors import OncelogError
from oncelog.spark.attempt import NONCE_BYTES
from oncelog_robustness.clients.blocking import blocking
from oncelog_robustness.clients.login import chosen_login
from oncelog_robustness.workloads.contract import Lab

QUERY: Final = "query"
TIMEOUT_MS: Final = 5_000
BATCHES: Final = 3
"""The number of batch ids, from 0 on. Now and then a join draws one of them instead of naming the right batch."""


class _Branch(NamedTuple):
    nonce: bytes
    task: int
    producer_id: int
    producer_epoch: int


class SinkMeddler:
    """One start of a client that makes wrong calls about `sink`, a Spark sink that all meddlers share and no other
    client uses."""

    def __init__(self, lab: Lab, client: str, sink: str, producer: str) -> None:
        self._lab = lab
        self._sink = sink
        self._producer = producer
        """A transactional id of a writer, which names no sink."""
        self._bootstrap = parse_addresses(",".join(lab.clients[0].bootstrap))
        self._settings = ClientSettings(
            login=chosen_login(), client_id=client, request_timeout_ms=5_000, call_timeout_ms=10_000
        )
        self._nonces: list[bytes] = []
        self._branches: list[_Branch] = []
        self._batch = 0

    async def step(self) -> None:
        """Make one drawn call about the sink; any response is fine, and none."""
        steps = (self._open, self._join, self._join, self._seal, self._commit, self._commit)
        work = self._lab.random.choice((*steps, self._abort, self._batch_on, self._batch_on))
        try:
            with Cluster(self._bootstrap, self._settings) as cluster:
                await work(cluster)
        except OncelogError:
            return

    async def _batch_on(self, cluster: Cluster) -> None:
        """Make all calls for one micro-batch in the right order, so that the sink has a state in which wrong calls
        could do harm."""
        draw = self._lab.random
        nonce = draw.randbytes(NONCE_BYTES)
        await self._opened(cluster, self._sink, nonce)
        tasks = [0, 1] if draw.random() < 0.7 else [0, 0]
        branches = [
            await self._joined(cluster, self._join_request(nonce, task, attempt))
            for attempt, task in enumerate(tasks)
        ]
        known = [one for one in branches if one is not None]
        for branch in known:
            await self._call(cluster, "SealBranch", self._sealing(branch))
        messages = [self._message(one) for one in known]
        for batch in (self._batch, draw.choice((self._batch, self._batch - 1))):
            request = pb.CommitBatchRequest(sink=self._sink, batch_id=batch, messages=messages)
            await self._call(cluster, "CommitBatch", request)

    async def _call(self, cluster: Cluster, method: str, request: Any) -> Any:
        return await blocking(cluster.private_call, method, request)

    def _name(self) -> str:
        """Draw the name of a sink: mostly the meddlers' own sink, sometimes one that does not exist or a
        transactional id that is no sink."""
        dice = self._lab.random.random()
        if dice < 0.06:
            return self._producer
        return f"{self._sink}-none" if dice < 0.12 else self._sink

    def _nonce(self) -> bytes:
        """Draw a nonce, the random bytes that name an attempt to write a micro-batch: mostly a known one, sometimes
        a new one, and now and then one of the wrong length."""
        draw = self._lab.random
        dice = draw.random()
        if self._nonces and dice < 0.8:
            return self._nonces[-1] if dice < 0.6 else draw.choice(self._nonces)
        return b"short" if dice > 0.95 else draw.randbytes(NONCE_BYTES)

    async def _open(self, cluster: Cluster) -> None:
        await self._opened(cluster, self._name(), self._nonce())

    async def _opened(self, cluster: Cluster, sink: str, nonce: bytes) -> None:
        request = pb.OpenAttemptRequest(sink=sink, nonce=nonce, timeout_ms=TIMEOUT_MS)
        await self._call(cluster, "OpenAttempt", request)
        self._nonces = [*self._nonces[-4:], nonce]
        described = await self._call(cluster, "DescribeSink", pb.DescribeSinkRequest(sink=sink))
        self._batch = described.last_committed_batch_id + 1

    async def _join(self, cluster: Cluster) -> None:
        draw = self._lab.random
        request = self._join_request(self._nonce(), draw.randrange(2), draw.randrange(3))
        request.sink = self._name()
        if draw.random() < 0.1:
            request.query_id, request.adopt_query = "another query", draw.random() < 0.5
        if draw.random() < 0.1:
            request.batch_id = draw.randrange(BATCHES)
        await self._joined(cluster, request)

    def _join_request(self, nonce: bytes, task: int, attempt: int) -> Any:
        return pb.JoinAttemptRequest(
            sink=self._sink,
            nonce=nonce,
            query_id=QUERY,
            run_id="run",
            batch_id=self._batch,
            task_partition=task,
            task_attempt_id=attempt,
        )

    async def _joined(self, cluster: Cluster, request: Any) -> _Branch | None:
        joined = await self._call(cluster, "JoinAttempt", request)
        if joined.answer:
            return None
        branch = _Branch(
            request.nonce, request.task_partition, joined.producer_id, joined.producer_epoch
        )
        self._branches = [*self._branches[-6:], branch]
        return branch

    def _drawn(self) -> list[_Branch]:
        """Draw up to two known branches, mostly of the last attempt to write a micro-batch. A branch is what one
        try of one task writes in it."""
        draw = self._lab.random
        last = [one for one in self._branches if one.nonce in self._nonces[-1:]]
        known = last if last and draw.random() < 0.7 else self._branches
        return draw.sample(known, draw.randint(0, min(2, len(known)))) if known else []

    async def _seal(self, cluster: Cluster) -> None:
        draw = self._lab.random
        for branch in self._drawn():
            for _ in range(draw.randint(1, 2)):
                request = self._sealing(branch)
                request.sink = self._name()
                if draw.random() < 0.1:
                    request.nonce, request.row_count = b"short", 1
                await self._call(cluster, "SealBranch", request)

    def _sealing(self, branch: _Branch) -> Any:
        return pb.SealBranchRequest(
            sink=self._sink,
            nonce=branch.nonce,
            producer_id=branch.producer_id,
            producer_epoch=branch.producer_epoch,
        )

    async def _commit(self, cluster: Cluster) -> None:
        draw = self._lab.random
        messages = [self._message(one) for one in self._drawn()]
        request = pb.CommitBatchRequest(
            sink=self._name(),
            batch_id=draw.choice((self._batch, self._batch, self._batch, self._batch + 1, -1)),
            messages=messages,
        )
        await self._call(cluster, "CommitBatch", request)

    def _message(self, branch: _Branch) -> Any:
        draw = self._lab.random
        return pb.BranchMessage(
            nonce=branch.nonce,
            query_id=QUERY if draw.random() < 0.95 else "another query",
            skipped=draw.random() < 0.1,
            task_partition=branch.task,
            producer_id=branch.producer_id + (1_000_000 if draw.random() < 0.1 else 0),
            producer_epoch=branch.producer_epoch,
        )

    async def _abort(self, cluster: Cluster) -> None:
        nonces: Sequence[bytes] = [self._nonce() for _ in range(self._lab.random.randint(1, 2))]
        request = pb.AbortAttemptRequest(sink=self._name(), nonces=nonces)
        await self._call(cluster, "AbortAttempt", request)
