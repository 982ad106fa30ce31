"""The life of a process: read settings, start, say so, wait for a signal, drain, stop, exit code.

    SIGTERM   drain (leadership and shards move away, what is in flight ends), then stop: exit code 0
    SIGINT    stop in order, without a drain: for a person at a terminal, and for ending a whole cluster at once
    a second  end at once, whatever is in flight: exit code 1; the next start recovers as after a crash

A signal that comes during the start ends it in order too. Exit codes: 0 a clean stop, 1 it could not start or was cut
off, 2 settings that cannot be.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import uvloop
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from oncelog.errors import OncelogError
from oncelog.process.arguments import EXIT_USED_WRONGLY, SettingsParser, WrongUse
from oncelog.process.garbage import collect_seldom
from oncelog.process.host_header import configured_names
from oncelog.process.logs import LogFormat, LogLevel, log_to_stderr
from oncelog.process.memory import giving_back
from oncelog.process.metrics import ProcessMetrics, served_metrics
from oncelog.process.role_metrics import RoleMetric
from oncelog.telemetry.trace_metrics import trace_metrics
from oncelog.telemetry.tracing import Tracing, traced

logger = logging.getLogger(__name__)

EXIT_FAILED: Final = 1

SettingsT = TypeVar("SettingsT", bound=BaseSettings)


class ProcessSettings(BaseSettings):
    """The process itself, whatever its role."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_PROCESS_", frozen=True)

    log_level: LogLevel = Field(LogLevel.INFO, description="least important line that is logged")
    log_format: LogFormat = Field(
        LogFormat.LOGFMT, description="how a line is written; json for a log collector"
    )
    drain_timeout_ms: int = Field(
        20_000,
        ge=0,
        le=3_600_000,
        description="longest wait after SIGTERM for leadership and shards to move away; then it stops all the same",
    )
    metrics_host: str = Field(
        "127.0.0.1", description="address that serves /metrics, /health and /ready"
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port that serves /metrics, /health and /ready; none: no port does",
    )
    allowed_hosts: str = Field(
        "",
        description="names that requests to that port may carry as Host beside localhost, the loopback addresses and "
        "the bound address, separated by commas",
    )
    metrics_token_file: Path | None = Field(
        None,
        description="file with the token that /metrics of that port wants as Authorization: Bearer; read again for "
        "each scrape; unset: no login. /health and /ready want none",
    )

    trace_late_ms: int = Field(
        10_000,
        ge=1,
        le=3_600_000,
        description="a transaction open for longer is traced whatever the sampler says; traces are on when "
        "OTEL_EXPORTER_OTLP_ENDPOINT is set",
    )

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, text: str) -> str:
        configured_names(text)
        return text


class Settings:
    """The settings objects that a program has read from its sources, each found by its class."""

    def __init__(self, found: Mapping[type[BaseSettings], BaseSettings]) -> None:
        self._found = found

    def __getitem__(self, kind: type[SettingsT]) -> SettingsT:
        found = self._found[kind]
        assert isinstance(found, kind)
        return found


async def _nothing(_timeout_s: float) -> None:
    return


@dataclass(frozen=True, slots=True)
class Running:
    """A started process, as its program's `open` yields it: its role, and the functions to watch, drain and measure
    it."""

    role: Any
    """The role that the wiring built, for the simulator to look into."""
    node_id: int
    """The process's node id, also where the controller gave it."""
    description: str
    """The addresses on which the process listens, for the log line that says it has started."""
    is_ready: Callable[[], bool]
    """Returns True if the process may be given work, as its health service says."""
    metrics: Callable[[], Iterable[RoleMetric]]
    """Returns the process's metrics, for its `/metrics`."""
    failure: Callable[[], Coroutine[object, object, BaseException]]
    """Returns, once it happens, the error for which the process cannot go on."""
    drain: Callable[[float], Awaitable[object]] = _nothing
    """Gives away the work that others can do, and lets requests in flight end.
    It raises nothing: a stop follows anyway."""


Opened = AbstractAsyncContextManager[Running]


@dataclass(frozen=True, slots=True)
class Program:
    """A program of oncelog that `python -m` starts. `open` starts everything on entry and stops it on exit."""

    module: str
    summary: str
    settings: tuple[type[BaseSettings], ...]
    node_id: Callable[[Settings], int]
    open: Callable[[Settings], Opened]
    derived: frozenset[str] = frozenset()
    """The variables that follow from others in this program; they are neither flags nor in the help."""


def run(program: Program, arguments: Sequence[str] | None = None) -> int:
    """Run a program until a signal ends it, and return its exit code. An error is one line on stderr."""
    kinds: list[type[BaseSettings]] = [*program.settings, ProcessSettings]
    try:
        if sys.flags.optimize:
            raise WrongUse("oncelog checks itself with assertions; do not run it under python -O")
        found = SettingsParser(program.module, program.summary, kinds, program.derived).read(
            sys.argv[1:] if arguments is None else arguments
        )
    except WrongUse as error:
        print(f"{program.module}: {error}", file=sys.stderr)
        return EXIT_USED_WRONGLY
    settings = Settings(found)
    process = settings[ProcessSettings]
    log_to_stderr(process.log_level, program.node_id(settings), process.log_format)
    try:
        uvloop.run(_serve(program, settings))
    except OncelogError as error:
        logger.error("%s does not run: %s", program.module, error)
        return EXIT_FAILED
    except (
        Exception
    ):  # The outermost edge: a bug ends the process, and its trace is a log line like any other.
        logger.exception("%s ended by a bug", program.module)
        return EXIT_FAILED
    return 0


async def _serve(program: Program, settings: Settings) -> None:
    signals = _Signals()
    logger.info("%s starts", program.module)
    process = settings[ProcessSettings]
    metrics = served_metrics(
        process.metrics_host,
        process.metrics_port,
        process.allowed_hosts,
        program.module,
        program.node_id(settings),
        process.metrics_token_file,
    )
    try:
        service = program.module.replace("_", "-")
        with metrics as shown, traced(service, process.trace_late_ms) as tracing:
            await _run_until_stopped(program, settings, signals, shown, tracing)
    except asyncio.CancelledError:
        if not signals.stop_requested.is_set():
            raise
    logger.info("stopped")


async def _run_until_stopped(
    program: Program,
    settings: Settings,
    signals: "_Signals",
    metrics: ProcessMetrics,
    tracing: Tracing | None,
) -> None:
    async with program.open(settings) as running:
        metrics.say_node(running.node_id)
        if tracing is not None:
            tracing.say_node(running.node_id)
        read = lambda: [*running.metrics(), *trace_metrics()]  # noqa: E731
        with metrics.showing(read, running.is_ready):
            await _until_stopped(program, settings, signals, running)


async def _until_stopped(
    program: Program, settings: Settings, signals: "_Signals", running: Running
) -> None:
    signals.started()
    collect_seldom()
    logger.info("%s has started: %s", program.module, running.description)
    async with giving_back():
        await _stopped_or_failed(signals, running)
    if signals.wants_drain:
        logger.info("draining")
        await running.drain(settings[ProcessSettings].drain_timeout_ms / 1000)
    logger.info("stopping")


async def _stopped_or_failed(signals: "_Signals", running: Running) -> None:
    """Wait for a signal to stop. If the process fails before, raise its error."""
    stopped = asyncio.create_task(signals.stop_requested.wait())
    failed = asyncio.create_task(running.failure())
    try:
        await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        if failed.done() and not stopped.done():
            raise failed.result()
    finally:
        stopped.cancel()
        failed.cancel()


class _Signals:
    """Handles SIGTERM and SIGINT: the first one asks for a stop in order, the second ends the process at once."""

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self.wants_drain = False
        self._starting: asyncio.Task[object] | None = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._take, number)

    def started(self) -> None:
        """Mark the start as complete: from now on a signal does not cancel it."""
        self._starting = None

    def _take(self, number: int) -> None:
        if self.stop_requested.is_set():
            logger.warning("cut off by a second signal")
            os._exit(EXIT_FAILED)
        self.stop_requested.set()
        self.wants_drain = number == signal.SIGTERM
        if self._starting is not None:
            self._starting.cancel()
