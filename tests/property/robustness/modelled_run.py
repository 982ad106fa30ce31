"""A run of many clients against a correct log, small enough to be believed: the log is a list.

Clients are generators; at each `yield` somebody else may go on. What a request did and what its client received are two
things: answers get lost, requests come late, clients die in the middle of everything and leave their last word.
Endings take time: a decision is one moment, its markers reach the partitions one by one, and the last stable offset of
each partition waits for its own.
"""

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial

from oncelog_robustness.history import (
    Ending,
    FinalRead,
    GroupOffsets,
    History,
    Isolation,
    OffsetsCommitted,
    OffsetsFetched,
    Outcome,
    Partition,
    PlainSend,
    Poll,
    Positioned,
    Read,
    Send,
    Transaction,
)
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import GroupProgress, ProducerReady, note
from tests.property.robustness.modelled_log import (
    INPUT,
    KEYED,
    OUTPUT,
    PARTITIONS,
    Broker,
    Open,
    RefusedError,
    UnansweredError,
)

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
GROUP = "movers"
PLAIN_GROUP = "plain"
Steps = Generator[None, None, None]


class Run:
    def __init__(self, seed: int, steps: int = 400) -> None:
        self.draw = random.Random(seed)
        self.broker = Broker(self.draw)
        self.history = History(facts={"seed": str(seed)})
        self.observations = Observations(is_healed=True)
        self.now_ms = 0
        self.numbers: dict[str, int] = {}
        self.late: list[Callable[[], None]] = []
        self.actors: list[tuple[Callable[[str], Steps], str, Steps]] = []
        for make, name in (
            (self._writer, "w1"),
            (self._writer, "w2"),
            (self._writer, "w3"),
            (self._plain, "p"),
            (lambda client: self._consumer(client, RC), "c"),
            (lambda client: self._consumer(client, RU), "u"),
            (self._mover, "m"),
            (self._fetcher, "f"),
            (self._committer, "g"),
        ):
            self._live(make, name)
        for _ in range(steps):
            self._step()
        self._heal()

    def _live(self, make: Callable[[str], Steps], name: str) -> None:
        self.numbers[name] = self.numbers.get(name, 0) + 1
        self.actors.append((make, name, make(f"{name}#{self.numbers[name]}")))

    def _step(self) -> None:
        self.now_ms += self.draw.randint(0, 2)
        dice = self.draw.random()
        if dice < 0.3:
            self.broker.deliver_one()
        elif dice < 0.32 and self.late:
            self._arrive(self.late.pop(self.draw.randrange(len(self.late))))
        elif dice < 0.33:
            self.broker.compact()
        elif dice < 0.335:
            log = self.broker.logs["t", 2]
            log.start = self.draw.randint(log.start, log.stable)
        elif dice < 0.34 and self.broker.ongoing:
            self.broker.fence(self.draw.choice(sorted(self.broker.ongoing)))
        else:
            self._go_on(self.draw.choice(self.actors))

    def _arrive(self, request: Callable[[], None]) -> None:
        with suppress(RefusedError):
            request()

    def _go_on(self, actor: tuple[Callable[[str], Steps], str, Steps]) -> None:
        make, name, steps = actor
        dice = self.draw.random()
        if dice < 0.01:
            # It dies in the middle of everything; closing the generator records its last word.
            steps.close()
        elif dice < 0.015:
            # Its successor begins while it still lives.
            self._live(make, name)
            return
        elif next(steps, "ended") is None:
            return
        self.actors.remove(actor)
        if not any(one[1] == name for one in self.actors):
            self._live(make, name)

    def _heal(self) -> None:
        for _, _, steps in self.actors:
            steps.close()
        for request in self.late:
            self._arrive(request)
        for tid in sorted(self.broker.epochs):
            self.broker.fence(tid)
        while self.broker.undelivered:
            self.broker.deliver_one()
        self.now_ms += 1_000
        for name in sorted(self.broker.logs):
            for isolation in (RU, RC):
                self._final_read(name, isolation)
        offset = self.broker.group_offset[0]
        for group, at in ((GROUP, offset), (PLAIN_GROUP, self.broker.plain_offset)):
            self._fetched("final#1", self.now_ms, group, at, is_final=True)
        progress = GroupProgress(group=GROUP, waited_ms=5, partitions=((*INPUT, offset, offset),))
        self.history.add(
            note(progress, client="final#1", invoked_ms=self.now_ms, completed_ms=self.now_ms)
        )

    def _final_read(self, name: Partition, isolation: Isolation) -> None:
        log = self.broker.logs[name]
        self.now_ms += 1
        self.history.add(
            FinalRead(
                client="final#1",
                invoked_ms=self.now_ms,
                completed_ms=self.now_ms,
                isolation=isolation,
                topic=name[0],
                partition=name[1],
                start_offset=log.start,
                end_offset=log.stable if isolation is RC else log.end,
                reads=tuple(
                    Read(*name, one.offset, one.value, one.key)
                    for one in self.broker.visible(name, isolation, 0)
                ),
                is_complete=True,
            )
        )

    def _request(self, done: Callable[[], None], is_idle: bool = False) -> Steps:
        """Time passes, it is done, time passes; or it is lost on the way there, or comes late, or back."""
        yield
        dice = self.draw.random()
        if dice < 0.03:
            if dice < 0.015 and not is_idle:
                self.late.append(done)
            yield
            raise UnansweredError
        done()
        yield
        if dice < 0.05:
            raise UnansweredError

    def _init(self, client: str, tid: str) -> Generator[None, None, int]:
        invoked_ms = self.now_ms
        yield
        epoch = self.broker.fence(tid)
        while any(txn.tid == tid for txn in self.broker.undelivered):
            yield
        if self.broker.epochs[tid] != epoch:
            raise RefusedError(tid)
        ready = ProducerReady(transactional_id=tid, protocol="TV1")
        self.history.add(
            note(ready, client=client, invoked_ms=invoked_ms, completed_ms=self.now_ms)
        )
        return epoch

    def _writer(self, client: str) -> Steps:
        tid = client.partition("#")[0]
        reader = Reader(self, client, RC)
        try:
            epoch = yield from self._init(client, tid)
            reader.position(dict.fromkeys(PARTITIONS, 0))
            while True:
                yield from self._transact(client, tid, epoch, reader, None)
                yield
        except (RefusedError, UnansweredError):
            return

    def _mover(self, client: str) -> Steps:
        tid = client.partition("#")[0]
        reader = Reader(self, client, RC)
        try:
            epoch = yield from self._init(client, tid)
            while not self.broker.is_group_stable():
                yield
            reader.position({INPUT: max(self.broker.group_offset[0], 0)})
            while True:
                reads = reader.poll()
                yield
                if reads:
                    yield from self._transact(client, tid, epoch, None, reads)
        except (RefusedError, UnansweredError):
            return

    def _transact(
        self,
        client: str,
        tid: str,
        epoch: int,
        reader: "Reader | None",
        inputs: tuple[Read, ...] | None,
    ) -> Steps:
        """A writer's, with values out of nothing, or a mover's, with one output for each input."""
        while any(txn.tid == tid for txn in self.broker.undelivered):
            yield
        attempt = ModelledAttempt(self, client, tid, inputs)
        try:
            for name, value, key in self._planned(client, inputs):
                attempt.sends.append(Send(*name, value, None, key))
                append = partial(self._append, attempt, tid, epoch, len(attempt.sends) - 1)
                yield from self._request(append, is_idle=True)
                attempt.acknowledge()
                if reader is not None and self.draw.random() < 0.2:
                    attempt.reads += reader.poll()
            if inputs is not None:
                upto = inputs[-1].offset + 1
                attempt.offsets = GroupOffsets(GROUP, ((*INPUT, upto),))
                yield from self._request(
                    lambda: self._offer(attempt, tid, epoch, upto), is_idle=True
                )
            is_abort = self.draw.random() < 0.2
            attempt.ask(Ending.ABORT if is_abort else Ending.COMMIT)
            yield from self._request(
                lambda: self.broker.end(tid, epoch, attempt.txn, verdict=not is_abort)
            )
            attempt.settle(Outcome.OK)
            if is_abort and inputs is not None:
                raise RefusedError("it reads its inputs again")
        except RefusedError:
            attempt.settle(Outcome.FAIL)
            raise
        except UnansweredError:
            attempt.settle(Outcome.INFO if attempt.ending is Ending.COMMIT else Outcome.FAIL)
            raise
        except GeneratorExit:
            attempt.settle(
                Outcome.INFO if attempt.ending is Ending.COMMIT else Outcome.FAIL, dies=True
            )
            raise

    def _append(self, attempt: "ModelledAttempt", tid: str, epoch: int, at: int) -> None:
        topic, partition, value, _, key = attempt.sends[at]
        txn = self._of(attempt, tid, epoch)
        attempt.appended(at, self.broker.append((topic, partition), value, key, txn))

    def _of(self, attempt: "ModelledAttempt", tid: str, epoch: int) -> Open:
        attempt.txn = self.broker.transaction(tid, epoch)
        return attempt.txn

    def _offer(self, attempt: "ModelledAttempt", tid: str, epoch: int, upto: int) -> None:
        self.broker.records_of_group += 1
        self._of(attempt, tid, epoch).offsets = (upto, self.broker.records_of_group)

    def _planned(
        self, client: str, inputs: tuple[Read, ...] | None
    ) -> Iterator[tuple[Partition, str, str | None]]:
        for at in range(self.draw.randint(1, 4) if inputs is None else len(inputs)):
            if inputs is not None:
                yield OUTPUT, f"{client}/{inputs[at].value}", None
            elif self.draw.random() < 0.2:
                yield KEYED, self._value(client), self.draw.choice("ab")
            else:
                yield self.draw.choice(PARTITIONS), self._value(client), None

    def _value(self, client: str) -> str:
        self.numbers["value"] = self.numbers.get("value", 0) + 1
        return f"{client}/{self.numbers['value']}"

    def _plain(self, client: str) -> Steps:
        while True:
            name, invoked_ms = self.draw.choice(PARTITIONS), self.now_ms
            value, offsets, outcome = self._value(client), [], Outcome.OK
            completed_ms = None
            try:
                yield from self._request(
                    lambda at=offsets, to=name, what=value: at.append(
                        self.broker.append(to, what, None, None)
                    )
                )
                completed_ms = self.now_ms
            except UnansweredError:
                outcome, completed_ms = Outcome.INFO, self.now_ms
                return
            except GeneratorExit:
                outcome = Outcome.INFO
                raise
            finally:
                found = offsets[0] if outcome is Outcome.OK else None
                self.history.add(
                    PlainSend(
                        client=client,
                        invoked_ms=invoked_ms,
                        completed_ms=completed_ms,
                        send=Send(*name, value, found),
                        outcome=outcome,
                    )
                )

    def _consumer(self, client: str, isolation: Isolation) -> Steps:
        reader = Reader(self, client, isolation)
        while True:
            reader.position(
                {
                    name: self.draw.randint(0, self.broker.logs[name].stable)
                    for name in self.broker.logs
                    if self.draw.random() < 0.8
                }
            )
            for _ in range(self.draw.randint(1, 12)):
                yield
                reader.poll()

    def _fetcher(self, client: str) -> Steps:
        while True:
            invoked_ms = self.now_ms
            yield
            while not self.broker.is_group_stable():
                yield
            self._fetched(client, invoked_ms, GROUP, self.broker.group_offset[0])

    def _committer(self, client: str) -> Steps:
        """A group outside transactions, which goes back as well as on."""
        while True:
            self._fetched(client, self.now_ms, PLAIN_GROUP, self.broker.plain_offset)
            offset, invoked_ms, outcome = self.draw.randint(0, 9), self.now_ms, Outcome.INFO
            completed_ms = None
            try:
                yield from self._request(partial(self._set_plain_offset, offset))
                outcome, completed_ms = Outcome.OK, self.now_ms
            except UnansweredError:
                return
            finally:
                self.history.add(
                    OffsetsCommitted(
                        client=client,
                        invoked_ms=invoked_ms,
                        completed_ms=completed_ms,
                        committed=GroupOffsets(PLAIN_GROUP, ((*INPUT, offset),)),
                        outcome=outcome,
                    )
                )

    def _set_plain_offset(self, offset: int) -> None:
        self.broker.plain_offset = offset

    def _fetched(
        self, client: str, invoked_ms: int, group: str, offset: int, *, is_final: bool = False
    ) -> None:
        self.history.add(
            OffsetsFetched(
                client=client,
                invoked_ms=invoked_ms,
                completed_ms=self.now_ms,
                fetched=GroupOffsets(group, ((*INPUT, offset),)),
                is_final=is_final,
            )
        )


class Reader:
    def __init__(self, run: Run, client: str, isolation: Isolation) -> None:
        self._run = run
        self._client = client
        self._isolation = isolation
        self._positions: dict[Partition, int] = {}

    def position(self, positions: dict[Partition, int]) -> None:
        now_ms = self._run.now_ms
        self._positions = dict(positions)
        self._run.history.add(
            Positioned(
                client=self._client,
                invoked_ms=now_ms,
                completed_ms=now_ms,
                positions=tuple((*name, at) for name, at in positions.items()),
            )
        )

    def poll(self) -> tuple[Read, ...]:
        found: list[Read] = []
        for name, position in self._positions.items():
            upto = self._run.draw.randint(1, 6)
            for one in self._run.broker.visible(name, self._isolation, position):
                if upto == 0:
                    break
                upto -= 1
                found.append(Read(*name, one.offset, one.value, one.key))
                self._positions[name] = one.offset + 1
        if found:
            now_ms = self._run.now_ms
            self._run.history.add(
                Poll(
                    client=self._client,
                    invoked_ms=now_ms,
                    completed_ms=now_ms,
                    isolation=self._isolation,
                    reads=tuple(found),
                )
            )
        return tuple(found)


class ModelledAttempt:
    """What one client knows of one transaction."""

    def __init__(self, run: Run, client: str, tid: str, inputs: tuple[Read, ...] | None) -> None:
        self._run = run
        self._client = client
        self._tid = tid
        self._invoked_ms = run.now_ms
        self.sends: list[Send] = []
        self.reads: list[Read] = list(inputs or ())
        self.offsets: GroupOffsets | None = None
        self.ending = Ending.NONE
        self.txn: Open | None = None
        self._asked_ms: int | None = None
        self._appended: dict[int, int] = {}

    def appended(self, at: int, offset: int) -> None:
        self._appended[at] = offset

    def acknowledge(self) -> None:
        at = len(self.sends) - 1
        self.sends[at] = self.sends[at]._replace(offset=self._appended[at])

    def ask(self, ending: Ending) -> None:
        self.ending = ending
        self._asked_ms = self._run.now_ms

    def settle(self, outcome: Outcome, dies: bool = False) -> None:
        self._run.history.add(
            Transaction(
                client=self._client,
                invoked_ms=self._invoked_ms,
                completed_ms=None if dies else self._run.now_ms,
                transactional_id=self._tid,
                protocol="TV1",
                ending=self.ending,
                outcome=outcome,
                sends=tuple(self.sends),
                reads=tuple(self.reads),
                offsets=self.offsets,
                asked_ms=self._asked_ms,
            )
        )
