"""The proxy's connections, and the addresses that its clients receive in place of the brokers'.

The proxy opens a listener for every broker that a response names, and clients receive that listener's address
instead. So they stay behind the proxy, however many brokers there are. The proxy speaks plain TCP.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from oncelog.protocol import versions
from oncelog.protocol.frames import FrameSplitter, framed_bytes
from oncelog.protocol.messages import Schema, schema_of
from oncelog_robustness.lying.exchange import (
    Exchange,
    Own,
    RequestFrame,
    read_response,
    request_bytes,
    response_bytes,
    with_known_versions,
)
from oncelog_robustness.lying.lie import Lie

FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
READ_BYTES: Final = 256 * 1024
_OWN_CORRELATION: Final = 0x6C696573
"""The correlation id of the proxy's own requests. Responses come in the order of requests, so it need not be unique."""
Address = tuple[str, int]


class LyingProxy:
    """The proxy, which listens while it is entered by `async with`.
    `listen` is the address that clients use; port 0 takes a free one."""

    def __init__(self, lie: Lie, to: Address, listen: Address) -> None:
        self._lie = lie
        self._to = to
        self._listen = listen
        self._servers: list[asyncio.Server] = []
        self._own: dict[Address, Address] = {}
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_lie: Callable[[str], None] = lambda sentence: None

    @property
    def address(self) -> Address:
        return self._own[self._to]

    async def __aenter__(self) -> "LyingProxy":
        """Begin to listen. Raises OSError when the address cannot be had."""
        await self._open(self._to, self._listen)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def own(self, host: str, port: int) -> Address:
        """Return the address that clients receive instead of the broker's address `host` and `port`. Listen on it from
        now on."""
        if port <= 0:
            return host, port
        broker = (host, port)
        async with self._opening:
            if broker not in self._own:
                if port == self._to[1] and await _is_same_host(host, self._to[0]):
                    self._own[broker] = self.address
                else:
                    await self._open(broker, (self._listen[0], 0))
        return self._own[broker]

    async def _open(self, broker: Address, listen: Address) -> None:
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_Connection(self, broker, reader, writer).run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(serve, *listen, family=socket.AF_INET)
        self._servers.append(server)
        self._own[broker] = (listen[0], server.sockets[0].getsockname()[1])

    # ------------------------------------------------------------------------------------------------- lying

    def request_passes(self, exchange: Exchange) -> None:
        told = len(self._lie.told)
        self._lie.asked(exchange)
        self._tell(told)

    async def answer(self, exchange: Exchange, response: Any) -> Any:
        told = len(self._lie.told)
        response = self._lie.forged_response(exchange, response)
        self._tell(told)
        return await _with_addresses(exchange.api_key, response, self.own)

    def _tell(self, told: int) -> None:
        for sentence in self._lie.told[told:]:
            self.on_lie(sentence)


async def _is_same_host(one: str, other: str) -> bool:
    if one == other:
        return True
    loop = asyncio.get_running_loop()
    try:
        found = [
            {info[4][0] for info in await loop.getaddrinfo(host, None, family=socket.AF_INET)}
            for host in (one, other)
        ]
    except OSError:
        return False
    return bool(found[0] & found[1])


async def _with_addresses(
    api_key: int, response: Any, own: Callable[[str, int], Awaitable[Address]]
) -> Any:
    async def moved(one: Any) -> Any:
        host, port = await own(one.host, one.port)
        return replace(one, host=host, port=port)

    async def each(many: Any) -> tuple[Any, ...]:
        return tuple([await moved(one) for one in many])

    if api_key == versions.API_VERSIONS:
        return with_known_versions(response)
    if api_key in (versions.METADATA, versions.DESCRIBE_CLUSTER):
        return replace(response, brokers=await each(response.brokers))
    if api_key == versions.FIND_COORDINATOR:
        if hasattr(response, "coordinators"):
            return replace(response, coordinators=await each(response.coordinators))
        return await moved(response)
    if api_key == versions.PRODUCE and getattr(response, "node_endpoints", None):
        return replace(response, node_endpoints=await each(response.node_endpoints))
    return response


class _Pending:
    """A response that is still to come from the broker, for the client or for the proxy itself."""

    def __init__(self, correlation_id: int, exchange: Exchange | None, *, is_own: bool) -> None:
        self.correlation_id = correlation_id
        self.exchange = exchange
        """The decoded exchange; None: the frame passes as it is."""
        self.is_own = is_own
        self.ready: bytes | None = None


class _Connection:
    """The connection of a client, and the proxy's own connection to the broker for it."""

    def __init__(
        self,
        proxy: LyingProxy,
        broker: Address,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._broker = broker
        self._client = reader
        self._to_client = writer
        self._pending: deque[_Pending] = deque()
        """The pending responses, in the order in which they are due."""

    async def run(self) -> None:
        """Pass frames in both directions until either side is gone."""
        try:
            broker, self._to_broker = await asyncio.open_connection(*self._broker)
        except OSError:
            self._to_client.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._over(_frames(self._client, self._request)))
                group.create_task(self._over(_frames(broker, self._response)))
        except* (OSError, _Over):
            pass
        finally:
            for writer in (self._to_client, self._to_broker):
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _over(self, passing: Awaitable[None]) -> None:
        """Await `passing`, which passes on the frames of one direction until their end. Then raise _Over, which ends
        the other direction as well."""
        await passing
        raise _Over

    async def _request(self, frame: memoryview) -> None:
        found = RequestFrame.of(frame)
        if found is None:
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
            self._pending.append(_Pending(correlation_id, None, is_own=False))
            self._to_broker.write(framed_bytes(bytes(frame)))
            await self._to_broker.drain()
            return
        api_key, version, correlation_id = found.prefix
        exchange = Exchange(api_key, version, found.request)
        self._proxy.request_passes(exchange)
        if exchange.answer is not None:
            pending = _Pending(correlation_id, exchange, is_own=False)
            schema = schema_of(api_key, version)
            pending.ready = response_bytes(schema, correlation_id, exchange.answer)
            self._pending.append(pending)
            self._flush()
            return
        for own in exchange.before:
            self._send_own(own, found.client_id)
        if exchange.has_response:
            self._pending.append(_Pending(correlation_id, exchange, is_own=False))
        self._to_broker.write(
            request_bytes(api_key, version, correlation_id, found.client_id, exchange.request)
        )
        for own in exchange.after:
            self._send_own(own, found.client_id)
        await self._to_broker.drain()

    def _send_own(self, own: Own, client_id: str | None) -> None:
        self._pending.append(_Pending(_OWN_CORRELATION, None, is_own=True))
        self._to_broker.write(
            request_bytes(own.api_key, own.version, _OWN_CORRELATION, client_id, own.request)
        )

    async def _response(self, frame: memoryview) -> None:
        pending = next(one for one in self._pending if one.ready is None)
        if pending.is_own:
            content = b""
        elif pending.exchange is None:
            content = framed_bytes(bytes(frame))
        else:
            content = await self._decoded(pending, pending.exchange, frame)
        pending.ready = content
        self._flush()
        await self._to_client.drain()

    async def _decoded(self, pending: _Pending, exchange: Exchange, frame: memoryview) -> bytes:
        schema: Schema
        schema, response = read_response(exchange.api_key, exchange.version, frame)
        changed = await self._proxy.answer(exchange, response)
        return response_bytes(schema, pending.correlation_id, changed)

    def _flush(self) -> None:
        while self._pending and self._pending[0].ready is not None:
            content = self._pending.popleft().ready
            if content:
                self._to_client.write(content)


class _Over(Exception):
    """Raised when one side has closed the connection, so that the other side is closed too."""


async def _frames(
    reader: asyncio.StreamReader, take: Callable[[memoryview], Awaitable[None]]
) -> None:
    splitter = FrameSplitter(FRAME_BYTES_MAX)
    while data := await reader.read(READ_BYTES):
        for frame in splitter.feed(data):
            await take(frame)
