"""One connection to a broker: requests leave at once, answers come in the order of the requests.

```
connect ─▶ TLS ─▶ ApiVersions ─▶ SASL ─▶ open ─▶ closed, for good
```

`send` takes a callback, so a request costs no task and no future. It is called once with the answer, or with the error
that ended the connection. After a failure the connection is closed: what stands in its stream is not known any more.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, TypeVar, cast

from oncelog.client.core.addresses import Address
from oncelog.client.core.login import ClientLogin
from oncelog.client.core.spoken import SPOKEN, chosen_version
from oncelog.client.errors import (
    AuthenticationError,
    ClientError,
    DisconnectedError,
    TimedOutError,
    UnsupportedError,
)
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.protocol import versions
from oncelog.protocol.frames import (
    FrameError,
    FrameSplitter,
    framed,
    read_correlation_id,
    write_request_head,
)
from oncelog.protocol.messages import Schema, schema_of
from oncelog.security.sasl import OAUTHBEARER

if TYPE_CHECKING:
    from oncelog.client.login import Exchange
    from oncelog.protocol import kafka_messages as kafka

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The longest answer that is read, in bytes. A longer one is garbage: no broker sends so much."""
CORRELATION_ID_MAX: Final = 2**31 - 1
LOGIN_AGAIN_AFTER: Final = 0.85
"""The part of a session's lifetime (KIP-368) after which the connection is replaced, as in Kafka's clients."""
SOFTWARE_NAME: Final = "oncelog-client"
_CORRELATION_BYTES: Final = 4

RequestTypesT = TypeVar("RequestTypesT")
RequestT = TypeVar("RequestT")
ResponseTypesT = TypeVar("ResponseTypesT")
ResponseT = TypeVar("ResponseT")

OnAnswer: TypeAlias = Callable[[ResponseT | None, ClientError | None], None]
"""A callback that is called with the answer and None, or with None and the error."""


class Features(NamedTuple):
    """The features that the cluster has finalized, such as `transaction.version`. `epoch` -1: the broker told none."""

    epoch: int
    levels: Mapping[str, int]


class _Pending(NamedTuple):
    correlation_id: int
    schema: Schema
    expires_at: float
    on_answer: OnAnswer[Any]


class Connection(asyncio.Protocol):
    """A connection to one broker on asyncio. `connect` makes an open one."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self.served: Mapping[int, tuple[int, int]] = {}
        """API key → the versions that the broker serves."""
        self.features = Features(-1, {})
        self.is_open = False
        self.renew_at = float("inf")
        """The time, by the loop's clock, at which another connection is due, for the session of this one ends soon."""
        self.on_close: Callable[[], None] | None = None
        self._client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(ANSWER_BYTES_MAX)
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(
        cls, address: Address, client_id: str, timeout_s: float, login: ClientLogin | None = None
    ) -> Self:
        """Open a connection, ask for the broker's versions, and log in.

        Raises DisconnectedError or TimedOutError where nobody accepts. Raises AuthenticationError for a login that is
        refused, and UnsupportedError for a server that is no broker, or too old a one.
        """
        loop = asyncio.get_running_loop()
        context = None
        if login is not None and login.has_tls:
            from oncelog.client.login import tls_context  # Imported late: many do without a login.

            context = tls_context(login)
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(address, client_id), address.host, address.port, ssl=context
                )
                try:
                    await connection._introduce(login, timeout_s)
                except BaseException:
                    connection.close()
                    raise
        except TimeoutError as error:
            if isinstance(error, TimedOutError):
                raise
            raise TimedOutError(f"{address} did not answer in {timeout_s:g} s") from error
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationError(
                f"{address} shows a certificate that is not trusted: {error.verify_message}; its CA belongs into the "
                "file of ssl.ca.location"
            ) from error
        except OSError as error:
            if isinstance(error, ClientError):
                raise
            raise DisconnectedError(
                f"cannot connect to {address}: {error.strerror or error}",
                ErrorCode.NETWORK_EXCEPTION,
            ) from error
        return connection

    async def _introduce(self, login: ClientLogin | None, timeout_s: float) -> None:
        await self._ask_versions(timeout_s)
        if login is None or not login.has_sasl:
            return
        from oncelog.client.login import login_exchange  # Imported late, too.

        exchange, answer = login_exchange(str(self.address), login), None
        while True:
            try:
                # A token is fetched over the network, by a call that blocks.
                if login.mechanism == OAUTHBEARER:
                    schema, request = await asyncio.to_thread(_next_step, exchange, answer)
                else:
                    schema, request = _next_step(exchange, answer)
            except _ExchangeOver as over:
                if over.lifetime_s is not None:
                    self.renew_at = self._loop.time() + over.lifetime_s * LOGIN_AGAIN_AFTER
                return
            except ClientError:
                raise
            except OncelogError as error:
                raise AuthenticationError(str(error)) from error
            answer = await self.call(schema, request, timeout_s)

    async def _ask_versions(self, timeout_s: float) -> None:
        """Ask for the broker's API versions, in the newest version first.
        A broker that does not know it answers as version 0 (KIP-511)."""
        version = SPOKEN[versions.API_VERSIONS].high
        while True:
            schema = schema_of(versions.API_VERSIONS, version)
            request = schema.request_types.ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME,
                client_software_version=installed_version("oncelog"),
            )
            response = await self.call(schema, request, timeout_s)
            code = error_code_of(response.error_code)
            if code is ErrorCode.NONE:
                break
            if (
                code is not ErrorCode.UNSUPPORTED_VERSION
                or version == SPOKEN[versions.API_VERSIONS].low
            ):
                raise UnsupportedError(f"{self.address} answers ApiVersions with {code.name}", code)
            version -= 1
        self.served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        levels = {one.name: one.max_version_level for one in response.finalized_features}
        self.features = Features(response.finalized_features_epoch, levels)

    # ---------------------------------------------------------------------------------------------- requests

    @property
    def pending_count(self) -> int:
        """The number of requests that are sent and not yet answered."""
        return len(self._pending)

    def schema(
        self,
        api_key: kafka.ApiKey[RequestTypesT, RequestT, ResponseTypesT, ResponseT],
        at_most: int | None = None,
    ) -> Schema[RequestTypesT, RequestT, ResponseTypesT, ResponseT]:
        """Return the encoder and decoder for the newest version that both sides know, at most `at_most`. Raises
        UnsupportedError."""
        return schema_of(api_key, chosen_version(api_key, self.served, self.address, at_most))

    def send(
        self,
        schema: Schema[RequestTypesT, RequestT, ResponseTypesT, ResponseT],
        request: RequestT,
        timeout_s: float,
        on_answer: OnAnswer[ResponseT],
    ) -> None:
        """Write a request at once. `on_answer` is called once, and never before `send` returns."""
        if self._transport is None:
            error = DisconnectedError(
                f"{self.address} closed the connection", ErrorCode.NETWORK_EXCEPTION
            )
            self._loop.call_soon(on_answer, None, error)
            return
        expires_at = self._loop.time() + timeout_s
        self._write(schema, request)
        self._pending.append(_Pending(self._correlation_id, schema, expires_at, on_answer))
        if self._timer is None or expires_at < self._timer.when():
            self._set_timer()

    def send_one_way(
        self,
        schema: Schema[RequestTypesT, RequestT, ResponseTypesT, ResponseT],
        request: RequestT,
    ) -> bool:
        """Write a request that gets no answer (acks=0). False: the connection is closed."""
        if self._transport is None:
            return False
        self._write(schema, request)
        return True

    async def call(
        self,
        schema: Schema[RequestTypesT, RequestT, ResponseTypesT, ResponseT],
        request: RequestT,
        timeout_s: float,
    ) -> ResponseT:
        """Send a request and wait for its answer. Raises DisconnectedError or TimedOutError;
        the effect is then unknown."""
        future: asyncio.Future[ResponseT] = self._loop.create_future()

        def answered(response: ResponseT | None, error: ClientError | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            elif response is not None:
                future.set_result(response)

        self.send(schema, request, timeout_s, answered)
        return await future

    def _write(
        self,
        schema: Schema[RequestTypesT, RequestT, ResponseTypesT, ResponseT],
        request: RequestT,
    ) -> None:
        assert self._transport is not None
        self._correlation_id = (self._correlation_id + 1) & CORRELATION_ID_MAX
        is_flexible = schema.request.__flexible__
        head = write_request_head(
            schema.api_key, schema.version, self._correlation_id, self._client_id, is_flexible
        )
        self._transport.write(framed([head, *schema.write_request(request)]))

    def close(self, error: ClientError | None = None) -> None:
        """Close the connection. Pending requests end with `error`."""
        if self._transport is None:
            return
        self._transport.abort() if error is not None else self._transport.close()
        self._ended(error or DisconnectedError(f"the connection to {self.address} was closed"))

    # ---------------------------------------------------------------------------------------------- asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._take(frame)
        except FrameError as error:
            reason = f"{self.address}: {error}; is this the port of a Kafka listener?"
            self.close(DisconnectedError(reason, ErrorCode.NETWORK_EXCEPTION))

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f"{self.address} closed the connection{f': {exc}' if exc else ''}"
        self._ended(DisconnectedError(reason, ErrorCode.NETWORK_EXCEPTION))

    def _take(self, frame: memoryview) -> None:
        if not self._pending:
            raise FrameError("an answer came that nobody waits for")
        pending = self._pending[0]
        schema = pending.schema
        correlation_id = read_correlation_id(frame)
        if correlation_id != pending.correlation_id:
            raise FrameError(f"answer {correlation_id} came where {pending.correlation_id} was due")
        if schema.api_key == versions.API_VERSIONS:
            response = _read_api_versions(schema, frame)
        else:
            response = schema.read_response(
                frame, _CORRELATION_BYTES + schema.response.__flexible__
            )
        self._pending.popleft()
        if not self._pending and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending.on_answer(response, None)

    def _ended(self, error: ClientError) -> None:
        self._transport, self.is_open = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending = self._pending, deque()
        for one in pending:
            one.on_answer(None, error)
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        first = min(one.expires_at for one in self._pending)
        self._timer = self._loop.call_at(first, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        if any(one.expires_at <= now for one in self._pending):
            reason = (
                f"{self.address} did not answer {self._pending[0].schema.request.__name__} in time"
            )
            self.close(TimedOutError(reason, ErrorCode.REQUEST_TIMED_OUT))
        elif self._pending:
            self._set_timer()


class _ExchangeOver(Exception):
    def __init__(self, lifetime_s: float | None) -> None:
        super().__init__()
        self.lifetime_s = lifetime_s


def _next_step(exchange: Exchange, answer: object) -> tuple[Schema, object]:
    """Return the next request of a login with its schema (decoder and encoder), after this answer to the last one.
    Raises _ExchangeOver at its end: StopIteration cannot leave a thread's future."""
    try:
        schema, request = exchange.send(answer)
    except StopIteration as ended:
        lifetime = ended.value
        raise _ExchangeOver(None if lifetime is None else lifetime.total_seconds()) from None
    return schema, request


def _read_api_versions(schema: Schema, frame: memoryview) -> kafka.ApiVersionsResponse:
    """Decode the answer to ApiVersions. A broker that does not know our version answers in version 0, which shows only
    in the error code."""
    code = int.from_bytes(frame[_CORRELATION_BYTES : _CORRELATION_BYTES + 2], "big", signed=True)
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return schema_of(versions.API_VERSIONS, 0).read_response(frame, _CORRELATION_BYTES)
    response: kafka.ApiVersionsResponse = schema.read_response(frame, _CORRELATION_BYTES)
    return response
