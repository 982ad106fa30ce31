"""One blocking TCP connection to a broker, which sends requests and receives their answers in the same order.

Kafka answers the requests of a connection in order. So several may be under way (`send`, `send`, `receive`, `receive`)
and no table of waiting calls is needed. Everything blocks, with a deadline. A connection that failed once is closed for
good, because what stands in its stream is no longer known. Two threads must not use one connection at a time.
"""

import socket
import time
from collections import deque
from datetime import timedelta
from types import TracebackType
from typing import Final, NamedTuple, Self

from google.protobuf.message import Message

from oncelog.client.core.addresses import Address
from oncelog.client.core.login import ClientLogin
from oncelog.client.login import login_exchange, with_tls
from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.protocol.any_version import AnyMessage
from oncelog.protocol.frames import (
    LENGTH_BYTES,
    FrameError,
    framed,
    read_correlation_id,
    write_request_head,
)
from oncelog.protocol.messages import Schema
from oncelog.protocol.private_api import KEY_OF_METHOD, PRIVATE_VERSION, read_private_response
from oncelog.protocol.versions import API_VERSIONS

PrivateRequest = Message
"""A request of `oncelog.protocol.private_api`."""

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The longest answer that is read, in bytes.
A longer one is garbage: no broker sends more than it was asked for and one batch."""

CORRELATION_ID_MAX: Final = 2**31 - 1
_NEVER: Final = float("inf")
_LOGIN_AGAIN_AFTER: Final = 0.85
"""The part of a session's lifetime after which the client logs in again, as Kafka's clients do."""


class Deadline:
    """The point in time at which a blocking call, with all its retries, gives up."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._at = time.monotonic() + timeout_ms / 1000

    @property
    def left_s(self) -> float:
        return self._at - time.monotonic()

    @property
    def has_passed(self) -> bool:
        return self.left_s <= 0


class _Waiting(NamedTuple):
    correlation_id: int
    call: Schema | str
    """The reader of the answer: a schema, or the method name of a private call."""


class Connection:
    """A blocking connection to one broker, opened by `connect`."""

    def __init__(self, address: Address, stream: socket.socket, client_id: str) -> None:
        self.address = address
        self._login: ClientLogin | None = None
        self._logs_in_again_at = _NEVER
        self._stream = stream
        self._client_id = client_id
        self._next_correlation_id = 0
        self._waiting: deque[_Waiting] = deque()

    @classmethod
    def connect(
        cls,
        address: Address,
        client_id: str,
        deadline: Deadline,
        login: ClientLogin | None = None,
    ) -> Self:
        """Open a connection and log in.

        Raises KafkaError(NETWORK_EXCEPTION) if nobody accepts within the deadline. Raises OncelogError if the login is
        refused, or the other side cannot be trusted.
        """
        try:
            stream = socket.create_connection(address, timeout=max(deadline.left_s, 0.001))
        except OSError as error:
            raise _not_connected(address, error) from error
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if login is not None and login.has_tls:
            plain = stream
            try:
                stream = with_tls(plain, address.host, login)
            except OSError as error:
                plain.close()
                raise _not_connected(address, error) from error
            except OncelogError:
                plain.close()
                raise
        connection = cls(address, stream, client_id)
        if login is not None and login.has_sasl:
            connection._login = login
            connection._log_in(deadline)
        return connection

    def _log_in(self, deadline: Deadline) -> None:
        """Log in on this connection: after it opens, and again before the session ends (KIP-368)."""
        assert self._login is not None
        self._logs_in_again_at = _NEVER
        exchange, answer = login_exchange(str(self.address), self._login), None
        try:
            while True:
                answer = self.call(*exchange.send(answer), deadline)
        except StopIteration as ended:
            lifetime: timedelta | None = ended.value
        except OncelogError:
            self.close()
            raise
        if lifetime is not None:
            lasts_s = lifetime.total_seconds() * _LOGIN_AGAIN_AFTER
            self._logs_in_again_at = time.monotonic() + lasts_s

    @property
    def waiting_count(self) -> int:
        """The number of requests that are sent and not yet answered."""
        return len(self._waiting)

    def call(self, schema: Schema, request: object, deadline: Deadline) -> AnyMessage:
        """Send a request and wait for its answer.

        Raises KafkaError with NETWORK_EXCEPTION or REQUEST_TIMED_OUT; the request's effect is then unknown.
        """
        assert not self._waiting, "answers are in order: receive what was sent before"
        self.send(schema, request, deadline)
        return self.receive(deadline)

    def call_private(self, method: str, request: PrivateRequest, deadline: Deadline) -> AnyMessage:
        """Make a private call of oncelog (`oncelog.protocol.private_api`) and return its answer. Raises as `call`
        does."""
        assert not self._waiting, "answers are in order: receive what was sent before"
        self._log_in_again(deadline)
        head = self._head(KEY_OF_METHOD[method], PRIVATE_VERSION, is_flexible=True)
        self._transmit(framed([head, request.SerializeToString()]), method, deadline)
        return self.receive(deadline)

    def send(self, schema: Schema, request: object, deadline: Deadline) -> None:
        """Send a request and do not wait for the answer; `receive` returns the answers in the order of sending.

        Raises KafkaError with NETWORK_EXCEPTION or REQUEST_TIMED_OUT.
        """
        self._log_in_again(deadline)
        head = self._head(schema.api_key, schema.version, is_flexible=schema.request.__flexible__)
        self._transmit(framed([head, *schema.write_request(request)]), schema, deadline)

    def receive(self, deadline: Deadline) -> AnyMessage:
        """Wait for the answer to the oldest request that has none yet, and return it.

        Raises KafkaError with NETWORK_EXCEPTION or REQUEST_TIMED_OUT; the request's effect is then unknown.
        """
        waiting = self._waiting[0]
        frame = self._read_frame(deadline)
        self._waiting.popleft()
        try:
            correlation_id = read_correlation_id(frame)
            if correlation_id != waiting.correlation_id:
                raise FrameError(
                    f"answer {correlation_id} came where {waiting.correlation_id} was due"
                )
            return _decode(waiting.call, frame)
        except FrameError as error:
            raise self._broken(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    def close(self) -> None:
        self._waiting.clear()
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _log_in_again(self, deadline: Deadline) -> None:
        """Log in again if the session ends soon (KIP-368). This must wait until no answer is pending: answers come in
        order."""
        if not self._waiting and time.monotonic() >= self._logs_in_again_at:
            self._log_in(deadline)

    def _head(self, api_key: int, api_version: int, is_flexible: bool) -> bytes:
        self._next_correlation_id = (self._next_correlation_id + 1) & CORRELATION_ID_MAX
        return write_request_head(
            api_key, api_version, self._next_correlation_id, self._client_id, is_flexible
        )

    def _transmit(self, frame: bytes, call: Schema | str, deadline: Deadline) -> None:
        try:
            self._stream.settimeout(max(deadline.left_s, 0.001))
            self._stream.sendall(frame)
        except TimeoutError as error:
            raise self._broken(
                ErrorCode.REQUEST_TIMED_OUT, f"no progress in {deadline.timeout_ms} ms"
            ) from error
        except OSError as error:
            raise self._broken(ErrorCode.NETWORK_EXCEPTION, _reason(error)) from error
        self._waiting.append(_Waiting(self._next_correlation_id, call))

    def _read_frame(self, deadline: Deadline) -> memoryview:
        length = int.from_bytes(self._read_exactly(LENGTH_BYTES, deadline), "big", signed=True)
        if not 4 <= length <= RESPONSE_BYTES_MAX:
            raise self._broken(
                ErrorCode.NETWORK_EXCEPTION,
                f"an answer of {length} bytes is announced; is this the port of a Kafka listener?",
            )
        return self._read_exactly(length, deadline)

    def _read_exactly(self, size: int, deadline: Deadline) -> memoryview:
        buffer = bytearray(size)
        view = memoryview(buffer)
        at = 0
        while at < size:
            try:
                self._stream.settimeout(max(deadline.left_s, 0.001))
                count = self._stream.recv_into(view[at:])
            except TimeoutError as error:
                raise self._broken(
                    ErrorCode.REQUEST_TIMED_OUT, f"no answer in {deadline.timeout_ms} ms"
                ) from error
            except OSError as error:
                raise self._broken(ErrorCode.NETWORK_EXCEPTION, _reason(error)) from error
            if count == 0:
                raise self._broken(ErrorCode.NETWORK_EXCEPTION, "the broker closed the connection")
            at += count
        return view.toreadonly()

    def _broken(self, error_code: ErrorCode, reason: str) -> KafkaError:
        """Close the connection, because the state of its stream is unknown, and return the error to raise."""
        self.close()
        return KafkaError(error_code, f"{self.address}: {reason}")


def _decode(call: Schema | str, frame: memoryview) -> AnyMessage:
    if isinstance(call, str):
        return read_private_response(call, frame)
    has_tags = call.response.__flexible__ and call.api_key != API_VERSIONS
    return call.read_response(frame, LENGTH_BYTES + has_tags)


def _not_connected(address: Address, error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"cannot connect to {address}: {_reason(error)}")


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror or str(error)
