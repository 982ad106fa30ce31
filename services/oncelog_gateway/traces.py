"""Plain ASGI middleware that makes an OpenTelemetry span for each request that changes something, and for each that
comes with a `traceparent` (ADR 0028).

A request that ends a transaction is in that transaction's trace; its caller, if it has one, is linked.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncelog.telemetry import spans
from oncelog.trace import read_traceparent

_READING_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SERVER_ERROR: Final = 500


class TracedRequests:
    """Creates spans for requests. It runs behind the access guard, so a request that the guard refuses has no span."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = None
        if spans.recorder is not None and scope["type"] == "http":
            caller = read_traceparent(_header(scope, b"traceparent"))
        is_reading = scope.get("method") in _READING_METHODS
        if spans.recorder is None or scope["type"] != "http" or (is_reading and caller is None):
            await self._app(scope, receive, send)
            return
        attributes: dict[str, spans.Value] = {
            "http.request.method": scope["method"],
            "url.path": scope["path"],
        }
        client = scope.get("client")
        if client:
            attributes["client.address"] = f"{client[0]}:{client[1]}"
        with spans.outermost(
            f"REST {scope['method']}",
            spans.Kind.SERVER,
            caller=caller,
            is_caller_ours=False,
            attributes=attributes,
        ) as span:

            async def traced_send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status: int = message["status"]
                    span.set(**{"http.response.status_code": status})
                    if status >= _SERVER_ERROR and isinstance(span, spans.Span):
                        span.error = f"status {status}"
                await send(message)

            await self._app(scope, receive, traced_send)
            route = getattr(scope.get("route"), "path", "")
            if route and isinstance(span, spans.Span):
                span.name = f"REST {scope['method']} {route}"
                span.set(**{"http.route": route})


def _header(scope: Scope, name: bytes) -> str:
    found = [value for known, value in scope["headers"] if known == name]
    return str(found[0].decode("latin-1")) if len(found) == 1 else ""
