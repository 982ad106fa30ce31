"""The world of one run: its seed, its time, its processes, and the account of what happened."""

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
    """Made once per operating system process; `seams` then puts it under the production code."""

    def __init__(self, seed: int, trace_output: TextIO | None = None) -> None:
        self.seed = seed
        self.streams = Streams(seed)
        self.trace_log = Trace(trace_output)
        self.effects: Counter[Effect] = Counter()
        """What faults have brought about so far."""
        self.executor_delay_s: Callable[[Executor | None], float] = self._thread_delay_s
        """The slow-disk fault replaces it."""
        self.loop = SimLoop(
            lambda executor: self.executor_delay_s(executor),  # noqa: PLW0108
            self.streams.stream("threads.moment").random,
        )
        self.processes: dict[str, SimProcess] = {}
        """The newest incarnation by name."""
        self.own_context = contextvars.copy_context()
        """Of nobody's process: the world itself."""
        self._graveyard: list[object] = []

    def trace(self, kind: str, *facts: object) -> None:
        self.trace_log.add(self.loop.now_s, kind, *facts)

    def new_process(self, name: str, host: str | None = None) -> SimProcess:
        """The next incarnation of `name`; the one before has ended."""
        before = self.processes.get(name)
        process = SimProcess(name, 1 if before is None else before.incarnation + 1, host or name)
        if before is not None:
            self._graveyard.append(before)
            process.clock_skew_ms = before.clock_skew_ms
        self.processes[name] = process
        return process

    def keep_for_ever(self, thing: object) -> None:
        """Something of a dead process that must not be finalized."""
        self._graveyard.append(thing)

    def _thread_delay_s(self, executor: Executor | None) -> float:
        return self.streams.stream("threads").uniform(0.000_05, 0.001)
