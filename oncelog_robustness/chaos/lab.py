"""The lab: workloads against a real target, each client a process of its own: `python -m
oncelog_robustness.chaos.lab`.

The lab is a process apart from the runner, because forking needs a process without gRPC and with few threads. The
runner writes one `LabOrder` on its input, then one line for each command (`end`, `check`, `kill 0.7`); events go out as
lines of JSON:

    {"event": "ready"}                        topics are there; clients begin
    {"event": "progress", "commits": 120, …}  twice a second
    {"event": "worked"}                       every client has ended
    {"event": "done"}                         the last reads are made, and the history is written
    {"event": "failed", "error": "…"}         a bug of a workload or of this lab: no verdict
"""

import asyncio
import gc
import json
import mmap
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.chaos.client_process import ClientChild, ClientParent, Work, operation_line
from oncelog_robustness.clients.contract import Clients
from oncelog_robustness.clients.libraries import LIBRARIES
from oncelog_robustness.clients.login import choose_login
from oncelog_robustness.history import AnyOperation
from oncelog_robustness.workloads.contract import Workload
from oncelog_server.cli.client_config import read_client_config

HISTORY: Final = "history.jsonl"
TOLD: Final = "told"
"""The name of the folder in which each running client has a file, to which it writes its operations."""
STEP_MS: Final = 100
PROGRESS_S: Final = 0.5
_OVER: Final = 0


@dataclass(frozen=True, slots=True)
class LabOrder:
    bootstrap: str
    client_config: str
    """Path of a `client.properties` for the clients' login, or empty."""
    folder: str
    seed: int
    replicas: int
    began_s: float
    """The time at which the run began, in seconds of the clock that all processes of a machine share."""
    libraries: tuple[str, ...]
    workloads: tuple[dict[str, Any], ...]
    """The workloads to run, each with its `kind`, its `name` and its parameters."""
    facts: dict[str, str]
    topic_config: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> "LabOrder":
        content = json.loads(line)
        return cls(
            **{
                **content,
                "libraries": tuple(content["libraries"]),
                "workloads": tuple(content["workloads"]),
            }
        )


class ForkLab:
    """The surroundings that workloads have in chaos: client libraries, time, chance, history, and clients as
    forked processes. Each client has a copy of it, which writes to that client's file."""

    def __init__(self, order: LabOrder, clients: Sequence[Clients]) -> None:
        self.clients = clients
        self.replicas = order.replicas
        self.topic_config: Mapping[str, str] = order.topic_config
        self.random = random.Random(f"chaos/{order.seed}/workloads")
        self._seed = order.seed
        self._began_s = order.began_s
        self._client_files = Path(order.folder) / TOLD
        self._client_files.mkdir(parents=True, exist_ok=True)
        self._history = (Path(order.folder) / HISTORY).open("w")
        print(json.dumps({"facts": order.facts}), file=self._history)
        # This page is shared with every child, and is the only message to them.
        self._shared = mmap.mmap(-1, mmap.PAGESIZE)
        self._child: ClientChild | None = None
        self._incarnations: Counter[str] = Counter()
        self.processes: list[ClientParent] = []
        self.counts: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        return self._shared[_OVER] == 1

    def end(self) -> None:
        self._shared[_OVER] = 1

    def now_ms(self) -> int:
        return int((time.monotonic() - self._began_s) * 1000)

    def record(self, operation: AnyOperation) -> None:
        if self._child is not None:
            self._child.record(operation)
        else:
            self._write(operation_line(operation))

    def spawn(self, name: str, work: Work) -> ClientParent:
        assert self._child is None, "clients are spawned by the lab"
        self._fail_if_one_failed()
        self.processes = [one for one in self.processes if one.is_running]
        self._incarnations[name] += 1
        full = f"{name}#{self._incarnations[name]}"
        process = ClientParent(full, self._client_files / full.replace("/", "_"), self._write)
        self._history.flush()
        process.start(work, self._become)
        self.processes.append(process)
        return process

    async def sleep(self, ms: int) -> None:
        if self.is_over:
            await asyncio.sleep(ms / 1000)
            return
        until_ms = self.now_ms() + ms
        # The flag lies in shared memory, which cannot wake a sleeper.
        while not self.is_over and (left_ms := until_ms - self.now_ms()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left_ms, STEP_MS) / 1000)

    def kill_one(self, strength: float) -> str:
        running = sorted(
            (one for one in self.processes if one.is_running), key=lambda one: one.name
        )
        if not running:
            return ""
        chosen = running[min(int(strength * len(running)), len(running) - 1)]
        chosen.kill()
        return chosen.name

    def read_on(self) -> None:
        for process in self.processes:
            if process.is_running:
                process.read_on()
        self._fail_if_one_failed()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        self._history.close()

    def _become(self, child: ClientChild) -> None:
        self._child = child
        self.random = random.Random(f"chaos/{self._seed}/{child.name}")

    def _write(self, line: str) -> None:
        print(line, file=self._history)
        content = json.loads(line)
        self.counts["operations"] += 1
        if content["operation"] == "Transaction":
            self.counts[f"{content['ending']} {content['outcome']}"] += 1
        if content["operation"] == "Poll":
            self.counts["records read"] += len(content["reads"])

    def _fail_if_one_failed(self) -> None:
        for process in self.processes:
            if process.error:
                raise WorkloadFailed(f"{process.name}: {process.error}")


class WorkloadFailed(Exception):
    """A workload's own code raised an exception: a bug of the workload, and no verdict on the cluster."""


def say(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


async def run_lab(order: LabOrder, workloads: Sequence[Workload], wishes: "Wishes") -> None:
    # The first one is asked for whatever is done once; it should start no threads before clients are forked.
    choose_login(read_client_config(order.client_config).login)
    clients = [LIBRARIES[one](order.bootstrap.split(",")) for one in order.libraries]
    lab = ForkLab(order, clients)
    wishes.kill = lab.kill_one
    wishes.end = lab.end
    reporting = asyncio.create_task(_report(lab))
    try:
        for workload in workloads:
            await workload.setup(lab)
        gc.collect()
        gc.freeze()
        say("ready", at_ms=lab.now_ms())
        async with asyncio.TaskGroup() as group:
            for workload in workloads:
                group.create_task(workload.start(lab))
        lab.read_on()
        say("worked")
        await wishes.checking.wait()
        for workload in workloads:
            say("checking", workload=workload.name)
            await workload.check(lab)
        say("done", counts=dict(lab.counts))
    finally:
        reporting.cancel()
        lab.close()


async def _report(lab: ForkLab) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        lab.read_on()
        running = sum(one.is_running for one in lab.processes)
        say("progress", at_ms=lab.now_ms(), clients=running, **lab.counts)


class Wishes:
    """Listens to the commands that the runner sends while the workloads run: `end` the work, `check` (make
    the last reads), and `kill` a client."""

    def __init__(self) -> None:
        self.checking = asyncio.Event()
        self.kill: Callable[[float], str] = lambda strength: ""
        self.end: Callable[[], None] = lambda: None

    async def listen(self, reader: asyncio.StreamReader, main: "asyncio.Task[None]") -> None:
        while line := await reader.readline():
            wish, _, detail = line.decode().strip().partition(" ")
            if wish == "end":
                self.end()
            elif wish == "check":
                self.checking.set()
            elif wish == "kill":
                say("killed", client=self.kill(float(detail)))
        main.cancel()


async def serve() -> None:
    # This is imported here, because only this process has one kind of workload more in its catalog.
    from oncelog_robustness.chaos.steady import make_workload

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = LabOrder.from_line((await reader.readline()).decode())
    workloads = [
        make_workload(
            str(one["kind"]),
            str(one["name"]),
            {key: value for key, value in one.items() if key not in ("kind", "name")},
        )
        for one in order.workloads
    ]
    wishes = Wishes()
    main = asyncio.create_task(run_lab(order, workloads, wishes))
    listening = asyncio.create_task(wishes.listen(reader, main))
    try:
        await main
    finally:
        listening.cancel()


if __name__ == "__main__":
    try:
        asyncio.run(serve())
    except asyncio.CancelledError:
        sys.exit(1)
    except BaseException:
        say("failed", error=traceback.format_exc())
        sys.exit(1)
