"""The asyncio side of a producer. In each turn on the event loop it sends the requests that the pure core wants sent;
answers go back to the core.

A turn costs no task. It comes soon after a change, however many changes there were, and when the core's next deadline
is due.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from oncelog.client.core.accumulator import NEVER, Drained
from oncelog.client.core.counts import NodeTimes
from oncelog.client.core.operation import Operation
from oncelog.client.core.produce_answers import PartitionAnswer
from oncelog.client.core.producer_batch import ProducerBatch, builder_class
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.producing import Partitioner, ProducerCore
from oncelog.client.core.spoken import BY_NAME_MAX, TV1_MAX
from oncelog.client.core.transaction_calls import Answer, Call
from oncelog.client.errors import ClientError, FatalError, TimedOutError
from oncelog.client.network.brokers import Brokers, NetworkSettings
from oncelog.client.network.connection import Connection
from oncelog.client.network.producer_messages import (
    ask,
    forget_coordinator,
    has_ids,
    new_leaders,
    produce_answers,
    produce_request,
)
from oncelog.errors import ErrorCode, KafkaError
from oncelog.protocol import versions
from oncelog.protocol.messages import Schema

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

    ProduceSchema = Schema[
        kafka.ProduceRequestTypes,
        kafka.ProduceRequest,
        kafka.ProduceResponseTypes,
        kafka.ProduceResponse,
    ]

logger = logging.getLogger(__name__)

_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class ProducerLoop:
    def __init__(
        self,
        settings: ProducerSettings,
        network: NetworkSettings,
        partitioner: Partitioner | None,
    ) -> None:
        self.settings = settings
        self.core = ProducerCore(settings, builder_class(), random.random, partitioner)
        self.brokers = Brokers(network, self.wake, makes_topics=True)
        self.loop = asyncio.get_running_loop()
        self.times = NodeTimes()
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._room: list[asyncio.Future[None]] = []

    def now_ms(self) -> float:
        """Return the loop's time in milliseconds."""
        return self.loop.time() * 1000

    async def close(self, error: FatalError) -> None:
        """Close the producer. Each record that is not done ends with `error`."""
        self.core.end(error)
        self.core.transactions.over(error)
        for handle in (self._turn, self._timer, self._asking):
            if handle is not None:
                handle.cancel()
        self._let_in()
        await self.brokers.close()

    # ---------------------------------------------------------------------------------------------- waiting

    async def no_line(self) -> None:
        """Wait until no record waits for memory or metadata before it can be put into a batch."""
        while self.core.line:
            future = self.loop.create_future()
            self._room.append(future)
            await future

    async def all_done(self) -> None:
        """Wait until each record sent so far is delivered or has failed. Later records are not waited for."""
        await self.no_line()
        await asyncio.gather(
            *(self._done(batch) for batch in list(self.core.accumulator.unfinished.values()))
        )

    async def _done(self, batch: ProducerBatch) -> None:
        if batch.is_done:
            return
        future = self.loop.create_future()
        batch.watch(lambda: None if future.done() else future.set_result(None))
        await future

    async def operation(self, operation: Operation, what: str, timeout_ms: int) -> None:
        """Wait for an operation such as a commit, and raise its error. Raises TimedOutError when it takes longer; the
        operation goes on."""
        future = self.loop.create_future()
        operation.watch(lambda: None if future.done() else future.set_result(None))
        self.wake()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError as error:
            if self.brokers.fatal is not None:
                raise self.brokers.fatal from error
            refusal, failure = self.core.transactions.refusal, self.brokers.last_failure
            why = f" ({failure})" if failure is not None else ""
            if refusal is not None:
                why = f" (the last answer was {refusal.name})"
            raise TimedOutError(
                f"{what} was not done within {timeout_ms} ms{why}; nobody knows whether it happened: call it again",
                may_be_done=True,
            ) from error
        if operation.error is not None:
            raise operation.error

    def _let_in(self) -> None:
        if self._room and (not self.core.line or self.brokers.is_closed):
            waiting, self._room = self._room, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    # ---------------------------------------------------------------------------------------------- turns

    def wake(self) -> None:
        """Schedule a turn (see the module) as soon as the event loop is free."""
        if self._turn is None and not self.brokers.is_closed:
            self._turn = self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        core, brokers = self.core, self.brokers
        if brokers.fatal is not None:
            core.transactions.over(brokers.fatal)
            core.end(brokers.fatal)
        core.view = brokers.view
        step = core.step(self.now_ms(), self._may_reach)
        for request in step.requests:
            self._send(request)
        if step.call is not None:
            self._asking = self.loop.create_task(self._ask(step.call))
        if step.wants_metadata:
            brokers.update_soon()
        self._let_in()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if step.next_ms != NEVER:
            self._timer = self.loop.call_at(step.next_ms / 1000, self.wake)

    def _may_reach(self, node_id: int) -> bool:
        return self.brokers.ready(node_id) is not None

    # ---------------------------------------------------------------------------------------------- requests

    def _send(self, request: Drained) -> None:
        connection = self.brokers.ready(request.node_id)
        if connection is None:
            gone = ClientError("the connection closed", ErrorCode.NETWORK_EXCEPTION)
            self._lost(request, gone)
            return
        is_tv2 = not self.settings.is_transactional or self.core.transactions.is_tv2
        if not is_tv2:
            at_most: int | None = TV1_MAX[versions.PRODUCE]
        else:
            at_most = None if has_ids(request) else BY_NAME_MAX[versions.PRODUCE]
        try:
            schema = connection.schema(versions.PRODUCE, at_most)
        except FatalError as error:
            self._lost(request, error)
            return
        message = produce_request(schema.request_types, self.settings, request)
        if self.settings.acks == 0:
            self._send_one_way(connection, schema, message, request)
            return

        began = self.loop.time()

        def answered(response: kafka.ProduceResponse | None, error: ClientError | None) -> None:
            self.times.add(request.node_id, self.loop.time() - began)
            if response is not None:
                self._produced(connection, request, response)
            elif error is not None:
                self._lost(request, error)

        connection.send(schema, message, self.settings.request_timeout_ms / 1000, answered)

    def _send_one_way(
        self,
        connection: Connection,
        schema: ProduceSchema,
        message: kafka.ProduceRequest,
        request: Drained,
    ) -> None:
        """Send batches with acks=0: they count as delivered when written, and their offset is not known (S2-56)."""
        is_written = connection.send_one_way(schema, message)
        code = ErrorCode.NONE if is_written else ErrorCode.NETWORK_EXCEPTION
        self.core.request_done(request.node_id)
        for batch in request.batches:
            self.core.batch_answered(batch, PartitionAnswer(code), self.now_ms())
        self.wake()

    def _produced(
        self, connection: Connection, request: Drained, response: kafka.ProduceResponse
    ) -> None:
        if response.throttle_time:
            self.brokers.throttle(connection, response.throttle_time.total_seconds())
        for told in new_leaders(response, request.batches):
            self.brokers.told_of_leader(*told)
        self.core.request_done(request.node_id)
        now_ms = self.now_ms()
        for batch, answer in produce_answers(response, request.batches):
            self.core.batch_answered(batch, answer, now_ms)
        self.wake()

    def _lost(self, request: Drained, error: ClientError) -> None:
        self.core.request_done(request.node_id)
        now_ms = self.now_ms()
        for batch in request.batches:
            self.core.batch_lost(batch, error, now_ms)
        self.wake()

    async def _ask(self, call: Call) -> None:
        core = self.core
        try:
            answer = await ask(self.brokers, self.settings, call, core.transactions.is_tv2)
            if answer.error in _MOVED:
                forget_coordinator(self.brokers, self.settings, call)
        except KafkaError as error:
            answer = Answer(error.error_code, error.message)
        except FatalError as error:
            core.transactions.over(error)
            core.end(error)
            self.wake()
            return
        except ClientError as error:
            answer = Answer(error.error_code or ErrorCode.NETWORK_EXCEPTION, str(error))
        except Exception as error:
            # A defect of ours must not leave the program waiting.
            logger.exception("%s failed", type(call).__name__)
            core.transactions.over(FatalError(f"{type(call).__name__} failed: {error!r}"))
            core.end(FatalError(f"{type(call).__name__} failed: {error!r}"))
            self.wake()
            return
        core.call_answered(answer, call, self.now_ms())
        self.wake()
