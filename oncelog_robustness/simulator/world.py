"""The world of one simulated run: its seed, its virtual time, its processes, and its trace."""

import contextvars
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TextIO

from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.loop import SimLoop
from oncelog_robustness.simulator.process import SimProcess
from oncelog_robustness.simulator.randomness import Streams
from oncelog_robustness.simulator.trace import Trace


class World:
    """The common state of all parts of one simulated run: seed, random streams, event loop with virtual time,
    processes, trace. It is made once in an operating system process; `seams` then gives production code its clock and
    chance."""

    def __init__(self, seed: int, trace_output: TextIO | None = None) -> None:
        self.seed = seed
        self.streams = Streams(seed)
        self.trace_log = Trace(trace_output)
        self.effects: Counter[Effect] = Counter()
        """The number of effects that faults have had so far."""
        self.executor_delay_s: Callable[[Executor | None], float] = self._thread_delay_s
        """The function that draws how long a thread's work takes, in seconds; the fault of a slow disk replaces it."""
        self.loop = SimLoop(
            lambda executor: self.executor_delay_s(executor),  # noqa: PLW0108
            self.streams.stream("threads.moment").random,
        )
        self.processes: dict[str, SimProcess] = {}
        """The process object of the last start of each process, by name."""
        self.own_context = contextvars.copy_context()
        """The context of code that belongs to no process, but to the world itself."""
        self._graveyard: list[object] = []

    def trace(self, kind: str, *facts: object) -> None:
        self.trace_log.add(self.loop.now_s, kind, *facts)

    def new_process(self, name: str, host: str | None = None) -> SimProcess:
        """Make the process object for the next start of the process `name`; the one before has ended."""
        before = self.processes.get(name)
        process = SimProcess(name, 1 if before is None else before.incarnation + 1, host or name)
        if before is not None:
            self._graveyard.append(before)
            process.clock_skew_ms = before.clock_skew_ms
        self.processes[name] = process
        return process

    def keep_for_ever(self, thing: object) -> None:
        """Keep an object of a dead process for ever: Python must not finalize it, since that would run code
        of the dead process."""
        self._graveyard.append(thing)

    def _thread_delay_s(self, executor: Executor | None) -> float:
        return self.streams.stream("threads").uniform(0.000_05, 0.001)
