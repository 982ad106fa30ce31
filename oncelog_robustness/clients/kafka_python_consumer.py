"""The consumer of kafka-python's adapter. It reads new partitions only after the application has their positions."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import kafka
from kafka import errors
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.structs import OffsetAndMetadata, TopicPartition

from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import Refused, Unanswered
from oncelog_robustness.clients.thread import CallThread
from oncelog_robustness.history import Isolation, Partition, Read

CALL_TIMEOUT_MS: Final = 20_000
MARGIN_S: Final = 5.0
CLOSE_TIMEOUT_MS: Final = 2_000
_SETTINGS: Final[Mapping[str, Any]] = {
    "enable_auto_commit": False,
    "fetch_max_wait_ms": 500,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 2_000,
    "max_poll_interval_ms": 60_000,
}
_UNREADABLE: Final = (errors.OffsetOutOfRangeError, errors.NoOffsetForPartitionError)

ResultT = TypeVar("ResultT")


class KafkaPythonConsumer(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, settings: Mapping[str, Any], isolation: Isolation, group: str | None):
        self.group = group
        self.isolation = isolation
        self.group_metadata: Any = None
        """The library's metadata of the group, which names the generation in which the last records were returned. None
        while the consumer has no partitions."""
        # A consumer that is given its position must not jump when that offset does not exist.
        own = {"auto_offset_reset": "none" if group is None else "earliest"}
        names = {"group_id": group, "isolation_level": isolation.value}
        self._options = {**settings, **_SETTINGS, **own, **names}
        self._thread = CallThread(f"consumer {settings['client_id']}")
        self._admin = WireAdmin(settings["bootstrap_servers"], settings["client_id"])
        self._client: Any = None
        self._rebalances = 0
        self._given: list[Partition] | None = None
        """The partitions that the group has assigned, until the next poll finds their positions. None at any other
        time."""
        self._is_moving = False
        """True while a rebalance is under way: partitions are gone and none have come yet."""
        self._positions: Mapping[Partition, int] = {}
        self._new_positions: Mapping[Partition, int] | None = None

    async def start(self) -> None:
        """Connect. Raises Unanswered when no broker answers, Refused for a login that the library does not take."""

        def connect() -> None:
            self._client = kafka.KafkaConsumer(**self._options)

        try:
            await self._call(connect)
        except (OSError, ValueError, AssertionError) as error:
            raise Refused(f"it cannot connect: {error!r}") from error

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        def assign() -> None:
            self._client.assign([TopicPartition(*partition) for partition in positions])
            for partition, offset in positions.items():
                self._client.seek(TopicPartition(*partition), offset)

        await self._call(assign)
        self._positions = dict(positions)

    async def subscribe(self, topics: Sequence[str]) -> None:
        await self._call(lambda: self._client.subscribe(list(topics), listener=self))

    # The library's own thread calls these three.
    def on_partitions_revoked(self, revoked: Sequence[Any]) -> None:
        self._is_moving = True
        self._given = None
        self._positions = {}
        self.group_metadata = None

    def on_partitions_lost(self, lost: Sequence[Any]) -> None:
        self.on_partitions_revoked(lost)

    def on_partitions_assigned(self, assigned: Sequence[Any]) -> None:
        self._rebalances += 1
        self._client.pause(*self._client.assignment())
        self._given = sorted((one.topic, one.partition) for one in self._client.assignment())
        self._is_moving = False

    async def poll(self, timeout_ms: int) -> Sequence[Read]:
        if self._given is not None:
            await self._settle(self._given)
            return ()
        found = await self._call(lambda: self._client.poll(timeout_ms))
        if self._given is not None or self._is_moving:
            # These were fetched before the partitions went. The next positions are the committed ones.
            return ()
        return [
            Read(one.topic, one.partition, one.offset, _text(one.value), _text(one.key))
            for partition in sorted(found)
            for one in found[partition]
        ] or ()

    async def _settle(self, given: Sequence[Partition]) -> None:
        """Find the positions from which the new partitions are read, and seek to them."""
        assert self.group is not None, "only a group gives partitions"
        rebalance = self._rebalances
        metadata = await self._call(self._client.group_metadata)
        stable = await self._admin.committed(self.group, given) if given else {}
        unset = [one for one in given if stable[one] < 0]
        starts = await self._admin.bounds(unset, self.isolation) if unset else {}
        positions = {one: starts[one][0] if one in starts else stable[one] for one in given}

        def seek() -> bool:
            if rebalance != self._rebalances or self._is_moving:
                return False
            places = [TopicPartition(*one) for one in given]
            for place in places:
                self._client.seek(place, positions[tuple(place)])
            self._client.resume(*places)
            return True

        try:
            is_settled = await self._call(seek)
        except ValueError:
            # A partition was taken away meanwhile; the next poll finds the new assignment.
            return
        if is_settled and rebalance == self._rebalances:
            self.group_metadata = metadata
            self._positions = positions
            self._new_positions = positions
            self._given = None

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        taken, self._new_positions = self._new_positions, None
        return taken

    async def position(self, partition: Partition) -> int:
        if partition not in self._positions:
            raise Refused(f"it does not read {partition}")
        try:
            found = await self._call(lambda: self._client.position(TopicPartition(*partition)))
        except errors.IllegalStateError as error:
            raise Refused(repr(error)) from error
        if found is None:
            raise Unanswered(f"it has no position in {partition}")
        return int(found)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        if self._is_moving or not offsets.keys() <= self._positions.keys():
            raise Refused("it was not given all of these")
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        # The library repeats a commit without telling, so that a refusal proves nothing.
        await self._call(lambda: self._client.commit(wanted, CALL_TIMEOUT_MS))

    async def close(self) -> None:
        # What does not end in time is abandoned, as by an application that exits.
        with contextlib.suppress(Unanswered, Refused, errors.KafkaError, RuntimeError):
            await self._thread.call(
                2 * CLOSE_TIMEOUT_MS / 1000,
                lambda: self._client.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS),
            )
        self._thread.end()
        await self._admin.close()

    async def _call(self, step: Callable[[], ResultT]) -> ResultT:
        try:
            return await self._thread.call(2 * CALL_TIMEOUT_MS / 1000 + MARGIN_S, step)
        except _UNREADABLE as error:
            raise Refused(repr(error)) from error
        except (errors.IllegalStateError, errors.CorruptRecordError):
            raise
        except errors.KafkaError as error:
            raise Unanswered(repr(error)) from error


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="backslashreplace")
