"""The adapter of Kafka's Java client, in a Java process of its own (`java_process.py`).

It speaks TV2 where the brokers have it, else TV1. It repeats EndTxn without telling; the program counts how often that
left. A refusal proves this:

    EndTxn sent once, refused      the commit was not done
    EndTxn sent more than once     nobody knows: an earlier one may have decided
    a batch was given up           the record is not in the log: the producer can only abort
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import (
    Consumer,
    EndedByOthers,
    Fenced,
    Refused,
    Unanswered,
)
from oncelog_robustness.clients.java_process import JavaError, JavaProcess
from oncelog_robustness.clients.login import java_login
from oncelog_robustness.history import Isolation, Partition, Read

CALL_TIMEOUT_MS: Final = 20_000
CALL_TIMEOUT_S: Final = CALL_TIMEOUT_MS / 1000 + 5
"""Seconds that a call may take: the client's own time-outs, and some more."""
CLOSE_TIMEOUT_S: Final = 3.0
REQUEST_TIMEOUT_MS: Final = 8_000
_COMMON: Final[Mapping[str, object]] = {
    "request.timeout.ms": REQUEST_TIMEOUT_MS,
    "default.api.timeout.ms": CALL_TIMEOUT_MS,
    "reconnect.backoff.max.ms": 500,
    "metadata.max.age.ms": 20_000,
    "enable.metrics.push": "false",
}
_PRODUCER: Final[Mapping[str, object]] = {
    "enable.idempotence": "true",
    "linger.ms": 0,
    "max.block.ms": CALL_TIMEOUT_MS,
}
_CONSUMER: Final[Mapping[str, object]] = {
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 2_000,
    "max.poll.interval.ms": 60_000,
}
_numbers: Final = itertools.count(1)


class JavaClients:
    """A factory of Java clients against the brokers at `bootstrap`, a list of `host:port`."""

    library = "java"

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap: Sequence[str] = list(bootstrap)

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> "JavaProducer":
        options: dict[str, object] = {**_PRODUCER, "delivery.timeout.ms": CALL_TIMEOUT_MS}
        if transactional_id is not None:
            options["transactional.id"] = transactional_id
            options["transaction.timeout.ms"] = timeout_ms
            options["delivery.timeout.ms"] = max(
                REQUEST_TIMEOUT_MS, min(timeout_ms, CALL_TIMEOUT_MS)
            )
        producer = JavaProducer({**self._settings(client), **options}, transactional_id is not None)
        if transactional_id is None:
            await producer.start()
        return producer

    async def consumer(
        self, client: str, isolation: Isolation, group: str | None
    ) -> "JavaConsumer":
        options: dict[str, object] = {**_CONSUMER, "isolation.level": isolation.value}
        # The consumer is given its position, and must not jump when that offset does not exist.
        options["auto.offset.reset"] = "none" if group is None else "earliest"
        if group is not None:
            options["group.id"] = group
        admin = WireAdmin(self.bootstrap, client)
        consumer = JavaConsumer({**self._settings(client), **options}, admin, isolation, group)
        await consumer.start()
        return consumer

    async def admin(self, client: str) -> WireAdmin:
        return WireAdmin(self.bootstrap, client)

    def _settings(self, client: str) -> dict[str, object]:
        return {**_COMMON, "bootstrap.servers": ",".join(self.bootstrap), "client.id": client}


class _JavaClient:
    """A client in the Java process, under a name of its own."""

    def __init__(self, kind: str, settings: Mapping[str, object]) -> None:
        self.name = f"{kind}{next(_numbers)}"
        self._kind = kind
        self._settings = settings
        self._process: JavaProcess | None = None

    async def start(self) -> None:
        process = self._process = JavaProcess.enter()
        settings = {**self._settings, **java_login()}
        words = [word for name, value in settings.items() for word in (name, _hex(str(value)))]
        try:
            await process.ask(CALL_TIMEOUT_S, f"{self._kind}-open", self.name, *words)
        except JavaError as error:
            raise Unanswered(str(error)) from error

    async def _ask(self, verb: str, *words: object, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        if self._process is None:
            raise Refused("it was closed, or never started")
        return await self._process.ask(timeout_s, f"{self._kind}-{verb}", self.name, *words)

    async def _leave(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            await process.ask(CLOSE_TIMEOUT_S, "close", self.name)
        except (Unanswered, JavaError):
            # What does not end in time is abandoned, as by an application that exits.
            pass
        finally:
            process.leave()


class JavaProducer(_JavaClient):
    sends_generation = True

    def __init__(self, settings: Mapping[str, object], is_transactional: bool) -> None:
        super().__init__("p", settings)
        self.protocol = "TV1"
        self._is_transactional = is_transactional
        self._under_way = 0
        self._failed = ""
        """The reason why this transaction must not be committed; empty if it may be."""
        self._is_torn = False
        """True if a batch was given up: an earlier try may still arrive, so no transaction may follow."""
        self._dead: Refused | None = None
        """The error because of which no other transaction can begin; None if one can."""

    async def init_transactions(self) -> None:
        await self.start()
        await self._begun("init")

    async def begin(self) -> None:
        self._check_alive()
        if self._is_torn:
            raise Refused("a batch was given up; a new producer is needed")
        self._failed = ""
        await self._begun("begin")

    async def _begun(self, verb: str) -> None:
        answer = await self._call(verb)
        self.protocol = "TV2" if answer["tv2"] else "TV1"

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        self._check_alive()
        self._under_way += 1
        try:
            return await self._sent(partition, value, key)
        except BaseException as error:
            self._failed = self._failed or f"a send was given up: {error!r}"
            self._is_torn = True
            raise
        finally:
            self._under_way -= 1

    async def _sent(self, partition: Partition, value: str | None, key: str | None) -> int:
        try:
            answer = await self._ask("send", *partition, _hex(key), _hex(value))
        except Unanswered:
            self._dead = Refused("a send was not answered; a new producer is needed")
            raise
        except JavaError as error:
            if not self._is_transactional:
                # An earlier try of it may be in the log.
                raise Unanswered(str(error)) from error
            raise self._refusal(error) from error
        if answer["offset"] < 0:
            raise Unanswered(f"{partition} knows the batch, not its offset")
        return int(answer["offset"])

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: Consumer | str
    ) -> None:
        self._check_alive()
        group = ("group", consumer)
        if not isinstance(consumer, str):
            assert isinstance(consumer, JavaConsumer), "a member is of the same library"
            if consumer.group_metadata is None:
                self._failed = "its group has taken its partitions back"
                raise Refused(self._failed)
            group = ("member", consumer.group_metadata)
        try:
            await self._call("offsets", *group, *_placed(offsets))
        except (Refused, Unanswered) as error:
            self._failed = f"offsets: {error}"
            raise

    async def commit(self) -> None:
        self._check_alive()
        if self._failed:
            raise Refused(f"{self._failed}; only an abort is possible")
        if self._under_way:
            raise Refused(f"{self._under_way} sends are not answered yet")
        try:
            await self._ask("commit")
        except Unanswered:
            self._dead = Refused("its last commit was not answered; a new producer is needed")
            await self._leave()
            raise
        except JavaError as error:
            self._dead = Refused("its last commit failed; a new producer is needed")
            # It would go on repeating the request.
            await self._leave()
            refusal = _end_of_commit(error)
            if refusal is None:
                raise Unanswered(f"{error} after {error.sent} tries") from error
            self._dead = refusal
            raise refusal from error

    async def abort(self) -> None:
        if isinstance(self._dead, Fenced):
            raise self._dead
        if self._dead is not None:
            raise Unanswered(str(self._dead))
        try:
            await self._call("abort")
        except Fenced:
            raise
        except Refused as error:
            self._dead = error
            raise Unanswered(str(error)) from error

    async def close(self) -> None:
        self._dead = self._dead or Refused("closed")
        await self._leave()

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise self._dead

    async def _call(self, verb: str, *words: object) -> Any:
        try:
            return await self._ask(verb, *words)
        except Unanswered:
            self._dead = Refused(f"{verb} was not answered; a new producer is needed")
            raise
        except JavaError as error:
            refusal = self._refusal(error)
            if "timeout" in error.kinds and not isinstance(refusal, Fenced):
                self._dead = Refused(f"{error}; a new producer is needed")
                raise Unanswered(str(error)) from error
            raise refusal from error

    def _refusal(self, error: JavaError) -> Refused:
        if "fenced" in error.kinds:
            self._dead = Fenced(str(error))
            return self._dead
        return (EndedByOthers if "ended" in error.kinds else Refused)(str(error))


def _end_of_commit(error: JavaError) -> Refused | None:
    """Return the error that a failed commit proves: Fenced, EndedByOthers or Refused. None if the transaction may have
    committed all the same. `error.sent` is how many EndTxn may have reached a coordinator."""
    if error.sent not in (0, 1):
        return None
    if "fenced" in error.kinds:
        return Fenced(str(error))
    if "ended" in error.kinds or "state" in error.kinds:
        return EndedByOthers(str(error))
    return Refused(str(error)) if error.sent == 0 else None


class JavaConsumer(_JavaClient):
    """A consumer that reads new partitions only after the application has received their positions."""

    def __init__(
        self,
        settings: Mapping[str, object],
        admin: WireAdmin,
        isolation: Isolation,
        group: str | None,
    ) -> None:
        super().__init__("c", settings)
        self.group = group
        self.isolation = isolation
        self.group_metadata: str | None = None
        """The name under which the Java process keeps the group membership with which the present partitions came. None
        while the consumer has no partitions."""
        self._admin = admin
        self._positions: Mapping[Partition, int] = {}
        self._given: list[Partition] | None = None
        """The partitions that the group has assigned, until the next poll finds their positions. None at any other
        time."""
        self._new_positions: Mapping[Partition, int] | None = None

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        await self._call("assign", *_placed(positions))
        self._positions = dict(positions)

    async def subscribe(self, topics: Sequence[str]) -> None:
        await self._call("subscribe", ",".join(topics))

    async def poll(self, timeout_ms: int) -> Sequence[Read]:
        if self._given is not None:
            await self._settle(self._given)
            return ()
        answer = await self._call("poll", timeout_ms)
        if answer["moved"]:
            # What was fetched was of partitions that are gone. The next positions are the committed ones.
            self._positions, self.group_metadata = {}, None
            given = answer.get("given")
            self._given = None if given is None else sorted((one[0], one[1]) for one in given)
            return ()
        return [
            Read(topic, number, offset, _text(value), _text(key))
            for topic, number, offset, value, key in answer["reads"]
        ] or ()

    async def _settle(self, given: Sequence[Partition]) -> None:
        """Find the positions from which the new partitions are read, and seek to them."""
        assert self.group is not None, "only a group gives partitions"
        stable = await self._admin.committed(self.group, given) if given else {}
        unset = [one for one in given if stable[one] < 0]
        starts = await self._admin.bounds(unset, self.isolation) if unset else {}
        positions = {one: starts[one][0] if one in starts else stable[one] for one in given}
        membership = f"{self.name}/{next(_numbers)}"
        await self._call("settle", membership, *_placed(positions))
        self.group_metadata = membership
        self._positions = self._new_positions = positions
        self._given = None

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        taken, self._new_positions = self._new_positions, None
        return taken

    async def position(self, partition: Partition) -> int:
        if partition not in self._positions:
            raise Refused(f"it does not read {partition}")
        return int((await self._call("position", *partition))["offset"])

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        if not offsets.keys() <= self._positions.keys():
            raise Refused("it was not given all of these")
        # The library repeats a commit without telling, so that a refusal proves nothing.
        await self._call("commit", *_placed(offsets))

    async def close(self) -> None:
        await self._leave()
        await self._admin.close()

    async def _call(self, verb: str, *words: object) -> Any:
        try:
            return await self._ask(verb, *words, timeout_s=2 * CALL_TIMEOUT_S)
        except JavaError as error:
            raise (Refused if "gone" in error.kinds else Unanswered)(str(error)) from error


def _placed(offsets: Mapping[Partition, int]) -> list[object]:
    return [word for (topic, number), at in offsets.items() for word in (topic, number, at)]


def _hex(text: str | None) -> str:
    return "null" if text is None else text.encode().hex()


def _text(raw: str | None) -> str | None:
    return None if raw is None else bytes.fromhex(raw).decode(errors="backslashreplace")
