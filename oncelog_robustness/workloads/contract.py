"""The contract of a workload: clients with a plan, and a history of what they did. It judges nothing; checkers do.

    setup   once, while nothing is broken: topics, first records
    start   until `lab.is_over`: clients work, meet errors, and record every operation in the history
    check   after healing: the last reads are recorded as well

The same workload runs in the simulator, against `oncelog cluster`, and against Apache Kafka.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from oncelog_robustness.clients.contract import Clients
from oncelog_robustness.history import AnyOperation


class ClientProcess(Protocol):
    """A client as a process of its own, which can die in the middle of everything.
    It exits when its code returns, and then nothing of it goes on, closed or not."""

    name: str
    """The client's name with its incarnation, such as `writer-2#3`."""

    @property
    def is_running(self) -> bool: ...

    def kill(self) -> None:
        """Kill the client as SIGKILL does: nothing of it goes on, and nothing is recorded but its last words."""
        ...

    def last_word(self, key: str, operation: AnyOperation) -> None:
        """Record `operation` if the process ends before `settle(key)`; the process itself calls this.

        So the history has every operation that it began. A second last word for a key replaces the first one.
        """
        ...

    def settle(self, key: str, operation: AnyOperation) -> None:
        """Record `operation` instead of the last word of this key, in one step; the process itself calls this."""
        ...

    async def ended(self) -> None:
        """Wait until the client's code returned, was killed, or raised (which fails the run).
        To give up waiting (a timeout) does the process no harm."""
        ...


class Lab(Protocol):
    """The surroundings in which a workload runs."""

    clients: Sequence[Clients]
    """The client libraries that take part; a workload distributes its clients over them."""
    random: random.Random
    replicas: int
    """The number of replicas of the topics that workloads make."""
    topic_config: Mapping[str, str]
    """The configuration that every topic gets beside what its workload wants."""

    @property
    def is_over(self) -> bool:
        """True if work may not go on: clients then end what they have begun and return."""
        ...

    def now_ms(self) -> int:
        """Return the milliseconds since the run began."""
        ...

    def record(self, operation: AnyOperation) -> None: ...

    def spawn(
        self, name: str, work: Callable[["ClientProcess"], Coroutine[Any, Any, None]]
    ) -> ClientProcess:
        """Run `work` as the next incarnation of client `name`.

        Outside the simulator the client is a process of the operating system, forked here. `work` sees the
        state before the fork and keeps its changes to itself. It draws from a `random` of its own, and tells
        others by `record` alone.
        """
        ...

    async def sleep(self, ms: int) -> None:
        """Sleep for `ms`, or less when the run becomes over meanwhile.
        A sleep that begins after that, in `check`, lasts its whole time."""
        ...


class Workload(Protocol):
    name: str

    async def setup(self, lab: Lab) -> None: ...

    async def start(self, lab: Lab) -> None: ...

    async def check(self, lab: Lab) -> None: ...


async def until_over(lab: Lab, works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all of `works` together; the first exception among them ends the run."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)
