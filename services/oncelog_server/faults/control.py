"""Receives requests for faults: the log's end of the socket over which a test's `oncelog.faults` asks for them (ADR
0045).

A request is a line of JSON, `{"call": "hold_end_txn", "arguments": {"transactional_id": "orders", "seconds": 2}}`, and
so is its answer: `{"answer": …}` or `{"refused": "why, and what to do"}`. Requests are answered one after the other.
The parent checks the arguments; what only the log knows is checked here.
"""

import asyncio
import contextlib
import inspect
import json
import socket
from typing import TypedDict

from oncelog.errors import OncelogError
from oncelog_server.composition import EmbeddedLog
from oncelog_server.faults.moved_clock import MovedClock
from oncelog_server.faults.plane import FaultPlane


class FaultControl:
    """Answers the requests of a test for faults. Give `clock` to the log's roles before the log starts; call
    `serve_until` while it runs.
    """

    def __init__(self, channel: socket.socket) -> None:
        self.clock = MovedClock()
        self._channel = channel

    async def serve_until(self, stopped: asyncio.Event, log: EmbeddedLog) -> None:
        """Answer requests until the log is to stop, or the parent has closed the socket. Then every fault is ended."""
        plane = FaultPlane(log, self.clock)
        serving = asyncio.create_task(self._serve(plane), name="faults")
        stopping = asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            serving.cancel()
            stopping.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            with contextlib.suppress(OncelogError):
                await plane.clear()

    async def _serve(self, plane: FaultPlane) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=self._channel)
        try:
            async for line in reader:
                writer.write(json.dumps(await _answered(plane, json.loads(line))).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()


class _Request(TypedDict):
    """The JSON of a request: the name of a method of `FaultPlane`, and its arguments."""

    call: str
    arguments: dict[str, object]


async def _answered(plane: FaultPlane, request: _Request) -> dict[str, object]:
    call = getattr(plane, request["call"])
    try:
        answer = call(**request["arguments"])
        if inspect.isawaitable(answer):
            answer = await answer
    except OncelogError as refused:
        return {"refused": str(refused)}
    return {"answer": answer}
