"""Answers HEAD as GET would be answered, without the body (RFC 9110, 9.3.2). Plain ASGI."""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Turns HEAD into GET before anything looks at the method, and drops the body. A streamed answer is ended once its
    head is sent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        with anyio.CancelScope() as until_sent:

            async def send_head(message: Message) -> None:
                if message["type"] != "http.response.start":
                    return
                await send(message)
                await send({"type": "http.response.body"})
                if not any(name == b"content-length" for name, _ in message["headers"]):
                    until_sent.cancel()

            await self._app({**scope, "method": "GET"}, receive, send_head)
