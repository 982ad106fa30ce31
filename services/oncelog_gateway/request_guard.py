"""Checks the Host and the Origin of every request before a route sees it, and adds security headers to every answer.
Plain ASGI. The limit on a body's size is applied where the body is read (`strict_http.py`).

Starlette's TrustedHostMiddleware is not used: it answers 400 "Invalid host header" without the name or the way out, and
it cuts an IPv6 address at its first colon.
"""

import time
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncelog.process.host_header import AllowedHosts
from oncelog_gateway.metrics import Metrics
from oncelog_gateway.problems import Problem, plain_problem, respond
from oncelog_gateway.security_headers import with_security_headers
from oncelog_gateway.settings import GatewaySettings

READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
HEALTH_PATH: Final = "/health"
_SHOWN_HOST_LENGTH_MAX: Final = 100


class RequestGuard:
    """Counts every request by its route. Refuses requests with a foreign Host or Origin, and those beyond the number
    that the gateway answers at the same time. It buffers nothing.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: GatewaySettings) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = AllowedHosts(settings.host, settings.allowed_hosts)
        self._requests_max = settings.connections_max * 3 // 4
        self._request_count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": with_security_headers(message["headers"])}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._work(scope, receive, counted)
            else:
                await respond(refusal)(scope, receive, counted)
        finally:
            route = getattr(scope.get("route"), "path", "(none)")
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            self._metrics.count_request(method, route, status, time.monotonic() - started)

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503 if too many are being answered already. So connections remain for
        `/health`, which is always answered.
        """
        if scope["path"] == HEALTH_PATH:
            await self._app(scope, receive, send)
            return
        if self._request_count >= self._requests_max:
            busy = (
                f"{self._request_count} requests are being worked on, which is the limit; try again"
            )
            await respond(plain_problem(503, busy))(scope, receive, send)
            return
        self._request_count += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._request_count -= 1

    def _refusal(self, scope: Scope) -> Problem | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
        if not self._hosts.allows(host):
            shown = host[:_SHOWN_HOST_LENGTH_MAX]
            return plain_problem(
                421,
                f"the Host header {shown!r} is not a name of this gateway, and another site's page could have sent it; "
                "use localhost or the bound address, or add the name to ONCELOG_GATEWAY_ALLOWED_HOSTS",
            )
        if _is_from_another_site(scope, hosts[0]):
            return plain_problem(
                403,
                "a page of another site may not change anything here; use this gateway's own address",
            )
        return None


def _is_from_another_site(scope: Scope, host: bytes) -> bool:
    """True if a browser sends this request, which may change something, for a page of another site. Where nobody has to
    log in, only the browser's headers tell.
    """
    if scope["method"] in READING_METHODS:
        return False
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    return any(origin.partition(b"://")[2] != host for origin in origins)
