"""Small histories, told line by line. A record is written `t-0@5 value` or `t-0@5 value key`, `@?` for no offset."""

from oncelog_robustness.checkers.verdict import Answer, Checker, Verdict
from oncelog_robustness.history import (
    Ending,
    FinalRead,
    GroupOffsets,
    History,
    Isolation,
    OffsetsCommitted,
    OffsetsFetched,
    Outcome,
    PlainSend,
    Poll,
    Positioned,
    Read,
    Send,
    Transaction,
)
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import Fact, note

RC = Isolation.READ_COMMITTED
RU = Isolation.READ_UNCOMMITTED


def sent(text: str) -> Send:
    where, value, *key = text.split()
    spot, at = where.split("@")
    topic, partition = spot.rsplit("-", 1)
    return Send(
        topic, int(partition), value, None if at == "?" else int(at), key[0] if key else None
    )


def read(text: str) -> Read:
    """A value `-` is a tombstone."""
    send = sent(text)
    assert send.offset is not None
    value = None if send.value == "-" else send.value
    return Read(send.topic, send.partition, send.offset, value, send.key)


def spots(text: str) -> tuple[tuple[str, int, int], ...]:
    """`t-0@5 t-1@7`: topics, partitions and offsets."""
    found = []
    for spot in text.split():
        where, at = spot.split("@")
        topic, partition = where.rsplit("-", 1)
        found.append((topic, int(partition), int(at)))
    return tuple(found)


def group(text: str) -> GroupOffsets:
    """`g: t-0@5 t-1@7`."""
    name, _, rest = text.partition(":")
    return GroupOffsets(name, spots(rest))


class MadeHistory:
    """Operations one after another, ten milliseconds each, unless they are given their times."""

    def __init__(self) -> None:
        self.history = History()
        self.observations = Observations(is_healed=True)
        self.now_ms = 0

    def _times(self, times: tuple[int, int | None] | None) -> dict:
        self.now_ms += 10
        invoked_ms, completed_ms = times or (self.now_ms - 9, self.now_ms - 1)
        self.now_ms = max(self.now_ms, invoked_ms, completed_ms or 0)
        return {"invoked_ms": invoked_ms, "completed_ms": completed_ms}

    def txn(
        self,
        *sends: str,
        client: str = "w#1",
        ending: Ending = Ending.COMMIT,
        outcome: Outcome = Outcome.OK,
        reads: tuple[str, ...] = (),
        offsets: str | None = None,
        tid: str | None = None,
        protocol: str = "TV1",
        asked_ms: int | None = None,
        taken_ms: int | None = None,
        at: tuple[int, int | None] | None = None,
        library: str = "",
    ) -> Transaction:
        transaction = Transaction(
            client=client,
            **self._times(at),
            transactional_id=tid or client.partition("#")[0],
            protocol=protocol,
            ending=ending,
            outcome=outcome,
            sends=tuple(sent(one) for one in sends),
            reads=tuple(read(one) for one in reads),
            offsets=None if offsets is None else group(offsets),
            asked_ms=asked_ms,
            offsets_taken_ms=taken_ms,
            library=library,
        )
        self.history.add(transaction)
        return transaction

    def plain(self, send: str, outcome=Outcome.OK, client="p#1", at=None) -> None:
        self.history.add(
            PlainSend(client=client, **self._times(at), send=sent(send), outcome=outcome)
        )

    def poll(self, *reads: str, client="c#1", isolation=RC, at=None) -> None:
        self.history.add(
            Poll(
                client=client,
                **self._times(at),
                isolation=isolation,
                reads=tuple(read(one) for one in reads),
            )
        )

    def positioned(self, positions: str, client="c#1", at=None) -> None:
        self.history.add(Positioned(client=client, **self._times(at), positions=spots(positions)))

    def final(
        self,
        partition: str,
        *reads: str,
        isolation=RC,
        start=0,
        end=None,
        complete=True,
        at=None,
        client="final#1",
    ) -> None:
        """`reads` without their partition: `5 value`."""
        topic, number = partition.rsplit("-", 1)
        found = tuple(read(f"{partition}@{one}") for one in reads)
        self.history.add(
            FinalRead(
                client=client,
                **self._times(at),
                isolation=isolation,
                topic=topic,
                partition=int(number),
                start_offset=start,
                end_offset=(max((one.offset for one in found), default=start - 2) + 2)
                if end is None
                else end,
                reads=found,
                is_complete=complete,
            )
        )

    def finals(self, partition: str, *reads: str, **more) -> None:
        """The same at both isolation levels."""
        self.final(partition, *reads, isolation=RU, **more)
        self.final(partition, *reads, isolation=RC, **more)

    def committed(self, offsets: str, outcome=Outcome.OK, client="c#1", at=None) -> None:
        self.history.add(
            OffsetsCommitted(
                client=client, **self._times(at), committed=group(offsets), outcome=outcome
            )
        )

    def fetched(self, offsets: str, final=False, client="admin#1", at=None) -> None:
        self.history.add(
            OffsetsFetched(client=client, **self._times(at), fetched=group(offsets), is_final=final)
        )

    def note(self, fact: Fact, client="w#1", at=None) -> None:
        self.history.add(note(fact, client=client, **self._times(at)))

    def judged_by(self, check: Checker) -> Verdict:
        return check(self.history, self.observations)

    def assert_ok(self, check: Checker, judged: int | None = None) -> None:
        assert_ok(self.judged_by(check), judged)

    def assert_broken(self, check: Checker, *words: str) -> None:
        assert_broken(self.judged_by(check), *words)

    def assert_unknown(self, check: Checker, *words: str) -> None:
        assert_unknown(self.judged_by(check), *words)


def assert_ok(verdict: Verdict, judged: int | None = None) -> None:
    assert verdict.answer is Answer.OK, verdict
    assert verdict.proof == ()
    assert verdict.judged > 0
    assert judged is None or verdict.judged == judged, verdict


def assert_broken(verdict: Verdict, *words: str) -> None:
    """`words` are what a person needs to find the place, all in the first sentence of the proof."""
    assert verdict.answer is Answer.BROKEN, verdict
    for word in words:
        assert word in verdict.proof[0], (word, verdict.proof)


def assert_unknown(verdict: Verdict, *words: str) -> None:
    assert verdict.answer is Answer.UNKNOWN, verdict
    for word in words:
        assert word in verdict.proof[0], (word, verdict.proof)
