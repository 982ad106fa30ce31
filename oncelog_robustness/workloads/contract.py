"""What a workload is: clients with a plan, and an account of what they did. It judges nothing; checkers do.

    setup   once, while nothing is broken: topics, first records
    start   until `lab.is_over`: clients work, errors are their daily bread, every operation goes into the history
    check   after healing: the last reads, into the history as well

The same workload runs in the simulator, against `oncelog cluster`, and against Apache Kafka.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from oncelog_robustness.clients.contract import Clients
from oncelog_robustness.history import AnyOperation


class ClientProcess(Protocol):
    """A client as a process of its own: it can die in the middle of everything. It exits when its code returns, and
    then nothing of it runs any more either, closed or not."""

    name: str
    """With its incarnation: `writer-2#3`."""

    @property
    def is_running(self) -> bool: ...

    def kill(self) -> None:
        """As by SIGKILL: nothing of it runs any more, and nothing is recorded but its last words."""
        ...

    def last_word(self, key: str, operation: AnyOperation) -> None:
        """Called by the process itself: `operation` stands in the history if the process ends before `settle(key)`.

        So what it began is told of, whatever becomes of it. A second word for a key replaces the first one.
        """
        ...

    def settle(self, key: str, operation: AnyOperation) -> None:
        """Called by the process itself: `operation` goes into the history instead of the last word, in one step."""
        ...

    async def ended(self) -> None:
        """Returns when its code returned, was killed, or raised (which fails the run). To give up waiting (a timeout)
        does the process no harm."""
        ...


class Lab(Protocol):
    """Where a workload runs."""

    clients: Sequence[Clients]
    """Every library that takes part; a workload deals its clients out over them."""
    random: random.Random
    replicas: int
    """For the topics it makes."""
    topic_config: Mapping[str, str]
    """Of every topic, beside what a workload wants."""

    @property
    def is_over(self) -> bool:
        """Work may not go on: end what is begun and return."""
        ...

    def now_ms(self) -> int:
        """Since the run began."""
        ...

    def record(self, operation: AnyOperation) -> None: ...

    def spawn(
        self, name: str, work: Callable[["ClientProcess"], Coroutine[Any, Any, None]]
    ) -> ClientProcess:
        """Run `work` as the next incarnation of client `name`.

        Outside the simulator it is a process of the operating system, forked here: `work` sees what there was before,
        keeps what it changes to itself, draws from a `random` of its own, and tells others by `record` alone.
        """
        ...

    async def sleep(self, ms: int) -> None:
        """`ms`; less when the run becomes over meanwhile. Begun after that, in `check`, it lasts its whole time."""
        ...


class Workload(Protocol):
    name: str

    async def setup(self, lab: Lab) -> None: ...

    async def start(self, lab: Lab) -> None: ...

    async def check(self, lab: Lab) -> None: ...


async def until_over(lab: Lab, works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """All of `works` together; the first bug among them ends the run."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)
