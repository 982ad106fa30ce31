"""Attempts of a Spark sink in every wrong order: opened twice, joined by strangers, sealed again, committed without
their tasks or with those of others. Nothing is written, so there is nothing to lose; what a coordinator makes of it is
watched from inside."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.addresses import parse_addresses
from oncelog.errors import OncelogError
from oncelog.spark.attempt import NONCE_BYTES
from robustness.clients.blocking import blocking
from robustness.workloads.contract import Lab

QUERY: Final = "query"
TIMEOUT_MS: Final = 5_000
BATCHES: Final = 3
"""From which it draws, ahead of the last one that was committed."""


class _Branch(NamedTuple):
    nonce: bytes
    task: int
    producer_id: int
    producer_epoch: int


class SinkMeddler:
    """One incarnation of a client. It meddles with `sink`, which all its kind share."""

    def __init__(self, lab: Lab, client: str, sink: str, producer: str) -> None:
        self._lab = lab
        self._sink = sink
        self._producer = producer
        """A transactional id that is no sink's."""
        self._bootstrap = parse_addresses(",".join(lab.clients[0].bootstrap))
        self._settings = ClientSettings(
            client_id=client, request_timeout_ms=5_000, call_timeout_ms=10_000
        )
        self._nonces: list[bytes] = []
        self._branches: list[_Branch] = []
        self._batch = 0

    async def step(self) -> None:
        """Whatever comes of it."""
        work = self._lab.random.choice(
            (
                self._open,
                self._open,
                self._join,
                self._join,
                self._seal,
                self._commit,
                self._commit,
                self._abort,
            )
        )
        try:
            with Cluster(self._bootstrap, self._settings) as cluster:
                await work(cluster)
        except OncelogError:
            return

    async def _call(self, cluster: Cluster, method: str, request: Any) -> Any:
        return await blocking(cluster.private_call, method, request)

    def _name(self) -> str:
        """Its own sink rather than one that is none."""
        dice = self._lab.random.random()
        if dice < 0.06:
            return self._producer
        return f"{self._sink}-none" if dice < 0.12 else self._sink

    def _nonce(self) -> bytes:
        """Known rather than new, and now and then none at all."""
        draw = self._lab.random
        dice = draw.random()
        if self._nonces and dice < 0.8:
            return self._nonces[-1] if dice < 0.6 else draw.choice(self._nonces)
        return b"short" if dice > 0.95 else draw.randbytes(NONCE_BYTES)

    async def _open(self, cluster: Cluster) -> None:
        sink, nonce = self._name(), self._nonce()
        await self._call(
            cluster,
            "OpenAttempt",
            pb.OpenAttemptRequest(sink=sink, nonce=nonce, timeout_ms=TIMEOUT_MS),
        )
        self._nonces = [*self._nonces[-4:], nonce]
        described = await self._call(
            cluster, "DescribeSink", pb.DescribeSinkRequest(sink=self._name())
        )
        self._batch = described.last_committed_batch_id + 1

    async def _join(self, cluster: Cluster) -> None:
        draw = self._lab.random
        nonce, task = self._nonce(), draw.randrange(2)
        request = pb.JoinAttemptRequest(
            sink=self._name(),
            nonce=nonce,
            query_id=QUERY if draw.random() < 0.9 else "another query",
            run_id="run",
            batch_id=self._batch if draw.random() < 0.9 else draw.randrange(BATCHES),
            task_partition=task,
            task_attempt_id=draw.randrange(3),
            adopt_query=draw.random() < 0.05,
        )
        joined = await self._call(cluster, "JoinAttempt", request)
        if not joined.answer:
            branch = _Branch(nonce, task, joined.producer_id, joined.producer_epoch)
            self._branches = [*self._branches[-6:], branch]

    def _drawn(self) -> list[_Branch]:
        """Of the last attempt rather than of all."""
        draw = self._lab.random
        last = [one for one in self._branches if one.nonce == self._nonces[-1]]
        known = last if last and draw.random() < 0.7 else self._branches
        return draw.sample(known, draw.randint(0, min(2, len(known)))) if known else []

    async def _seal(self, cluster: Cluster) -> None:
        draw = self._lab.random
        for branch in self._drawn():
            for _ in range(draw.randint(1, 2)):
                request = pb.SealBranchRequest(
                    sink=self._name(),
                    nonce=branch.nonce if draw.random() < 0.9 else b"short",
                    producer_id=branch.producer_id,
                    producer_epoch=branch.producer_epoch,
                    row_count=0 if draw.random() < 0.9 else 1,
                )
                await self._call(cluster, "SealBranch", request)

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
