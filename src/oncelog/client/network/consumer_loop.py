"""The asyncio side of a consumer. In each turn on the event loop it sends the requests that the pure cores ask for;
answers go back to the cores.

Rare requests (positions, heartbeats, commits) are tasks. Rebalances and errors wait until the program's next call for
records: `needs_attention` says so, and a waiting call is woken.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from oncelog.client.core.consumer_record import Deserializers, reader_class
from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.fetching import FetchCore
from oncelog.client.core.membership import Heartbeat, Membership
from oncelog.client.core.partition_state import (
    NEVER,
    RESET_BY_DURATION,
    Lookup,
    Validation,
)
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.errors import (
    AuthorizationError,
    ClientError,
    FatalError,
    RefusedError,
    RetriableError,
    UnsupportedError,
)
from oncelog.client.network.brokers import GROUP, Brokers, Build, NetworkSettings
from oncelog.client.network.consumer_messages import (
    commit_codes,
    epoch_answers,
    epochs_request,
    fetched_offsets,
    heartbeat_answer,
    heartbeat_request,
    list_offsets_request,
    lookup_answers,
    offset_commit_request,
    offset_fetch_request,
)
from oncelog.client.network.fetches import Fetches
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

TypesT = TypeVar("TypesT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

logger = logging.getLogger(__name__)

LEAVE_TIMEOUT_MS: Final = 5_000
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_PASSING: Final = frozenset(
    {
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
"""The errors of a member that the next heartbeat brings up to date."""
_NO_MEMBER: Final = _PASSING - {ErrorCode.STALE_MEMBER_EPOCH} | {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
}


class ConsumerLoop:
    def __init__(
        self,
        settings: ConsumerSettings,
        network: NetworkSettings,
        deserializers: Deserializers | None,
    ) -> None:
        self.settings = settings
        self.core = FetchCore(settings, reader_class(), deserializers)
        self.membership = Membership(settings, str(uuid4()))
        self.brokers = Brokers(network, self.wake)
        self.loop = asyncio.get_running_loop()
        self.fetches = Fetches(self.core, self.brokers, self._fetched, self.wake)
        self.needs_attention = False
        """True if the program must be told something, or offsets are due to be committed."""
        self.was_polled = True
        self.waits_for_records = 0
        """The number of the program's calls that wait for records."""
        self.needs_all_topics = False
        self.commit_due_ms = self.now_ms() + settings.auto_commit_interval_ms
        self._polled_ms = self.now_ms()
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._names: tuple[int, dict[bytes, str]] = (-1, {})

    def now_ms(self) -> float:
        """Return the loop's time in milliseconds."""
        return self.loop.time() * 1000

    @property
    def names(self) -> Mapping[bytes, str]:
        """Topic id → topic name, from the newest metadata."""
        view = self.brokers.view
        if self._names[0] != view.version:
            found = {topic.topic_id: name for name, topic in view.topics.items() if topic.topic_id}
            self._names = (view.version, found)
        return self._names[1]

    @property
    def auto_commits(self) -> bool:
        return self.settings.enable_auto_commit and self.settings.group_id is not None

    async def close(self) -> None:
        for handle in (self._turn, self._timer):
            if handle is not None:
                handle.cancel()
        self._turn = self._timer = None
        self.brokers.is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.tell()
        self.fetches.close()
        await self.brokers.close()

    # ---------------------------------------------------------------------------------------------- waiting

    def tell(self) -> None:
        """Wake the program's calls that wait in `changed`, so that they look for records or errors again."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def changed(self, timeout_s: float | None) -> None:
        """Wait until records, an error or a rebalance may be there (the next `tell`), at most `timeout_s` seconds."""
        future = self.loop.create_future()
        self._waiting.append(future)
        handle = None
        if timeout_s is not None:
            handle = self.loop.call_later(max(timeout_s, 0.0), _end, future)
        self.waits_for_records += 1
        try:
            await future
        finally:
            self.waits_for_records -= 1
            self.was_polled = True
            if handle is not None:
                handle.cancel()

    # ---------------------------------------------------------------------------------------------- turns

    def wake(self) -> None:
        """Send the requests that are due in a turn of the consumer, as soon as the event loop is free."""
        if self._turn is None and not self.brokers.is_closed:
            self._turn = self.loop.call_soon(self.take_turn)

    def take_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self.brokers.is_closed:
            return
        if self.brokers.fatal is not None:
            self.needs_attention = True
            self.tell()
            return
        now_ms = self.now_ms()
        self.core.view = self.brokers.view
        step = self.core.step(now_ms, self._may_reach)
        for fetch in step.fetches:
            self.fetches.send(fetch)
        if step.finds:
            self.spawn(self._find(step.finds))
        for node_id, lookups in step.lookups.items():
            self.spawn(self._look_up(node_id, lookups))
        for node_id, checks in step.validations.items():
            self.spawn(self._validate(node_id, checks))
        if step.wants_metadata:
            self.brokers.update_soon()
        if step.has_failed:
            self.loop.call_soon(self.tell)  # Not at once: the caller may be about to wait.
        next_ms = min(step.next_ms, self._keep_membership(now_ms))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms != NEVER:
            self._timer = self.loop.call_at(next_ms / 1000, self.wake)

    def _keep_membership(self, now_ms: float) -> float:
        """Send the heartbeat that is due, and leave the group if the program polls too seldom. Ask for the program's
        attention if it must be told of a change. Return when to call again, in ms."""
        member, settings = self.membership, self.settings
        next_ms = NEVER
        if self.was_polled or self.waits_for_records:
            self.was_polled, self._polled_ms = False, now_ms
        late_ms = self._polled_ms + settings.max_poll_interval_ms
        if now_ms >= late_ms:
            beat = member.poll_is_late()
            if beat is not None:
                logger.warning(
                    "no record was asked for in max.poll.interval.ms=%d: the consumer leaves the group %r",
                    settings.max_poll_interval_ms,
                    settings.group_id,
                )
                self.spawn(self._say_farewell(beat))
        elif member.owned:
            next_ms = late_ms
        # Before the heartbeat: one is due at once where there is nothing to tell.
        is_changed = member.change(self.names) is not None or member.error is not None
        due, due_ms = member.step(now_ms)
        next_ms = min(next_ms, due_ms)
        if due is not None:
            self.spawn(self._heartbeat(due))
        if self.auto_commits and self.core.partitions:
            if now_ms >= self.commit_due_ms:
                is_changed = True
            else:
                next_ms = min(next_ms, self.commit_due_ms)
        if is_changed and not self.needs_attention:
            self.needs_attention = True
            self.tell()
        return next_ms

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the consumer failed", exc_info=task.exception())

    def _may_reach(self, node_id: int) -> bool:
        return self.brokers.ready(node_id) is not None

    def _fetched(self) -> None:
        """Send the next fetch after an answer, and only then wake a call that waits for records."""
        self.take_turn()
        self.tell()

    # ---------------------------------------------------------------------------------------------- positions

    async def _find(self, finds: Iterable[tuple[Partition, int]]) -> None:
        wanted = dict(finds)
        try:
            worst, found = await self.committed(wanted)
        except FatalError as error:
            self._fail(wanted.items(), error)
            return
        except (ClientError, KafkaError) as error:
            logger.info("committed offsets could not be read: %s", error)
            self._ask_again(wanted.items())
            return
        if worst is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            text = f"the user may not READ the group {self.settings.group_id!r}"
            self._fail(wanted.items(), AuthorizationError(text, worst))
        elif worst.is_retriable or worst in _PASSING or worst in _MOVED:
            self._ask_again(wanted.items(), worst)
        elif worst is not ErrorCode.NONE:
            self._fail(wanted.items(), _refused("committed offsets", worst))
        else:
            for partition, version in wanted.items():
                at = found.get(partition)
                offset = None if at is None else at.offset
                self.core.found(partition, version, offset, -1 if at is None else at.leader_epoch)
            self.wake()

    async def _look_up(self, node_id: int, lookups: list[Lookup]) -> None:
        wanted = [(one.partition, self._timestamp(one), one.leader_epoch) for one in lookups]
        keys = [(one.partition, one.version) for one in lookups]
        settings = self.settings
        try:
            response = await self.brokers.call_node(
                node_id,
                versions.LIST_OFFSETS,
                lambda types: list_offsets_request(
                    types, settings.isolation, wanted, settings.request_timeout_ms
                ),
            )
        except FatalError as error:
            self._fail(keys, error)
            return
        except (ClientError, KafkaError):
            self._ask_again(keys)
            return
        for look, code, offset, epoch in lookup_answers(response, lookups):
            key = (look.partition, look.version)
            if code is ErrorCode.NONE:
                self.core.looked_up(look, offset, epoch)
            else:
                self._partition_failed(key, code)
        self.wake()

    def _timestamp(self, look: Lookup) -> int:
        if look.timestamp_ms != RESET_BY_DURATION:
            return look.timestamp_ms
        return time.time_ns() // 1_000_000 - (self.settings.reset_duration_ms or 0)

    async def _validate(self, node_id: int, checks: list[Validation]) -> None:
        keys = [(one.partition, one.version) for one in checks]
        try:
            response = await self.brokers.call_node(
                node_id,
                versions.OFFSET_FOR_LEADER_EPOCH,
                lambda types: epochs_request(types, checks),
            )
        except FatalError as error:
            self._fail(keys, error)
            return
        except (ClientError, KafkaError):
            self._ask_again(keys)
            return
        for check, code, epoch, end_offset in epoch_answers(response, checks):
            if code is ErrorCode.NONE:
                self.core.validated(check, epoch, end_offset)
            else:
                self._partition_failed((check.partition, check.version), code)
        self.wake()
        self.tell()

    def _partition_failed(self, key: tuple[Partition, int], code: ErrorCode) -> None:
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            text = f"the user may not read {key[0]}"
            self._fail((key,), AuthorizationError(text, code))
        elif code.is_retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._ask_again((key,), code)
        else:
            self._fail((key,), _refused(str(key[0]), code))

    def _ask_again(
        self,
        keys: Iterable[tuple[Partition, int]],
        failing: ErrorCode = ErrorCode.NETWORK_EXCEPTION,
    ) -> None:
        for partition, version in keys:
            self.core.ask_again(partition, version, self.now_ms(), failing)
        self.brokers.update_soon()
        self.wake()

    def _fail(self, keys: Iterable[tuple[Partition, int]], error: ClientError) -> None:
        for partition, version in keys:
            self.core.fail(partition, version, error)
        self.wake()
        self.tell()

    # ---------------------------------------------------------------------------------------------- the group

    @property
    def member(self) -> GroupMember:
        return self.membership.member

    async def ask_group(
        self,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
    ) -> ResponseT:
        return await self.brokers.call_coordinator(
            GROUP, self.settings.group_id or "", api_key, build
        )

    def _moved(self, code: ErrorCode) -> None:
        if code in _MOVED:
            self.brokers.forget_coordinator(GROUP, self.settings.group_id or "")

    async def committed(
        self, partitions: Iterable[Partition]
    ) -> tuple[ErrorCode, dict[Partition, OffsetToCommit | None]]:
        wanted, member = tuple(partitions), self.member
        response = await self.ask_group(
            versions.OFFSET_FETCH,
            lambda types: offset_fetch_request(
                types, member, wanted, self.settings.reads_committed
            ),
        )
        worst, found = fetched_offsets(response)
        self._moved(worst)
        return worst, found

    async def commit(self, offsets: Mapping[Partition, OffsetToCommit]) -> None:
        """Send one commit of these offsets. Raises RetriableError for an error that may pass, RefusedError if this
        consumer is no member any more."""
        member = self.member
        response = await self.ask_group(
            versions.OFFSET_COMMIT, lambda types: offset_commit_request(types, member, offsets)
        )
        for partition, code in commit_codes(response).items():
            self._moved(code)
            if code is ErrorCode.NONE:
                continue
            if code in _NO_MEMBER:
                raise RefusedError(
                    f"the offset of {partition} was not committed: this consumer is no member of the group "
                    f"{self.settings.group_id!r} any more, and others may have its partitions; poll on to join again",
                    code,
                )
            if code.is_retriable or code is ErrorCode.STALE_MEMBER_EPOCH:
                raise RetriableError(f"the offset of {partition}: {code.name}", code)
            raise _refused(f"the offset of {partition}", code)

    async def _heartbeat(self, beat: Heartbeat) -> None:
        try:
            response = await self.ask_group(
                versions.CONSUMER_GROUP_HEARTBEAT, lambda types: self._request(types, beat)
            )
        except FatalError as error:
            self.membership.ended(error)
        except (ClientError, KafkaError) as error:
            logger.info("a heartbeat was not answered: %s", error)
            if isinstance(error, KafkaError) and not error.error_code.is_retriable:
                self.membership.ended(_refused(f"the group {self.settings.group_id!r}", error))
            self.membership.lost(self.now_ms())
        else:
            answer = heartbeat_answer(response)
            self._moved(answer.error)
            self.membership.answered(answer, self.now_ms())
            if self.membership.has_unknown(self.names):
                self.learn_names()
        self.wake()

    def learn_names(self) -> None:
        """Ask for the metadata of topics that the group assigned by their ids, to learn their names."""
        if self.needs_all_topics:
            self.spawn(self._learn_all())
        else:
            self.brokers.update_soon()

    async def _learn_all(self) -> None:
        try:
            await self.brokers.refresh(None)
        except ClientError as error:
            logger.info("the metadata of all topics could not be read: %s", error)
        self.wake()

    def _request(
        self, types: kafka.ConsumerGroupHeartbeatRequestTypes, beat: Heartbeat
    ) -> kafka.ConsumerGroupHeartbeatRequest:
        group_id = self.settings.group_id or ""
        request = heartbeat_request(types, group_id, self.membership.member_id, beat)
        if beat.pattern and not hasattr(request, "subscribed_topic_regex"):
            raise UnsupportedError("the broker takes no pattern to subscribe to: give topics")
        return request

    async def _say_farewell(self, beat: Heartbeat) -> None:
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_MS / 1000):
                await self.ask_group(
                    versions.CONSUMER_GROUP_HEARTBEAT, lambda types: self._request(types, beat)
                )
        except (TimeoutError, ClientError, KafkaError) as error:
            logger.info("the group was left without a word: %s", error or "no answer")

    async def leave(self) -> None:
        beat = self.membership.leave()
        if beat is not None and self.brokers.fatal is None:
            await self._say_farewell(beat)


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _refused(what: str, error: ErrorCode | KafkaError) -> ClientError:
    if isinstance(error, KafkaError):
        return RefusedError(f"{what}: {error}", error.error_code)
    if error in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        return AuthorizationError(f"{what}: {error.name}", error)
    return RefusedError(f"{what}: {error.name}", error)
