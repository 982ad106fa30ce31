"""The interface of a workload: clients that follow a plan, and write into the history of the run what they did and
saw. Checkers judge the history; a workload judges nothing.

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
    """One start of a client, which can be killed at any moment as a process can. It ends when its code returns;
    nothing of it goes on then, whether its connections are closed or not."""

    name: str
    """The client's name and the number of this start, such as `writer-2#3`."""

    @property
    def is_running(self) -> bool: ...

    def kill(self) -> None:
        """End the client as SIGKILL does: nothing of it goes on, and only its last words (see `last_word`) are
        still recorded."""
        ...

    def last_word(self, key: str, operation: AnyOperation) -> None:
        """Leave an operation that is put into the history if the process ends before it calls `settle(key)`. So the
        history has every operation that the process began.

        The client's own code calls this. A second last word for a key replaces the first one.
        """
        ...

    def settle(self, key: str, operation: AnyOperation) -> None:
        """Put `operation` into the history and drop the last word of this key, in one step. The client's own code
        calls this when the operation has ended."""
        ...

    async def ended(self) -> None:
        """Wait until the client's code has returned, was killed, or raised (which fails the run). A caller may stop
        waiting, such as by a timeout, without any effect on the client."""
        ...


class Lab(Protocol):
    """The interface between a workload and the world it runs in (the simulator or a real target): client libraries,
    chance, time, the history, and processes for its clients."""

    clients: Sequence[Clients]
    """The client libraries that take part; a workload distributes its clients over them."""
    random: random.Random
    replicas: int
    """The number of replicas of the topics that workloads make."""
    topic_config: Mapping[str, str]
    """The configuration that every topic gets in addition to what its workload wants."""

    @property
    def is_over(self) -> bool:
        """True if the time for work is over: clients must end what they have begun and return."""
        ...

    def now_ms(self) -> int:
        """Return the milliseconds since the run began."""
        ...

    def record(self, operation: AnyOperation) -> None: ...

    def spawn(
        self, name: str, work: Callable[["ClientProcess"], Coroutine[Any, Any, None]]
    ) -> ClientProcess:
        """Start client `name` once more, with `work` as its code, and return this start of it.

        In a run of chaos the client is a process of the operating system, forked here. `work` sees the state before the
        fork, and its own changes stay in its process. It has a `random` of its own, and only `record` hands something
        on to other processes.
        """
        ...

    async def sleep(self, ms: int) -> None:
        """Sleep for `ms`, or less if the run ends meanwhile. A sleep that begins when the run has ended, as in
        `check`, lasts its whole time."""
        ...


class Workload(Protocol):
    name: str

    async def setup(self, lab: Lab) -> None: ...

    async def start(self, lab: Lab) -> None: ...

    async def check(self, lab: Lab) -> None: ...


async def until_over(lab: Lab, works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all of `works`, which return when the run is over, at the same time. The first exception among them ends
    all of them, and is raised."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)
