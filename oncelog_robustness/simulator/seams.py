"""The seams: the places where the simulator puts something of its own under production code. Clock and randomness are
replaced here, files in `disk_calls`, the network in `tcp` and `grpc_network`. The rest is the production code itself.

A simulated world has its operating system process for itself and never gives the real one back: a run forks.
"""

import gc
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from aiokafka.producer.message_accumulator import BatchBuilder

from oncelog_robustness.simulator.ordered_sets import install_ordered_sets
from oncelog_robustness.simulator.process import owner

if TYPE_CHECKING:
    from oncelog_robustness.simulator.world import World

EPOCH_MS = 1_800_000_000_000
"""The true wall time at the beginning of every run, in milliseconds since 1970."""


def replace(target: Any, name: str, replacement: object) -> None:
    """Put `replacement` where production code looks for `target.name`.
    Raises AttributeError when there is no such name."""
    getattr(target, name)
    setattr(target, name, replacement)


def replace_clock_and_randomness(world: "World") -> None:
    loop = world.loop

    def time_ns() -> int:
        process = owner()
        skew_ms = 0 if process is None else process.clock_skew_ms
        return (EPOCH_MS + skew_ms) * 1_000_000 + int(loop.time() * 1e9)

    replace(time, "time_ns", time_ns)
    replace(time, "time", lambda: time_ns() / 1e9)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        replace(time, name, loop.time)
        replace(time, f"{name}_ns", lambda: int(loop.time() * 1e9))
    replace(time, "sleep", _never_sleeps)
    replace(threading.Event, "wait", _rests_no_time)

    def shutdown(
        executor: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False
    ) -> None:
        executor._shutdown = True
        if wait:
            loop.finish_work(executor)

    entropy = world.streams.stream("entropy")
    replace(os, "urandom", entropy.randbytes)
    replace(random, "_urandom", entropy.randbytes)
    random.seed(f"oncelog/{world.seed}/random")
    replace(ThreadPoolExecutor, "submit", _never_submits)
    replace(ThreadPoolExecutor, "shutdown", shutdown)
    # A collection at a moment of its own choosing would run finalizers there.
    gc.disable()


def _never_submits(*_args: object, **_kwargs: object) -> None:
    raise AssertionError("a thread under simulation: use loop.run_in_executor")


def replace_what_aiokafka_takes_from_c() -> None:
    """Replace the clock of aiokafka's compiled batch builder, and its sets, over which it iterates in
    another order in each process."""
    append = BatchBuilder.append

    def append_at_our_time(self: Any, *, timestamp: int | None, **record: Any) -> Any:
        return append(
            self, timestamp=int(time.time() * 1000) if timestamp is None else timestamp, **record
        )

    replace(BatchBuilder, "append", append_at_our_time)
    install_ordered_sets()


def _rests_no_time(event: threading.Event, timeout: float | None = None) -> bool:
    """Replace `Event.wait`: return at once whether the event is set. A thread's work is one instant here, so
    nothing could set the event meanwhile."""
    assert timeout is not None or event.is_set(), "this would wait for ever"
    return event.is_set()


def _never_sleeps(seconds: float) -> None:
    raise AssertionError(f"time.sleep({seconds}) under simulation: await something instead")
