"""Processes that the demo and tests start in order to kill them: `oncelog up`, the Spark driver and the like.

A process here leads its own session and process group, so one signal reaches it and everything it started. A Ctrl-C on
the terminal reaches none of them: the process that started them stops them. What a process prints goes to a file. The
end of that file is part of every error, because a process that did not come up has said why.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from oncelog.errors import OncelogError

READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.005
LOG_TAIL_LINES = 15


class ProcessDied(OncelogError):
    """A process ended, or never got ready. The message holds the end of what it printed."""


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """The addresses that `oncelog up --ready-file` writes."""

    bootstrap: str
    gateway: str
    pid: int
    data: str


class OwnProcess:
    """One command that runs in a session of its own and writes to `log`."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs; negative when a signal ended it."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask the leader of the process group, and only the leader, to end."""
        if self.exit_code is None:
            self._process.send_signal(signal.SIGTERM)

    def kill_group(self) -> None:
        """Send SIGKILL to the whole process group, without a chance to clean up, and wait until the leader is gone."""
        with contextlib.suppress(ProcessLookupError):  # The whole group may have ended by itself.
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, timeout_s: float) -> int:
        """Wait for the exit code and return it. Raises ProcessDied after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ProcessDied(f"process {self.pid} did not end within {timeout_s:.0f} s") from None

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM, then SIGKILL to the group when that had no effect in time. Returns the exit code."""
        self.terminate()
        try:
            code = self.wait(timeout_s)
        except ProcessDied:
            self.kill_group()
            code = self._process.wait()
        self.kill_group()
        return code

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])


class OncelogServer:
    """`oncelog up` as a child process that can be killed, and started again on the same data and ports.

    The first start takes free ports, or those given. Use it as a context manager: the process never outlives the block.
    """

    client_config = ""
    sink_name = "demo-ledger"

    def __init__(
        self,
        data: Path,
        *,
        port: int = 0,
        gateway_port: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.log = data.with_name(data.name + ".log")
        self._ready_file = data.with_name(data.name + ".ready.json")
        self._port = port
        self._gateway_port = gateway_port
        self._environment = dict(environment or {})
        self._process: OwnProcess | None = None
        self._addresses: ServerAddresses | None = None

    @property
    def addresses(self) -> ServerAddresses:
        assert self._addresses is not None, "start() comes first"
        return self._addresses

    @property
    def bootstrap(self) -> str:
        return self.addresses.bootstrap

    @property
    def gateway(self) -> str:
        return self.addresses.gateway

    @property
    def pid(self) -> int:
        assert self._process is not None, "start() comes first"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def start(self, timeout_s: float = READY_TIMEOUT_S) -> ServerAddresses:
        """Start and wait until clients may connect. Raises ProcessDied when that does not happen in time."""
        assert not self.is_running, "it runs already"
        self._ready_file.unlink(missing_ok=True)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self._process = OwnProcess(self._command(), self.log, self._environment)
        self._addresses = self._await_ready(self._process, timeout_s)
        self._port = int(self._addresses.bootstrap.rpartition(":")[2])
        self._gateway_port = int(self._addresses.gateway.rpartition(":")[2])
        return self._addresses

    def kill(self) -> None:
        """Send SIGKILL to the server: from outside that looks like a crash."""
        assert self._process is not None, "start() comes first"
        self._process.kill_group()

    def stop(self) -> int:
        """Stop the server cleanly. Returns the exit code."""
        return 0 if self._process is None else self._process.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        return [
            sys.executable,
            "-m",
            "oncelog_server",
            "up",
            "--port",
            str(self._port),
            "--gateway-port",
            str(self._gateway_port),
            "--data",
            str(self.data),
            "--ready-file",
            str(self._ready_file),
        ]

    def _await_ready(self, process: OwnProcess, timeout_s: float) -> ServerAddresses:
        deadline = time.monotonic() + timeout_s
        while not self._ready_file.exists():
            if process.exit_code is not None:
                raise ProcessDied(
                    f"oncelog up ended with code {process.exit_code}:\n{process.log_tail()}"
                )
            if time.monotonic() > deadline:
                process.kill_group()
                raise ProcessDied(
                    f"oncelog up was not ready within {timeout_s:.0f} s:\n{process.log_tail()}"
                )
            time.sleep(POLL_S)
        content = json.loads(self._ready_file.read_text())
        return ServerAddresses(**{name: content[name] for name in ServerAddresses.__slots__})
