"""One HTTP connection of the gateway: uvicorn's, with limits on what its client may leave half done.

uvicorn does not limit the time in which a request must arrive, and counts half-sent ones against its limit of
connections. 210 of them turned REST and `/health` off for good. Here each phase in which the gateway waits for the
client has a time limit. When there are too many connections, `Connections` says which one is closed.
"""

import asyncio
import sys
from http import HTTPStatus
from typing import Final, NotRequired, TypedDict, Unpack

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from oncelog.process.connections import Connections
from oncelog_gateway.problems import PROBLEM_JSON, plain_problem, problem_json
from oncelog_gateway.security_headers import SECURITY_HEADERS
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.strict_http import StrictConnection, UnwantedRequest

REQUEST_HEAD_BYTES_MAX: Final = 1 << 17
"""Maximum size of a request's head in bytes. A transactional id has at most 32767 bytes, and each may take three in a
URL.
"""
LINGER_S: Final = 1.0
"""Seconds for which the rest of a refused request is read and dropped. Closing at once would reset the connection,
and the client would not see why.
"""

_ANSWERABLE: Final = (h11.IDLE, h11.SEND_RESPONSE)


class FromUvicorn(TypedDict):
    """The arguments that uvicorn passes to the constructor of a connection."""

    config: Config
    server_state: ServerState
    app_state: dict[str, object]
    _loop: NotRequired[asyncio.AbstractEventLoop | None]


class HttpConnection(H11Protocol):
    """A client's connection. uvicorn creates one for each that it accepts."""

    def __init__(
        self,
        open_connections: Connections["HttpConnection"],
        settings: GatewaySettings,
        **from_uvicorn: Unpack[FromUvicorn],
    ) -> None:
        super().__init__(**from_uvicorn)
        self.conn = StrictConnection(REQUEST_HEAD_BYTES_MAX, settings.request_bytes_max)
        self._open = open_connections
        self._timeout_s = settings.request_timeout_ms / 1000
        self._phase: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_refused = False
        self._is_write_paused = False
        self._unread_bytes: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        dropped = self._open.opened(self, address, self.loop.time())
        self._enter("head")
        if dropped is not None:
            dropped.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.closed(self)
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._unread_bytes = None
        super().pause_writing()
        self._follow()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        super().resume_writing()
        self._follow()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP request, with the status of the parser's error instead of always 400: 431, for
        example, if the headers are too large. uvicorn calls this while it handles that error.
        """
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        detail = f"this is not an HTTP request: {error}"
        if isinstance(error, UnwantedRequest):
            detail = str(error)
        elif status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            detail = "the request line and headers are too large"
        self._refuse(status, detail)

    def _follow(self) -> None:
        """Find which phase the connection is in now, such as waiting for a request's body, and start its time limit."""
        if self._is_refused or self.transport.is_closing():
            return
        if self._is_write_paused:
            self._enter("answer")
        elif self.conn.their_state is h11.IDLE:
            self._enter("head")
        elif self.conn.their_state is h11.SEND_BODY:
            self._enter("body")
        else:
            self._enter(None)

    def _enter(self, phase: str | None) -> None:
        """Begin a phase in which the gateway waits for the client, with a time limit. None: the gateway is working,
        without a limit. Bytes that arrive within a phase do not extend its limit.
        """
        if phase == self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase is None:
            self._open.is_served(self)
            return
        self._open.waits(self, self.loop.time())
        self._deadline = self.loop.call_later(self._timeout_s, self._too_late, phase)

    def _too_late(self, phase: str) -> None:
        if phase == "answer":
            self._wait_for_a_slow_reader()
        elif phase == "head" and not self.conn.trailing_data[0]:
            self.transport.close()
        else:
            self._refuse(408, f"the {phase} of the request did not arrive in {self._timeout_s} s")

    def _wait_for_a_slow_reader(self) -> None:
        """Wait again for the client to read the answer if it has read something since the last wait. Otherwise close
        the connection.
        """
        unread_bytes = self.transport.get_write_buffer_size()
        if self._unread_bytes is not None and unread_bytes >= self._unread_bytes:
            self.transport.abort()
            return
        self._unread_bytes = unread_bytes
        self._deadline = self.loop.call_later(self._timeout_s, self._too_late, "answer")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer with an error, then discard what still arrives, until the client closes or `LINGER_S` is over."""
        self._is_refused = True
        self._unset_keepalive_if_required()
        if self._deadline is not None:
            self._deadline.cancel()
        if self.conn.our_state not in _ANSWERABLE:
            self.transport.abort()
            return
        content = problem_json(plain_problem(status, detail))
        headers = [
            (b"content-type", PROBLEM_JSON.encode()),
            (b"content-length", b"%d" % len(content)),
            (b"connection", b"close"),
            *SECURITY_HEADERS,
        ]
        reason = HTTPStatus(status).phrase.encode()
        for event in (
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self._open.waits(self, self.loop.time())
        self._deadline = self.loop.call_later(LINGER_S, self.transport.abort)
        if self.transport.can_write_eof():
            self.transport.write_eof()
