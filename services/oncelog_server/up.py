"""Runs `oncelog up`: starts everything in this process, prints its addresses, stops on SIGTERM or Ctrl-C."""

import asyncio
import gc
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from oncelog.errors import OncelogError
from oncelog.process.garbage import collect_seldom
from oncelog.process.logs import log_to_stderr
from oncelog.process.memory import giving_back
from oncelog.process.sources import Sources
from oncelog.telemetry.tracing import traced
from oncelog_server.composition import NODE_ID, Addresses, EmbeddedLog, run_embedded
from oncelog_server.settings import EmbeddedSettings

if TYPE_CHECKING:
    from oncelog_server.faults.control import FaultControl


def up(settings: EmbeddedSettings, sources: Sources, faults: "FaultControl | None" = None) -> int:
    """Run `oncelog up` until SIGTERM or Ctrl-C. Returns the exit code: 0 after a clean stop, 1 when something could not
    start.

    Only `oncelog_server.child` gives `faults`: no flag, variable or file does (ADR 0045).
    """
    if sys.flags.optimize:
        print(
            "oncelog checks itself with assertions; do not run it under python -O", file=sys.stderr
        )
        return 1
    # Start-up only allocates: collecting meanwhile costs a tenth of it and frees nothing.
    gc.disable()
    try:
        log_to_stderr(settings.log_level, NODE_ID, settings.log_format)
        uvloop.run(_serve(settings, sources, faults))
    except OncelogError as error:
        print(f"oncelog: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(
    settings: EmbeddedSettings, sources: Sources, faults: "FaultControl | None"
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def announce(addresses: Addresses) -> None:
        collect_seldom()
        gc.enable()
        if settings.ready_file is not None:
            _write_ready_file(settings.ready_file, addresses)
        _print_addresses(addresses, is_ephemeral=settings.ephemeral)

    async def until(log: EmbeddedLog) -> None:
        async with giving_back():
            if faults is None:
                await stopped.wait()
            else:
                await faults.serve_until(stopped, log)
        print("oncelog: stopping", file=sys.stderr)

    clock = None if faults is None else faults.clock
    with traced("oncelog", settings.trace_late_ms) as tracing:
        if tracing is not None:
            tracing.say_node(NODE_ID)
        await run_embedded(settings, sources, on_ready=announce, until=until, clock=clock)


def _print_addresses(addresses: Addresses, *, is_ephemeral: bool) -> None:
    lasting = "removed at the end" if is_ephemeral else "kept"
    print(
        f"oncelog is ready\n"
        f"  Kafka clients   {addresses.bootstrap}\n"
        f"  REST, console   {addresses.gateway}\n"
        f"  data            {addresses.data} ({lasting})\n"
        f"Ctrl-C stops it.",
        flush=True,
    )


def _write_ready_file(path: Path, addresses: Addresses) -> None:
    content = {
        "bootstrap": addresses.bootstrap,
        "gateway": addresses.gateway,
        "pid": addresses.pid,
        "data": str(addresses.data),
    }
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(json.dumps(content))
        partial.replace(path)
    except OSError as error:
        raise OncelogError(
            f"cannot write the ready file {path}: {error.strerror}; choose another with --ready-file"
        ) from error
