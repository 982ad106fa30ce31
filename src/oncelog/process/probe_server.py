"""`/health`, `/ready` and `/metrics` of one process, on a thread and an event loop of its own.

It is a thread, so that a scrape is answered while the event loop of the process is late, and says how late. `/health`
asks that loop: it is 503 while the loop does not come to it, so a supervisor may restart a process that is stuck.

Every answer closes its connection. A client has `PHASE_TIMEOUT_S` to send its request and as long to read the answer. A
head has at most `HEAD_BYTES_MAX`. One connection too many closes the one that has waited longest.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from oncelog.process.connections import Connections
from oncelog.process.host_header import AllowedHosts

PHASE_TIMEOUT_S: Final = 5.0
HEAD_BYTES_MAX: Final = 16_384
CONNECTIONS_MAX: Final = 64
_VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0")
_CHALLENGE: Final = 'WWW-Authenticate: Bearer realm="oncelog"\r\n'


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    content: bytes


Page = Callable[[str], Awaitable[Answer]]
"""A function that returns the answer for the Accept header of a request, empty without one."""


def as_json(status: int, member: str, text: str) -> Answer:
    return Answer(status, "application/json", json.dumps({member: text}).encode("ascii"))


class ProbeServer:
    """A small HTTP server that serves `pages` on the bound socket until `stop`. The pages are awaited on its own event
    loop."""

    def __init__(
        self,
        listening: socket.socket,
        hosts: AllowedHosts,
        pages: Mapping[str, Page],
        logins: Mapping[str, Callable[[str], bool]] | None = None,
    ) -> None:
        """Make the server without starting it. `logins`: for a page that needs a login, the check of an `Authorization`
        header."""
        self.hosts = hosts
        self.pages = pages
        self.logins = logins or {}
        self.connections: Connections[_Connection] = Connections(CONNECTIONS_MAX)
        self.answering: set[asyncio.Task[None]] = set()
        self._listening = listening
        self._stop: Callable[[], object] = lambda: None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        self._stop()
        self._thread.join()

    def _run(self) -> None:
        # Not uvloop: what serves a probe need not be fast, and shares nothing with the process's own loop.
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stopped.set)
        server = await loop.create_server(lambda: _Connection(self), sock=self._listening)
        self._started.set()
        try:
            await stopped.wait()
        finally:
            server.close()


class _Connection(asyncio.Protocol):
    """A connection to the probe server: one request, one answer."""

    def __init__(self, server: ProbeServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._is_answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = str((transport.get_extra_info("peername") or ("",))[0])
        dropped = self._server.connections.opened(self, address, self._loop.time())
        self._deadline = self._loop.call_later(PHASE_TIMEOUT_S, transport.abort)
        if dropped is not None:
            dropped._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._deadline.cancel()
        self._server.connections.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._received += data
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if len(head) > HEAD_BYTES_MAX:
            self._send(as_json(431, "detail", f"the head has more than {HEAD_BYTES_MAX} bytes"))
        elif end:
            self._deadline.cancel()
            self._server.connections.is_served(self)
            self._is_answered = True
            task = self._loop.create_task(self._answer(head.decode("latin-1")))
            self._server.answering.add(task)
            task.add_done_callback(self._server.answering.discard)

    async def _answer(self, head: str) -> None:
        try:
            self._send(await self._answer_to(head))
        except BaseException:
            self._transport.abort()
            raise

    async def _answer_to(self, head: str) -> Answer:
        request_line, *lines = head.split("\r\n")
        method, _, rest = request_line.partition(" ")
        target, _, version = rest.partition(" ")
        if version not in _VERSIONS or any(end in line for line in lines for end in "\r\n"):
            return as_json(400, "detail", "this is not HTTP/1.1, each line with CR and LF")
        path = target.partition("?")[0]
        fields = [line.partition(":") for line in lines]
        hosts = [value.strip() for name, _, value in fields if name.lower() == "host"]
        if len(hosts) != 1 or not self._server.hosts.allows(hosts[0]):
            detail = f"the Host header {', '.join(hosts)[:100]!r} is not a name of this process"
            return as_json(421, "detail", f"{detail}; add it to ONCELOG_PROCESS_ALLOWED_HOSTS")
        page = self._server.pages.get(path)
        if page is None:
            return as_json(
                404, "detail", f"no such path; there are {', '.join(self._server.pages)}"
            )
        if method != "GET":
            return as_json(405, "detail", f"{path} takes GET")
        admits = self._server.logins.get(path)
        if admits is not None:
            shown = [value for name, _, value in fields if name.lower() == "authorization"]
            if len(shown) != 1 or not admits(shown[0]):
                detail = f"{path} wants Authorization: Bearer and the token of its file"
                return as_json(401, "detail", f"{detail}: ONCELOG_PROCESS_METRICS_TOKEN_FILE")
        accept = ",".join(value for name, _, value in fields if name.lower() == "accept")
        return await page(accept)

    def _send(self, answer: Answer) -> None:
        self._is_answered = True
        self._deadline.cancel()
        if self._transport.is_closing():
            return
        self._deadline = self._loop.call_later(PHASE_TIMEOUT_S, self._transport.abort)
        self._server.connections.waits(self, self._loop.time())
        head = (
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.content)}\r\n"
            f"{_CHALLENGE if answer.status == HTTPStatus.UNAUTHORIZED else ''}"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode("ascii") + answer.content)
        # The client closes: what it still sends is read meanwhile, or a reset would overtake the answer.
        self._transport.write_eof()
