"""The lives of clients: they are started, killed after a drawn time and started again. And calls that are repeated
until they succeed."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from oncelog_robustness.clients.contract import ClientError
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.history import Fault
from oncelog_robustness.workloads.contract import ClientProcess, Lab

GRACE_MS: Final = 120_000
"""The time that a client may take to end what it has begun when the run is over, in milliseconds."""

STEP_MS: Final = 1_000

Work = Callable[[ClientProcess], Coroutine[Any, Any, None]]
ResultT = TypeVar("ResultT")


async def live_on(lab: Lab, name: str, work: Work, *, life_ms: int, rest_ms: int) -> None:
    """Start one client again and again until the run is over. Each start of it is killed after a drawn time, unless it
    ends before. `life_ms` is the mean of that time (0: never killed), `rest_ms` the longest pause between two
    starts."""
    while not lab.is_over:
        process = lab.spawn(name, work)
        await outlive(lab, process, drawn_life_ms(lab, life_ms))
        await lab.sleep(lab.random.randint(0, rest_ms))


def drawn_life_ms(lab: Lab, mean_ms: int) -> int | None:
    """Draw after how many milliseconds a client is to be killed; `mean_ms` is the mean. None if that is 0: it is
    not killed."""
    return int(lab.random.expovariate(1 / mean_ms)) if mean_ms > 0 else None


async def outlive(lab: Lab, process: ClientProcess, life_ms: int | None) -> None:
    """Wait until the client has ended. Kill it after `life_ms` (None: do not), or if it still runs `GRACE_MS` after the
    run is over."""
    began_ms = lab.now_ms()
    over_ms: int | None = None
    while True:
        now_ms = lab.now_ms()
        if lab.is_over and over_ms is None:
            over_ms = now_ms
        deadlines = [now_ms + STEP_MS]
        if life_ms is not None:
            deadlines.append(began_ms + life_ms)
        if over_ms is not None:
            deadlines.append(over_ms + GRACE_MS)
        if await _ended_within(process, min(deadlines) - now_ms):
            return
        if lab.now_ms() >= min(deadlines[1:], default=lab.now_ms() + 1):
            kill(lab, process)
            return


def kill(lab: Lab, process: ClientProcess) -> None:
    if process.is_running:
        process.kill()
        at_ms = lab.now_ms()
        lab.record(
            Fault(
                client="workload",
                invoked_ms=at_ms,
                completed_ms=at_ms,
                kind=FaultKind.CLIENT_KILL,
                target=process.name,
            )
        )


async def _ended_within(process: ClientProcess, ms: int) -> bool:
    try:
        async with asyncio.timeout(max(ms, 0) / 1000):
            await process.ended()
    except TimeoutError:
        return not process.is_running
    return True


async def retried(
    lab: Lab, limit_ms: int, call: Callable[[], Awaitable[ResultT]], pause_ms: int = 200
) -> ResultT:
    """Repeat `call` while it raises ClientError, every `pause_ms`, and return its result. Once `limit_ms` have passed,
    the error is raised."""
    deadline_ms = lab.now_ms() + limit_ms
    while True:
        try:
            return await call()
        except ClientError:
            if lab.now_ms() >= deadline_ms:
                raise
        await lab.sleep(pause_ms)
