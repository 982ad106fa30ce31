"""An application of a workload: a client with a transactional id of its own that dies and is started again until
the run is over.

Its number selects the client library. Each start of it is called an incarnation. All have the same transactional
id, so each fences its predecessor and ends what that one began.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from oncelog_robustness.workloads.contract import ClientProcess, Lab
from oncelog_robustness.workloads.lives import live_on
from oncelog_robustness.workloads.parameters import Watched
from oncelog_robustness.workloads.transacting import OpenTransaction, Transactor

Incarnation = Callable[[Transactor], Coroutine[Any, Any, None]]
Body = Callable[[Transactor, OpenTransaction], Awaitable[None]]


async def run_application(
    lab: Lab, name: str, number: int, given: Watched, incarnation: Incarnation
) -> None:
    """Run an application until the run is over. `incarnation` is its code, and is called at each start of it. `name` is
    its transactional id as well, and `number` selects the client library. `given` are the workload's parameters: the
    transaction time-out, and how long each start lives."""

    async def work(process: ClientProcess) -> None:
        clients = lab.clients[number % len(lab.clients)]
        await incarnation(Transactor(lab, process, clients, name, given.transaction_timeout_ms))

    await live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms)


async def run_writer(
    lab: Lab,
    name: str,
    number: int,
    given: Watched,
    body: Body,
    *,
    abort_share: float,
    pause_ms: int,
) -> None:
    """Run an application that makes one transaction after the other; `body` sends the records of each. `abort_share` of
    them are aborted, and `pause_ms` is the longest pause between two. The other arguments are those of
    `run_application`."""

    async def incarnation(client: Transactor) -> None:
        await client.transact_on(partial(body, client), abort_share=abort_share, pause_ms=pause_ms)

    await run_application(lab, name, number, given, incarnation)
