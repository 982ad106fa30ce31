"""The workload `token_ring`: tokens move round the partitions of a topic. Each hop is a transaction that takes a
token from one partition and puts it into the next, with the offset of what it took. It shows that no token is ever
lost or doubled.

Each partition has one mover: a client that takes tokens out of it, with a transactional id of its own. Movers are
no group members. The id does the fencing, so this is exactly once for every client library. A mover that starts
again first fences its predecessor, and then begins at the committed offset.
"""

from collections.abc import Sequence
from functools import partial

from oncelog_robustness.clients.contract import ClientError
from oncelog_robustness.history import Ending, Isolation, Read
from oncelog_robustness.workload_facts import TokenRing, note, token_of, token_value
from oncelog_robustness.workloads.applications import run_application
from oncelog_robustness.workloads.contract import Lab, until_over
from oncelog_robustness.workloads.lives import retried
from oncelog_robustness.workloads.parameters import Partitions, Pause, Sends, Share, Watched
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    RETRY_TIMEOUT_MS,
    WrittenReader,
    fetch_offsets,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import (
    OpenTransaction,
    Planned,
    Transactor,
    until_committed,
)


class TokenRingParameters(Watched):
    places: Partitions = 4
    tokens: Sends = 1
    abort_share: Share = 0.1
    """The share of the hops that are aborted, and made again."""
    think_ms: Pause = 30


class Ring:
    def __init__(self, name: str, parameters: TokenRingParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.topic = name
        self.group = f"{name}-group"
        self.partitions = partitions_of(name, parameters.places)

    async def setup(self, lab: Lab) -> None:
        given = self.parameters
        await make_topic(lab, self.topic, given.places)
        ring = TokenRing(
            topic=self.topic, places=given.places, tokens=given.tokens, group=self.group
        )
        lab.record(note(ring, client=self.name, invoked_ms=lab.now_ms(), completed_ms=lab.now_ms()))

        async def body(client: Transactor, opened: OpenTransaction) -> None:
            await opened.send_all(
                [
                    Planned(
                        self.partitions[token % given.places],
                        token_value(token, 0, client.unique()),
                    )
                    for token in range(given.tokens)
                ]
            )

        await until_committed(lab, f"{self.name}-setup", body)

    async def start(self, lab: Lab) -> None:
        works = [self._mover(lab, place) for place in range(self.parameters.places)]
        works += watchers(lab, self.name, self.partitions, self.parameters)
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        client = f"{self.name}-check"
        await final_reads(lab, client, self.partitions, DECIDED_LIMIT_MS)
        admin = await retried(lab, RETRY_TIMEOUT_MS, lambda: lab.clients[0].admin(client))
        await fetch_offsets(lab, client, admin, self.group, self.partitions, is_final=True)
        await admin.close()

    async def _mover(self, lab: Lab, place: int) -> None:
        async def life(client: Transactor) -> None:
            await _Mover(self, client, place).live()

        await run_application(lab, f"{self.name}-mover-{place}", place, self.parameters, life)


class _Mover:
    """One start of a mover, the client that takes tokens out of one partition and puts them into the next one."""

    def __init__(self, ring: Ring, client: Transactor, place: int) -> None:
        self._ring = ring
        self._client = client
        self._lab = client.lab
        self._from = ring.partitions[place]
        self._to = ring.partitions[(place + 1) % ring.parameters.places]

    async def live(self) -> None:
        try:
            await self._client.open()
            name, clients = self._client.process.name, self._client.clients
            admin = await clients.admin(name)
            consumer = await clients.consumer(name, Isolation.READ_COMMITTED, None)
            reader = WrittenReader(self._lab, name, consumer)
            while not self._lab.is_over:
                # After the transactional id is ours nobody else moves this offset, and nothing of it is undecided.
                begins = await fetch_offsets(self._lab, name, admin, self._ring.group, [self._from])
                await reader.assign({self._from: max(begins[self._from], 0)})
                if not await self._move_on(reader):
                    return
            await self._client.close()
            await reader.close()
            await admin.close()
        except ClientError:
            return

    async def _move_on(self, reader: WrittenReader) -> bool:
        """Move tokens until a transaction is not committed: what it read must be read again. Returns False when the
        producer can do nothing more, and this client must exit."""
        given, draw = self._ring.parameters, self._lab.random
        while not self._lab.is_over:
            reads = await reader.poll()
            if not reads:
                continue
            ending = Ending.ABORT if draw.random() < given.abort_share else Ending.COMMIT
            ended = await self._client.transact(partial(self._take, reads), ending)
            if not ended.is_committed:
                return ended.is_usable
            await self._lab.sleep(draw.randint(0, given.think_ms))
        return True

    async def _take(self, reads: Sequence[Read], opened: OpenTransaction) -> None:
        opened.reads += reads
        planned = []
        for read in reads:
            token = token_of(read.value or "")
            assert token is not None, f"{read} is no token"
            value = token_value(token.token, token.hop + 1, self._client.unique())
            planned.append(Planned(self._to, value))
        await opened.send_all(planned)
        await opened.send_offsets(self._ring.group, {self._from: reads[-1].offset + 1}, None)
