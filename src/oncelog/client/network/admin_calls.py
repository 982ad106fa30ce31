"""An administrator's requests to any broker, to each broker, to leaders and to coordinators, with retries where they
may help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from oncelog.client.core.admin_results import item_error
from oncelog.client.core.cluster_view import NO_NODE
from oncelog.client.errors import ClientError
from oncelog.client.network.brokers import GROUP, Brokers
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import Partition

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")
TypesT = TypeVar("TypesT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Build: TypeAlias = Callable[[TypesT], RequestT]
Codes: TypeAlias = Callable[[ResponseT], Iterable[ErrorCode]]


class Coded(Protocol):
    """An answer, or a row of one, that has an error code, and perhaps an `error_message`."""

    @property
    def error_code(self) -> int: ...


def code_of(answer: Coded) -> ErrorCode:
    return error_code_of(answer.error_code)


def message_of(answer: Coded) -> str:
    message: str | None = getattr(answer, "error_message", None)
    return message or ""


def outcome(answer: Coded, what: str, value: ResultT) -> ResultT | ClientError:
    """Return `value` if the answer has no error; otherwise its error as an exception, which is not raised. `what`
    begins the error's text: it names the item or the call."""
    code = code_of(answer)
    return value if code is ErrorCode.NONE else item_error(code, what, message_of(answer))


def raise_error(answer: Coded, what: str) -> None:
    """Raise the answer's error as an exception, if it has one. `what` begins the error's text: it names the item or the
    call."""
    code = code_of(answer)
    if code is not ErrorCode.NONE:
        raise item_error(code, what, message_of(answer))


def check_codes(codes: Iterable[ErrorCode], what: str) -> None:
    """Raise KafkaError for a retriable code, so that `retrying` makes the call again; other codes are left to the
    caller. `what` says in the error what was asked for."""
    for code in codes:
        if code.is_retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(code, what)


class AdminCalls:
    def __init__(self, brokers: Brokers, timeout_ms: int) -> None:
        self.brokers = brokers
        self.timeout_ms = timeout_ms

    async def retrying(self, attempt: Callable[[], Awaitable[ResultT]], what: str) -> ResultT:
        """Repeat a call while it fails with a passing error, until the time is over. Raises TimedOutError, and other
        errors as exceptions of the client. `what` names the call in them."""
        try:
            return await self.brokers.retrying(attempt, self.timeout_ms, what)
        except KafkaError as error:
            raise item_error(error.error_code, what, error.message) from error

    async def any(
        self,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        what: str,
        codes: Codes[ResponseT],
    ) -> ResponseT:
        """Send a request to any broker, and return the answer. `codes` returns the error codes in it; for one that may
        pass the request is repeated. `what` names the call in errors."""

        async def attempt() -> ResponseT:
            response = await self.brokers.call_any(api_key, build)
            check_codes(codes(response), what)
            return response

        return await self.retrying(attempt, what)

    async def node(
        self,
        node_id: int,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        what: str,
    ) -> ResponseT:
        async def attempt() -> ResponseT:
            await self._know_nodes()
            return await self.brokers.call_node(node_id, api_key, build)

        return await self.retrying(attempt, what)

    async def _know_nodes(self) -> None:
        if not self.brokers.view.nodes:
            await self.brokers.refresh(())

    async def every(
        self,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        what: str,
        codes: Codes[ResponseT],
    ) -> list[ResponseT]:
        """Send a request to each broker, and return all answers. If one broker does not answer the call fails, because
        a partial list would look complete. `what` names the call in errors."""
        view = await self.retrying(lambda: self.brokers.refresh(()), what)

        async def one(node_id: int) -> ResponseT:
            async def attempt() -> ResponseT:
                response = await self.brokers.call_node(node_id, api_key, build)
                check_codes(codes(response), what)
                return response

            return await self.retrying(attempt, what)

        return list(await asyncio.gather(*map(one, sorted(view.nodes))))

    async def coordinator(
        self,
        key: str,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        what: str,
        codes: Codes[ResponseT],
        kind: int = GROUP,
    ) -> ResponseT:
        async def attempt() -> ResponseT:
            response = await self.brokers.call_coordinator(kind, key, api_key, build)
            try:
                check_codes(codes(response), what)
            except KafkaError:
                self.brokers.forget_coordinator(kind, key)
                raise
            return response

        return await self.retrying(attempt, what)

    async def leaders(
        self,
        items: Mapping[Partition, ItemT],
        ask: Callable[
            [int, Mapping[Partition, ItemT]], Awaitable[Mapping[Partition, ResultT | ClientError]]
        ],
        what: str,
    ) -> dict[Partition, ResultT | ClientError]:
        """Call `ask` for each leader (node id) with its partitions, and return the result of each partition.

        If `ask` raises KafkaError, the partitions without a result are asked for again. A partition's result may be an
        error: what `ask` returned, or that the partition does not exist. `what` names the call in errors.
        """
        found: dict[Partition, ResultT | ClientError] = {}

        async def attempt() -> None:
            left = {one: item for one, item in items.items() if one not in found}
            topics = sorted({one.topic for one in left})
            view = await self.brokers.refresh(topics)
            by_node: dict[int, dict[Partition, ItemT]] = {}
            for partition, item in left.items():
                leader = view.leader(partition)
                if leader is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    topic = view.topics.get(partition.topic)
                    if topic is not None and topic.error is not ErrorCode.NONE:
                        code = topic.error
                    found[partition] = item_error(code, str(partition))
                elif leader.node_id == NO_NODE:
                    raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(partition))
                else:
                    by_node.setdefault(leader.node_id, {})[partition] = item
            for node_id, asked in by_node.items():
                found.update(await ask(node_id, asked))

        await self.retrying(attempt, what)
        return {partition: found[partition] for partition in items}
