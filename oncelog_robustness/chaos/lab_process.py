"""The runner's side of the lab, the process that runs the workloads: it sends the order and commands, and
reads events."""

import asyncio
import contextlib
import json
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.lab import LabOrder
from oncelog_robustness.chaos.part import end_part, start_part
from oncelog_server.cluster.tail import tail_of

KILL_TIMEOUT_S: Final = 5.0
STOP_TIMEOUT_S: Final = 10.0


class LabProcess:
    """The lab, which runs the workloads, as a child process that starts at once. Events are awaited on the event loop
    on which this object was made. `kill_client` blocks, so it is called from threads."""

    def __init__(self, order: LabOrder, log: Path) -> None:
        self._log = log
        self._process = start_part("oncelog_robustness.chaos.lab", log=log)
        self.counts: dict[str, Any] = {}
        """The counts of the newest `progress` event."""
        self._failure = ""
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._killed: SimpleQueue[str] = SimpleQueue()
        self._killing = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="lab events", daemon=True)
        self._reader.start()
        self._wish(order.line())

    async def event(self, wanted: str) -> dict[str, Any]:
        """Wait for the next event of this kind from the lab and return it. Raises OncelogError if the lab has
        failed or ended."""
        while True:
            event = await self._events.get()
            if event["event"] == wanted:
                return event
            self.fail_if_it_failed()

    def fail_if_it_failed(self) -> None:
        """Raise OncelogError if the lab has failed, because no further event will come."""
        if self._failure:
            raise OncelogError(self._failure)

    def end(self) -> None:
        self._wish("end")

    def check(self) -> None:
        self._wish("check")

    def kill_client(self, strength: float) -> str:
        """Kill one of the running clients, chosen by `strength` from 0 to 1, and return its name; empty when
        none runs."""
        with self._killing:
            self._wish(f"kill {strength}")
            try:
                return self._killed.get(timeout=KILL_TIMEOUT_S)
            except Empty:
                return ""

    def close(self) -> None:
        end_part(self._process, STOP_TIMEOUT_S)
        self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wish(self, line: str) -> None:
        assert self._process.stdin is not None
        # A lab that has ended says so by its last event.
        with contextlib.suppress(OSError):
            print(line, file=self._process.stdin, flush=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._take(json.loads(line))
        self._take({"event": "ended"})
        self._process.stdout.close()

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "progress":
            self.counts = event
        elif event["event"] == "killed":
            self._killed.put(event["client"])
        else:
            self._note_failure(event)
            # The loop may be gone before the lab is.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    def _note_failure(self, event: dict[str, Any]) -> None:
        if self._failure:
            return
        if event["event"] == "failed":
            self._failure = f"the workloads failed; see {self._log}:\n{event['error']}"
        elif event["event"] == "ended":
            self._failure = f"the lab has ended; the end of {self._log}:\n{tail_of(self._log)}"
