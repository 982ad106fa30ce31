"""One transaction of a client, from begin to end: what each possible response of the broker means for its outcome,
and its record in the history."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from oncelog_robustness.clients.contract import (
    ClientError,
    Clients,
    Consumer,
    EndedByOthers,
    Fenced,
    Producer,
    Refused,
    Unanswered,
)
from oncelog_robustness.history import (
    Ending,
    GroupOffsets,
    Outcome,
    Partition,
    Read,
    Send,
    Transaction,
    WorkloadFact,
)
from oncelog_robustness.workload_facts import KeyDeleted, ProducerReady, note
from oncelog_robustness.workloads.contract import ClientProcess, Lab

SETUP_TIMEOUT_MS: Final = 30_000
_WORD: Final = "transaction"
_OPENING: Final = "opening"


class Planned(NamedTuple):
    partition: Partition
    value: str
    key: str | None = None


class Ended(NamedTuple):
    is_committed: bool
    """True if the transaction is committed, as far as this client knows."""
    is_usable: bool
    """True if the producer can begin another transaction. Otherwise its state is unknown, and the client must exit;
    its next start makes a new producer with the same id."""


_USELESS: Final = Ended(is_committed=False, is_usable=False)


class OpenTransaction:
    """A transaction that a producer has begun. From the first `update_last_word` on it is in the history, even if
    the process dies."""

    def __init__(
        self,
        lab: Lab,
        process: ClientProcess,
        producer: Producer,
        library: str,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self._lab = lab
        self._process = process
        self._producer = producer
        self._library = library
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._invoked_ms = lab.now_ms()
        self._asked_ms: int | None = None
        self._ending = Ending.NONE
        self.sends: list[Send] = []
        self.reads: list[Read] = []
        self.offsets: GroupOffsets | None = None
        self._offsets_taken_ms: int | None = None
        self._is_taken = False

    async def send_all(self, planned: Sequence[Planned]) -> None:
        """Send all records at once, in this order, and wait for the acknowledgements. If any fail, raise the error
        that matters most: Fenced before Unanswered, for example."""
        first = len(self.sends)
        self.sends += [Send(*one.partition, one.value, None, one.key) for one in planned]
        self.update_last_word()
        answers = await asyncio.gather(
            *[self._producer.send(one.partition, one.value, one.key) for one in planned],
            return_exceptions=True,
        )
        errors: list[BaseException] = []
        for number, answer in enumerate(answers, start=first):
            if isinstance(answer, BaseException):
                errors.append(answer)
            else:
                self.sends[number] = self.sends[number]._replace(offset=answer)
        if errors:
            raise min(errors, key=_gravity)

    async def delete_key(self, partition: Partition, key: str) -> None:
        """Send a tombstone for a key in the transaction, and wait for its offset.

        The test's history stores no send for the tombstone, but a `KeyDeleted` that names the value of the
        transaction's last record. So a record must have been sent before.
        """
        fact = KeyDeleted(
            topic=partition[0],
            partition=partition[1],
            key=key,
            offset=-1,
            with_value=self.sends[-1].value,
        )
        word, invoked_ms = f"delete {key}", self._lab.now_ms()
        self._process.last_word(word, self._fact_of(fact, invoked_ms, None))
        try:
            offset = await self._producer.send(partition, None, key)
        except ClientError:
            self._process.settle(word, self._fact_of(fact, invoked_ms, self._lab.now_ms()))
            raise
        fact = replace(fact, offset=offset)
        self._process.settle(word, self._fact_of(fact, invoked_ms, self._lab.now_ms()))

    def _fact_of(self, fact: KeyDeleted, invoked_ms: int, completed_ms: int | None) -> WorkloadFact:
        return note(
            fact, client=self._process.name, invoked_ms=invoked_ms, completed_ms=completed_ms
        )

    async def send_offsets(
        self, group: str, offsets: Mapping[Partition, int], member: Consumer | None
    ) -> None:
        """Add offsets to the transaction.
        `member` is the consumer that read them, None when the group has no members."""
        self.offsets = GroupOffsets(
            group, tuple((topic, number, at) for (topic, number), at in offsets.items())
        )
        self.update_last_word()
        await self._producer.send_offsets(offsets, group if member is None else member)
        self._offsets_taken_ms = self._lab.now_ms()
        self.update_last_word()

    def update_last_word(self) -> None:
        """Set what the history will say of this transaction if the process dies now. The outcome is unknown if its
        commit was requested; otherwise it is FAIL, because nobody can commit it any more."""
        outcome = Outcome.INFO if self._ending is Ending.COMMIT else Outcome.FAIL
        self._process.last_word(_WORD, self._as_history(outcome, "the process ended", None))

    def refused(self, error: ClientError) -> None:
        """Set whether somebody other than this client had ended the transaction or fenced its producer, as `error`
        says. It is for errors of calls that this client made before it asked for an abort."""
        self._is_taken = isinstance(error, Fenced | EndedByOthers)

    def asks(self, ending: Ending) -> None:
        self._ending = ending
        self._asked_ms = self._lab.now_ms()
        self.update_last_word()

    def settle(self, outcome: Outcome, error: str = "") -> None:
        self._process.settle(_WORD, self._as_history(outcome, error, self._lab.now_ms()))

    def _as_history(self, outcome: Outcome, error: str, completed_ms: int | None) -> Transaction:
        return Transaction(
            client=self._process.name,
            invoked_ms=self._invoked_ms,
            completed_ms=completed_ms,
            transactional_id=self._transactional_id,
            protocol=self._producer.protocol,
            ending=self._ending,
            outcome=outcome,
            sends=tuple(self.sends),
            reads=tuple(self.reads),
            offsets=self.offsets,
            asked_ms=self._asked_ms,
            offsets_taken_ms=self._offsets_taken_ms,
            error=error,
            timeout_ms=self._timeout_ms,
            is_taken=self._is_taken,
            library=self._library,
        )


def _gravity(error: BaseException) -> int:
    """Return the rank of an error, 0 for the gravest. That is an exception which is no response of a broker: it is
    a bug."""
    order = (Fenced, EndedByOthers, Unanswered, Refused)
    return next((at for at, kind in enumerate(order, start=1) if isinstance(error, kind)), 0)


class Transactor:
    """One start of an application that has a transactional id: it makes a producer and runs transactions with it."""

    def __init__(
        self,
        lab: Lab,
        process: ClientProcess,
        clients: Clients,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self.lab = lab
        self.process = process
        self.clients = clients
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._values = 0
        self._producer: Producer | None = None

    @property
    def producer(self) -> Producer:
        assert self._producer is not None, "open() comes first"
        return self._producer

    def unique(self) -> str:
        """Return a value that no other send of the run has."""
        self._values += 1
        return f"{self.process.name}/{self._values}"

    async def open(self) -> None:
        """Make a producer, which fences its predecessor, and record in the history when it was ready."""
        producer = await self.clients.producer(
            self.process.name, self.transactional_id, self._timeout_ms
        )
        ready = partial(
            note,
            ProducerReady(transactional_id=self.transactional_id, protocol=producer.protocol),
            client=self.process.name,
            invoked_ms=self.lab.now_ms(),
        )
        self.process.last_word(_OPENING, ready(completed_ms=None))
        try:
            await producer.init_transactions()
        except ClientError:
            # This holds even after a refusal, because an earlier copy of the request may be on its way.
            self.process.settle(_OPENING, ready(completed_ms=None))
            raise
        self.process.settle(_OPENING, ready(completed_ms=self.lab.now_ms()))
        self._producer = producer

    async def close(self) -> None:
        await self.producer.close()

    async def transact_on(
        self,
        body: Callable[[OpenTransaction], Awaitable[None]],
        *,
        abort_share: float,
        pause_ms: int,
    ) -> None:
        """Make a producer, and one transaction after the other, until the run is over or the producer can do nothing
        more. `abort_share` of them are aborted, and `pause_ms` is the longest pause between two."""
        draw = self.lab.random
        try:
            await self.open()
            while not self.lab.is_over:
                ending = Ending.ABORT if draw.random() < abort_share else Ending.COMMIT
                ended = await self.transact(body, ending)
                if not ended.is_usable:
                    return
                await self.lab.sleep(draw.randint(0, pause_ms))
            await self.close()
        except ClientError:
            return

    async def transact(
        self,
        body: Callable[[OpenTransaction], Awaitable[None]],
        ending: Ending = Ending.COMMIT,
    ) -> Ended:
        """Make one transaction: begin it, run `body`, which sends, and end it by `ending`. If a call of `body` is
        refused, abort it instead."""
        producer = self.producer
        try:
            await producer.begin()
        except ClientError:
            return _USELESS
        opened = OpenTransaction(
            self.lab,
            self.process,
            producer,
            self.clients.library,
            self.transactional_id,
            self._timeout_ms,
        )
        opened.update_last_word()
        try:
            await body(opened)
        except Fenced as error:
            opened.refused(error)
            opened.settle(Outcome.FAIL, repr(error))
            return _USELESS
        except ClientError as error:
            opened.refused(error)
            return await _abort(opened, producer, repr(error))
        if ending is Ending.NONE:
            opened.settle(Outcome.FAIL, "left open")
            return _USELESS
        if ending is Ending.ABORT:
            return await _abort(opened, producer, "")
        return await _commit(opened, producer)


async def until_committed(
    lab: Lab, name: str, body: Callable[[Transactor, OpenTransaction], Awaitable[None]]
) -> None:
    """Commit one transaction in the setup of a workload. A client of its own tries again until it is committed."""

    async def live(process: ClientProcess) -> None:
        while True:
            client = Transactor(lab, process, lab.clients[0], name, SETUP_TIMEOUT_MS)
            try:
                await client.open()
                ended = await client.transact(partial(body, client))
                await client.close()
            except ClientError:
                ended = _USELESS
            if ended.is_committed:
                return
            await lab.sleep(200)

    await lab.spawn(name, live).ended()


async def _abort(opened: OpenTransaction, producer: Producer, reason: str) -> Ended:
    opened.asks(Ending.ABORT)
    try:
        await producer.abort()
    except ClientError as error:
        # It may still be open, but nobody ever asked to commit it.
        opened.settle(Outcome.FAIL, f"{reason} {error!r}".strip())
        return _USELESS
    opened.settle(Outcome.OK, reason)
    return Ended(is_committed=False, is_usable=True)


async def _commit(opened: OpenTransaction, producer: Producer) -> Ended:
    opened.asks(Ending.COMMIT)
    try:
        await producer.commit()
    except Unanswered as error:
        opened.settle(Outcome.INFO, repr(error))
        return _USELESS
    except Fenced as error:
        opened.refused(error)
        opened.settle(Outcome.FAIL, repr(error))
        return _USELESS
    except ClientError as error:
        opened.refused(error)
        opened.settle(Outcome.FAIL, repr(error))
        return Ended(is_committed=False, is_usable=await _aborts(producer))
    opened.settle(Outcome.OK)
    return Ended(is_committed=True, is_usable=True)


async def _aborts(producer: Producer) -> bool:
    """Abort after a commit that was refused. True if that works: the application can go on with the same producer."""
    try:
        await producer.abort()
    except ClientError:
        return False
    return True
