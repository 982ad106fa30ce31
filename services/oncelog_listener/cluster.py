"""The cluster as handlers see it: the newest metadata, stubs of the other roles, and calls to the leaders of many
partitions at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from oncelog.api.v1.types_pb2 import Status
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.rpc.deadline import AnswerT, answer_within
from oncelog.rpc.directory import Directory, LocalDirectory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog.rpc.sessions import PeerUnavailable
from oncelog.rpc.stubs import (
    ControllerStub,
    GroupCoordinatorStub,
    StorageStub,
    TransactionCoordinatorStub,
    Unary,
)
from oncelog_listener.access import Access
from oncelog_listener.core.fetch_sessions import SESSION_ID_MAX, FetchSessions
from oncelog_listener.core.repeating import Repeatable, is_repeated
from oncelog_listener.memory_budget import UnsentAnswers
from oncelog_listener.retry_policy import RetryPolicy, was_sent
from oncelog_listener.settings import ListenerSettings
from oncelog_listener.throttling import Throttling
from oncelog_listener.turns import Turns

PEER_FAILURES: Final = (OSError, TimeoutError, OncelogError)
"""The exceptions of a call to another role that cannot be reached. Clients are told a retriable code.

Any other exception is a bug and ends the connection.
"""

TopicPartition = tuple[str, int]
ItemT = TypeVar("ItemT")
RequestT = TypeVar("RequestT")


class _OfPartition(Protocol):
    """One partition's row in a leader's answer, with its error code."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def error_code(self) -> int: ...


FoundT = TypeVar("FoundT", bound=_OfPartition)
RowT_co = TypeVar("RowT_co", covariant=True)


class _Partitions(Protocol[RowT_co]):
    """The answer of a storage node (the leader) to a call about several partitions, with a row for each."""

    @property
    def partitions(self) -> Sequence[RowT_co]: ...


class _Change(Protocol):
    """The controller's answer to one change of metadata, such as an altered config."""

    @property
    def metadata_offset(self) -> int: ...


class _Changes(_Change, Protocol[RowT_co]):
    """The controller's answer to several changes of metadata in one request, with a row for each."""

    @property
    def results(self) -> Sequence[RowT_co]: ...


ChangeT = TypeVar("ChangeT", bound=_Change)

LEADER_TIMEOUT_S: Final = 120.0
"""The most seconds to wait for a leader that has its own, shorter limit. It bounds what a frozen leader can hold."""

_DATETIME_MS_MAX: Final = 253_402_300_799_999


class ApiError(NamedTuple):
    """An error code with its message, as a response to a client has them. NONE: no error. The name is that of Kafka's
    class."""

    error_code: ErrorCode
    error_message: str
    was_sent: bool = False
    """True if the request may have reached the role, and may have been executed."""


def api_error(status: Status) -> ApiError:
    """Return the controller's status of a change as an ApiError; NONE: the change is done."""
    return ApiError(error_code_of(status.error_code), status.error_message)


class Address(NamedTuple):
    host: str
    port: int


@dataclass(slots=True, eq=False)
class Cluster:
    settings: ListenerSettings
    node_id: int
    metadata: MetadataFollower
    directory: Directory
    unsent: UnsentAnswers = field(init=False)
    turns: Turns = field(default_factory=Turns)
    listener_start: int = field(default_factory=lambda: random.getrandbits(62) + 1)
    """The number of this start of the listener in the origins of requests; 0 would mean "no origin"."""
    suspects: set[int] = field(default_factory=set)
    """The node ids of other listeners that are gone although the metadata does not say so yet; kept by `PeerWatch`."""
    departed: dict[int, tuple[int, str, int, str | None]] = field(default_factory=dict)
    """The listeners that were there a moment ago, by node id: id, host, port, rack. `PeerWatch` keeps each for a
    minute."""
    access: Access = field(init=False)
    """The checks of what clients may do."""
    throttling: Throttling = field(init=False)
    fetch_sessions: FetchSessions = field(init=False)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """An event that is set when the listener stops. A request that waits for a new leader is then answered with what
    there is."""

    def __post_init__(self) -> None:
        self.unsent = UnsentAnswers(self.settings.unsent_bytes_max)
        self.access = Access(self.metadata, self.settings.authorizer_rules)
        self.throttling = Throttling(self.metadata)
        self.fetch_sessions = FetchSessions(
            self.settings.fetch_sessions_max,
            self.settings.fetch_session_partitions_max,
            lambda: random.randint(1, SESSION_ID_MAX),
        )

    @property
    def is_alone(self) -> bool:
        """True if every role runs in this process, as under `oncelog up`."""
        return isinstance(self.directory, LocalDirectory)

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def storage(self, node_id: int) -> StorageStub:
        """Return the RPC stub of a storage node. Raises OncelogError for a node that is not known (yet)."""
        try:
            return self.directory.storage(node_id)
        except KeyError:
            raise PeerUnavailable(
                f"storage node {node_id} is not known yet", was_sent=False
            ) from None

    def coordinator(self, node_id: int) -> TransactionCoordinatorStub:
        """Return the RPC stub of a transaction coordinator. Raises OncelogError for a node that is not known (yet)."""
        try:
            return self.directory.coordinator(node_id)
        except KeyError:
            raise OncelogError(f"coordinator {node_id} is not known yet") from None

    def group_coordinator(self, node_id: int) -> GroupCoordinatorStub:
        """Return the RPC stub of a group coordinator. Raises OncelogError for a node that is not known (yet)."""
        try:
            return self.directory.group_coordinator(node_id)
        except KeyError:
            raise OncelogError(f"coordinator {node_id} is not known yet") from None

    async def answer_in_time(self, answer: Awaitable[AnswerT]) -> AnswerT:
        """Await the answer of a coordinator or the controller, within `request_timeout_ms`. Raises one of
        PEER_FAILURES."""
        return await answer_within(answer, self.settings.request_timeout_ms / 1000)

    async def ask_controller(
        self,
        change: Callable[[ControllerStub], Awaitable[ChangeT]],
        *,
        validate_only: bool = False,
    ) -> ChangeT | ApiError:
        """Ask the controller for a change, wait until this node's metadata shows it, and return the answer; an ApiError
        if none comes.

        With `validate_only` nothing changes, so there is no wait.
        """
        try:
            answer = await self.answer_in_time(change(self.directory.controller()))
        except PEER_FAILURES as error:
            return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"the controller: {error!r}")
        if not validate_only:
            await self.wait_for_image(answer.metadata_offset)
        return answer

    async def ask_controller_each(
        self,
        count: int,
        change: Callable[[ControllerStub], Awaitable[_Changes[RowT_co]]],
        refusal: ApiError | None,
    ) -> Sequence[RowT_co | ApiError]:
        """Ask the controller for `count` changes in one request, and return its row for each. A change without an
        answer gets an ApiError.

        With a `refusal` every change gets that, and the controller is not asked.
        """
        if not count:
            return ()
        answer = refusal or await self.ask_controller(change)
        return [answer] * count if isinstance(answer, ApiError) else answer.results

    async def wait_for_image(self, metadata_offset: int) -> bool:
        """Wait until this node's metadata has reached this offset of the controller's log; False when it takes too
        long."""
        try:
            await self.metadata.wait_until(metadata_offset, self.settings.image_wait_ms / 1000)
        except TimeoutError:
            return False
        return True

    def leader_of(
        self, image: MetadataImage, key: TopicPartition, topic_id: bytes = b""
    ) -> int | ApiError:
        """Return the storage node that leads the partition; an ApiError if there is none. With a `topic_id` the topic
        must still be that one."""
        found = image.partition(Partition(*key))
        if found is None:
            return ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {key[0]}-{key[1]}"
            )
        if topic_id and image.topics[key[0]].topic_id != topic_id:
            return ApiError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"{key[0]} was deleted, and made again under its name"
            )
        leader: int = found.leader
        if leader < 0:
            return ApiError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"partition {key[0]}-{key[1]} has no leader now"
            )
        return leader

    async def rows_of_leaders(
        self,
        items: Mapping[TopicPartition, ItemT],
        method: Callable[[StorageStub], Unary[RequestT, _Partitions[FoundT]]],
        request: Callable[[list[ItemT]], RequestT],
    ) -> dict[TopicPartition, FoundT | ApiError]:
        """Ask each partition's leader with `method`, and return the partition's row of the answer, or an ApiError.
        `request` makes the request to one leader from its items."""

        async def ask(storage: StorageStub, some: list[ItemT]) -> Sequence[FoundT]:
            return (await self.answer_in_time(method(storage)(request(some)))).partitions

        return await self.ask_leaders(items, ask)

    async def ask_leaders(
        self,
        items: Mapping[TopicPartition, ItemT],
        ask: Callable[[StorageStub, list[ItemT]], Awaitable[Sequence[FoundT]]],
        repeatable: Repeatable = Repeatable.ALWAYS,
        is_wanted: Callable[[], bool] = lambda: True,
        topic_ids: Mapping[str, bytes] = MappingProxyType({}),
    ) -> dict[TopicPartition, FoundT | ApiError]:
        """Return each partition's answer from its leader: what `ask(stub, items)` returned for it, or an ApiError.

        Every leader gets one call, all at once; `ask` returns objects that name their topic and partition. If a leader
        is gone or was replaced, its partitions are asked for again: where `repeatable` allows it, and as long as
        `is_wanted` says that the client waits. A topic with an id in `topic_ids` must still have that id.
        """
        retries = RetryPolicy(self)
        answers: dict[TopicPartition, FoundT | ApiError] = {}
        pending = items
        while True:
            image = self.image
            answers.update(await self._ask_leaders_once(image, pending, ask, repeatable, topic_ids))
            again = {
                key: item
                for key, item in pending.items()
                if answers[key].error_code
                and self._is_repeated(key, answers[key], repeatable, topic_ids.get(key[0]))
            }
            if not again or not is_wanted() or not await retries.pause(image) or not is_wanted():
                return answers
            pending = again

    def _is_repeated(
        self,
        key: TopicPartition,
        answer: FoundT | ApiError,
        repeatable: Repeatable,
        topic_id: bytes | None,
    ) -> bool:
        was_sent = not isinstance(answer, ApiError) or answer.was_sent
        exists = self.image.partition(Partition(*key)) is not None
        if exists and topic_id:
            exists = self.image.topics[key[0]].topic_id == topic_id
        return exists and is_repeated(repeatable, answer.error_code, was_sent)

    async def _ask_leaders_once(
        self,
        image: MetadataImage,
        items: Mapping[TopicPartition, ItemT],
        ask: Callable[[StorageStub, list[ItemT]], Awaitable[Sequence[FoundT]]],
        repeatable: Repeatable,
        topic_ids: Mapping[str, bytes],
    ) -> dict[TopicPartition, FoundT | ApiError]:
        by_leader: dict[int, list[TopicPartition]] = {}
        answers: dict[TopicPartition, FoundT | ApiError] = {}
        for key in items:
            leader = self.leader_of(image, key, topic_ids.get(key[0], b""))
            if isinstance(leader, ApiError):
                answers[key] = leader
            else:
                by_leader.setdefault(leader, []).append(key)
        if len(by_leader) == 1:
            ((leader, keys),) = by_leader.items()
            await self._ask_leader(leader, keys, items, ask, answers, repeatable)
        elif by_leader:
            async with asyncio.TaskGroup() as group:
                for leader, keys in by_leader.items():
                    group.create_task(
                        self._ask_leader(leader, keys, items, ask, answers, repeatable)
                    )
        return answers

    async def _ask_leader(
        self,
        leader: int,
        keys: list[TopicPartition],
        items: Mapping[TopicPartition, ItemT],
        ask: Callable[[StorageStub, list[ItemT]], Awaitable[Sequence[FoundT]]],
        answers: dict[TopicPartition, FoundT | ApiError],
        repeatable: Repeatable,
    ) -> None:
        def leads(image: MetadataImage) -> bool:
            if repeatable is not Repeatable.ALWAYS:
                return True  # Its answer is worth the wait: without it nobody knows whether it was done.
            found = [image.partition(Partition(*key)) for key in keys]
            return all(one is not None and one.leader == leader for one in found)

        try:
            call = ask(self.storage(leader), [items[key] for key in keys])
            found = await answer_of_owner(call, LEADER_TIMEOUT_S, self.metadata, leads)
        except PEER_FAILURES as error:
            lost = ApiError(
                ErrorCode.NETWORK_EXCEPTION, f"storage node {leader}: {error!r}", was_sent(error)
            )
            answers.update((key, lost) for key in keys)
            return
        for answer in found:
            answers[answer.topic, answer.partition] = answer
        for key in keys:
            if key not in answers:
                answers[key] = ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"storage node {leader} left {key} out"
                )


def wire_time(timestamp_ms: int) -> datetime:
    """Return a timestamp as kio (the library of Kafka's messages) writes it. A time that Python's datetime cannot hold
    becomes the nearest one that it can."""
    bounded = max(-1, min(timestamp_ms, _DATETIME_MS_MAX))
    return datetime.fromtimestamp(bounded / 1000, UTC)


def milliseconds(span: timedelta) -> int:
    """Return a timedelta in milliseconds. The library kio reads a span as a timedelta where Kafka's message has int32
    milliseconds."""
    return span // timedelta(milliseconds=1)


def grouped(keys: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, in order of first appearance, as Kafka's responses nest them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    return topics
