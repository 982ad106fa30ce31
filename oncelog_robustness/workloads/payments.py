"""The database of the workload `prepared`: a small transactional database in memory, the other side of a two-phase
commit.

It has a row for each payment, and one for each application. An application's row holds the text of the transaction
that was booked last, and a generation. An application that starts again raises the generation before it reads. A
commit needs the generation that its writer received, so that a commit of a predecessor is refused (ADR 0043).

A call is one instant of the database. Before it the request travels, and after it the answer does. Either may be
late or lost, and a request that is on its way arrives though its client has died.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from oncelog_robustness.clients.contract import ClientError

ANSWER_TIMEOUT_S: Final = 2.0
_TRAVEL_S: Final = (0.000_3, 0.01)
_LATE_S: Final = (0.01, 4.0)
"""The range of a late journey of a request or an answer, in seconds; about half of it is longer than the client
waits."""

ResultT = TypeVar("ResultT")


class Overtaken(ClientError):
    """The call was refused for good: the application has started again and raised the row's generation, so this
    writer's generation is over."""


class NotAnswered(ClientError):
    """No answer came in time: the database may have carried the call out, or may do so later."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    generation: int
    stored: str
    """The text of the transaction that was booked last, such as `42:7`; empty: none was."""


@dataclass(frozen=True, slots=True)
class Booked:
    value: str
    application: str
    stored: str
    at_ms: int


@dataclass(slots=True)
class _Row:
    generation: int = 0
    stored: str = ""


@dataclass(slots=True)
class PaymentsDatabase:
    """The database of all applications. It must be made in the process that runs the workload, which never dies,
    and not in a client."""

    draw: random.Random
    now_ms: Callable[[], int]
    late_share: float
    lost_share: float
    payments: dict[str, Booked] = field(default_factory=dict)
    _rows: dict[str, _Row] = field(default_factory=dict)
    _context: contextvars.Context = field(default_factory=contextvars.copy_context)

    async def take_over(self, application: str) -> TakenOver:
        """Raise the generation of the application's row, which fences all earlier starts of the application, and
        return the row.

        Raises NotAnswered: the generation may be raised or not. A repeated call raises it again.
        """

        def work() -> TakenOver:
            row = self._row(application)
            row.generation += 1
            return TakenOver(row.generation, row.stored)

        return await self._ask(work)

    async def write(self, application: str, generation: int) -> None:
        """Write in an open transaction of the database, which nobody sees before its commit. Raises Overtaken if
        the row's generation is not this one any more, or NotAnswered."""
        await self._ask(lambda: self._check(application, generation))

    async def commit(
        self, application: str, generation: int, stored: str, payments: Sequence[str]
    ) -> None:
        """Commit all payments and the text of their Kafka transaction, or nothing. Raises Overtaken if the row's
        generation is not this one any more, or NotAnswered."""

        def work() -> None:
            self._check(application, generation)
            self._row(application).stored = stored
            for value in payments:
                assert value not in self.payments, value
                self.payments[value] = Booked(value, application, stored, self.now_ms())

        await self._ask(work)

    def _row(self, application: str) -> _Row:
        return self._rows.setdefault(application, _Row())

    def _check(self, application: str, generation: int) -> None:
        found = self._row(application).generation
        if found != generation:
            raise Overtaken(f"{application} is of generation {found} by now, not {generation}")

    async def _ask(self, work: Callable[[], ResultT]) -> ResultT:
        answer: asyncio.Future[ResultT | Overtaken] = asyncio.get_running_loop().create_future()
        if not self._is_lost():
            self._later(lambda: self._serve(work, answer))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                found = await answer
        except TimeoutError:
            raise NotAnswered("the database has not answered") from None
        if isinstance(found, Overtaken):
            raise found
        return found

    def _serve(
        self, work: Callable[[], ResultT], answer: "asyncio.Future[ResultT | Overtaken]"
    ) -> None:
        found: ResultT | Overtaken
        try:
            found = work()
        except Overtaken as error:
            found = error
        if not self._is_lost():
            self._later(partial(_answer, answer, found))

    def _is_lost(self) -> bool:
        return self.draw.random() < self.lost_share

    def _later(self, call: Callable[[], object]) -> None:
        """Call `call` after the time that a request or an answer travels, in the database's own context. So the
        death of a client stops nothing that is on its way."""
        is_late = self.draw.random() < self.late_share
        delay_s = self.draw.uniform(*(_LATE_S if is_late else _TRAVEL_S))
        asyncio.get_running_loop().call_later(delay_s, call, context=self._context)


def _answer(answer: "asyncio.Future[ResultT]", found: ResultT) -> None:
    if not answer.done():
        answer.set_result(found)
