"""asyncio's transports and servers over the simulated network, and a `socket` module for code
that binds its own port.

`SimLoop` hands its `create_server` and `create_connection` to `SimTcp`, so `asyncio.open_connection`,
`asyncio.start_server` and every client that builds on them work as they are.
"""

import asyncio
import errno
import importlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.dialing import dial
from oncelog_robustness.simulator.links import End, checksum
from oncelog_robustness.simulator.listening import Listener
from oncelog_robustness.simulator.network import ANY, LOOPBACK, SimNetwork

_HIGH_WATER_BYTES: Final = 65_536
_MERGED_BYTES_MAX: Final = 65_536
_USERS_OF_SOCKET: Final = ("oncelog_listener.role", "oncelog.rpc.node_settings")
"""The modules that call `socket` themselves."""

Address = tuple[str, int]


def install_tcp(network: SimNetwork) -> None:
    """Replace the module `socket` where production code uses it. The caller must also set
    `World.loop.network`."""
    stand_in = SimSocketModule(network)
    for name in _USERS_OF_SOCKET:
        seams.replace(importlib.import_module(name), "socket", stand_in)


# ---------------------------------------------------------------------------------------------------- transport

_FRAME_HEAD: Final = bytes(9)


class SimTransport(asyncio.Transport):
    """One end of a connection, as asyncio shows it to a protocol."""

    def __init__(self, network: SimNetwork, end: End, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._network = network
        self._loop = network.loop
        self._end = end
        self._protocol: Any = protocol
        self._buffer: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._high, self._low = _HIGH_WATER_BYTES, _HIGH_WATER_BYTES // 4
        self._is_writing_paused = False
        self._is_closing = False
        self._is_eof_requested = False
        self._is_lost = False
        self._is_reading = True

    def start(self) -> None:
        """Inform the protocol of its connection, then read."""
        self._protocol.connection_made(self)
        self._end.receiver = self
        if not self._end.is_open:
            # The connection broke before the process took it up.
            reset = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            self._loop.call_soon(self._lose, reset)
        elif self._is_reading and not self._is_closing:
            self._end.start_reading()

    # -------------------------------------------------------------------------------------------- what arrives

    def received(self, item: object) -> None:
        # A client that opens a gRPC port over plain TCP receives the head of a frame of HTTP/2.
        data = item if isinstance(item, bytes) else _FRAME_HEAD
        try:
            self._protocol.data_received(data)
        except Exception as error:  # A protocol's bug ends its connection, as in asyncio itself.
            self._loop.call_exception_handler(
                {
                    "message": "data_received() failed",
                    "exception": error,
                    "protocol": self._protocol,
                }
            )
            self.abort()

    def finished(self) -> None:
        keeps_open = self._protocol.eof_received()
        if not keeps_open:
            self.close()

    def broken(self, error: OSError) -> None:
        self._lose(error)

    def has_room(self) -> None:
        self._flush()

    # ------------------------------------------------------------------------------------------------- writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_eof_requested:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._is_closing:
            return
        self._buffer.append(bytes(data))
        self._buffered_bytes += len(data)
        self._flush()
        if self._buffered_bytes > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def _flush(self) -> None:
        """Send as many buffered bytes as the kernel accepts."""
        end, room_bytes = self._end, self._network.profile.kernel_buffer_bytes
        while self._buffer:
            free_bytes = room_bytes - end.unread_bytes
            if free_bytes <= 0:
                end.notify_of_room(room_bytes // 2)
                break
            data = self._buffer.popleft()
            if len(data) > free_bytes:
                self._buffer.appendleft(data[free_bytes:])
                data = data[:free_bytes]
            self._buffered_bytes -= len(data)
            self._send(data)
        if self._is_writing_paused and self._buffered_bytes <= self._low:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if self._buffer:
            return
        if self._is_closing:
            self._lose(None)
        elif self._is_eof_requested:
            end.finish()

    def _send(self, data: bytes) -> None:
        profile = self._network.profile
        if profile.split_probability or profile.merge_probability:
            dice = self._network.segmenting
            if dice.random() < profile.merge_probability:
                before = self._end.outbound.take_back(_MERGED_BYTES_MAX - len(data))
                data = data if before is None else before + data
            if len(data) > 1 and dice.random() < profile.split_probability:
                at = dice.randrange(1, len(data))
                self._end.send(data[:at], at, checksum(data[:at]))
                data = data[at:]
        self._end.send(data, len(data), checksum(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_closing or self._is_eof_requested:
            return
        self._is_eof_requested = True
        if not self._buffer:
            self._end.finish()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._buffered_bytes

    # ------------------------------------------------------------------------------------------------- reading

    def pause_reading(self) -> None:
        self._is_reading = False
        self._end.stop_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        if not self._is_closing:
            self._end.start_reading()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    # ------------------------------------------------------------------------------------------------- the end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._end.stop_reading()
        if not self._buffer:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self._is_closing = True
        self._drop_buffer()
        self._end.abort()
        self._loop.call_soon(self._lose, None)

    def _lose(self, error: OSError | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._drop_buffer()
        self._end.close()
        self._protocol.connection_lost(error)

    def _drop_buffer(self) -> None:
        self._buffer.clear()
        self._buffered_bytes = 0

    # --------------------------------------------------------------------------------------------------- facts

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "peername":
                return self._end.peer.address
            case "sockname":
                return self._end.address
            case "socket":
                return SimSocket(self._network, self._end.address, self._end.peer.address)
            case _:
                return default

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol


# ------------------------------------------------------------------------------------------- servers and clients


class SimServer(asyncio.AbstractServer):
    """The server that the loop's `create_server` returns: it accepts simulated connections and makes a
    protocol for each."""

    def __init__(
        self,
        network: SimNetwork,
        listeners: list[Listener],
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self._network = network
        self._listeners = listeners
        self._factory = factory
        self._forever: asyncio.Future[None] | None = None

    @property
    def sockets(self) -> tuple["SimSocket", ...]:
        return tuple(SimSocket(self._network, listener.address) for listener in self._listeners)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return any(listener.is_listening for listener in self._listeners)

    async def start_serving(self) -> None:
        for listener in self._listeners:
            listener.listen(self._accepted)

    async def serve_forever(self) -> None:
        await self.start_serving()
        self._forever = self._network.loop.create_future()
        try:
            await self._forever
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners = []
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)

    def _accepted(self, end: End) -> None:
        SimTransport(self._network, end, self._factory()).start()


class SimTcp:
    """Makes servers and connections on the simulated network and resolves names, as asyncio's loop asks for
    them."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: "SimSocket | None" = None,
        start_serving: bool = True,
        **_: Any,
    ) -> SimServer:
        if sock is not None:
            listener = sock.detach_listener()
        else:
            found = await self.getaddrinfo(host, port, flags=socket.AI_PASSIVE)
            try:
                listener = self._network.listener(*found[0][4])
            except OSError as error:
                text = f"error while attempting to bind on address {found[0][4]}: {error.strerror}"
                raise OSError(error.errno, text) from None
        server = SimServer(self._network, [listener], protocol_factory)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        **_: Any,
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        if ssl:
            raise NotImplementedError("the simulated network carries plain text")
        found = await self.getaddrinfo(host, port)
        address, number = found[0][4]
        try:
            end = await dial(self._network, address, number)
        except OSError as error:
            # asyncio names the address, and production code shows it to people.
            text = f"Connect call failed {(address, number)}"
            raise OSError(error.errno, text) from None
        protocol = protocol_factory()
        transport = SimTransport(self._network, end, protocol)
        transport.start()
        return transport, protocol

    async def getaddrinfo(
        self,
        host: str | None,
        port: int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if not host or host in ANY:
            found = "0.0.0.0" if flags & socket.AI_PASSIVE else LOOPBACK
        elif host.startswith("127."):
            found = host
        elif host == "localhost":
            found = LOOPBACK
        else:
            known = self._network.host_at(host)
            if known is None and host.count(".") != 3:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            found = host if known is None else self._network.address_of(known)
        if family == socket.AF_INET6:
            raise socket.gaierror(
                socket.EAI_ADDRFAMILY, "Address family for hostname not supported"
            )
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (found, port or 0))]


# ------------------------------------------------------------------------------------------------------ sockets


class SimSocket:
    """A stand-in for a socket: one that is bound before asyncio takes it over, or one that tells the
    addresses of a connection."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(
        self,
        network: SimNetwork,
        address: Address = ("0.0.0.0", 0),
        peer: Address | None = None,
    ) -> None:
        self._network = network
        self._address = address
        self._peer = peer
        self._listener: Listener | None = None

    def bind(self, address: Address) -> None:
        self._listener = self._network.listener(*address)
        self._address = self._listener.address

    def detach_listener(self) -> Listener:
        if self._listener is None:
            raise OSError(errno.EINVAL, "Invalid argument")
        return self._listener

    def getsockname(self) -> Address:
        return self._address

    def getpeername(self) -> Address:
        if self._peer is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._peer

    def setsockopt(self, *_: object) -> None:
        return

    def setblocking(self, flag: bool) -> None:
        assert not flag, "a simulated socket never blocks"

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()


class SimSocketModule:
    """A replacement of the module `socket`: sockets and names are simulated, constants and errors are the real ones."""

    def __init__(self, network: SimNetwork) -> None:
        self._network = network

    def __getattr__(self, name: str) -> Any:
        found = getattr(socket, name)
        is_error = isinstance(found, type) and issubclass(found, Exception)
        if callable(found) and not is_error:
            raise AssertionError(f"socket.{name} under simulation")
        return found

    def socket(self, *_: object) -> SimSocket:
        return SimSocket(self._network)

    def gethostname(self) -> str:
        return self._network.host_here()
