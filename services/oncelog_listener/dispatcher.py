"""The dispatcher: it decodes a request frame, calls the API's handler, and encodes the response frame. It knows no
sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from oncelog.protocol.frames import (
    Frame,
    RequestPrefix,
    framed_response,
    read_client_id,
)
from oncelog.protocol.messages import schema_of
from oncelog.protocol.private_api import PRIVATE_CALLS, PRIVATE_VERSION, PrivateCall
from oncelog.protocol.small_produce import SmallProduce
from oncelog.protocol.versions import API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.telemetry import spans
from oncelog_listener.call import AnyCall, Call, CloseConnection, Session
from oncelog_listener.cluster import Cluster
from oncelog_listener.handlers.api_versions import unsupported_api_versions
from oncelog_listener.handlers.private import private_call
from oncelog_listener.pieces import PIECE_ELEMENTS, answered_in_pieces, levels_of
from oncelog_listener.produced_together import merged, split, that_go_together
from oncelog_listener.routes import ROUTES, Route
from oncelog_listener.traces import answered, request_span
from oncelog_listener.turns import TURN_ELEMENTS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from oncelog.protocol import kafka_messages as kafka

_FALLBACK_VERSION: Final = 0
_BEFORE_LOGIN: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
_PREFIX_BYTES: Final = 8
_LARGE_BYTES: Final = 8_192
"""The bytes below which a frame is checked in one step, which takes a few milliseconds at most."""
_STEPS_IN_A_TURN: Final = 400
"""The number of elements that are checked or read in one turn, which takes about half a millisecond."""

_Found = TypeVar("_Found")


class Dispatch(NamedTuple):
    """A decoded request whose answer is ready, or can be awaited. `may_be_cut`: the request only reads, so it is
    cancelled when its client leaves."""

    answer: Awaitable[bytes | None] | bytes
    """The response's frame, or what to await for it; None when the client expects none."""
    may_be_cut: bool


class _Private(NamedTuple):
    """The fields that quotas need of a private call (one of Spark's, which Kafka does not have)."""

    api_key: int
    client_id: str | None
    session: Session


class Dispatcher:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._throttling = cluster.throttling

    def glance(self, frame: Frame, session: Session) -> bytes | None:
        """Answer a small request at once, and return the response's frame. None: nothing was done, and the caller uses
        `dispatch`. Only APIs with a function `Route.at_a_glance` are answered, and only if every role is in this
        process."""
        if not _PREFIX_BYTES <= len(frame) < _LARGE_BYTES or not self._cluster.is_alone:
            return None
        route = ROUTES.get(frame[0] << 8 | frame[1])
        sasl = session.sasl
        if (
            route is None
            or route.at_a_glance is None
            or (sasl is not None and (sasl.is_raw or not sasl.is_open))
            or self._throttling.is_on
        ):
            return None
        answer = route.at_a_glance(self._cluster, session, frame)
        session.request_count += answer is not None
        return answer

    def together(self, frames: Iterable[Frame], session: Session) -> Sequence[SmallProduce]:
        """Return the first of these frames, decoded, if they are Produce requests to be handled as one; empty: each is
        dispatched alone.

        They are handled alone where they are traced, because each has a span, and where every role is in this process.
        """
        sasl = session.sasl
        is_each_for_itself = (
            self._cluster.is_alone
            or spans.recorder is not None
            or (sasl is not None and (sasl.is_raw or not sasl.is_open))
        )
        asked = [] if is_each_for_itself else that_go_together(frames)
        return asked if len(asked) > 1 else ()

    def dispatch_together(self, asked: Sequence[SmallProduce], session: Session) -> Dispatch:
        session.request_count += len(asked)
        return Dispatch(self._answer_together(asked, session), may_be_cut=False)

    async def _answer_together(self, asked: Sequence[SmallProduce], session: Session) -> bytes:
        first = asked[0]
        schema = schema_of(PRODUCE, first.version)
        request = merged(schema, asked)
        call: AnyCall = Call(
            PRODUCE, first.version, first.client_id, request, schema, session, self._cluster
        )
        work = ROUTES[PRODUCE].handle(call)
        if self._throttling.is_on:
            work = self._throttling.held(call, sum(len(one.records) for one in asked), work)
        return split(schema, asked, cast("kafka.ProduceResponse", await work))

    def dispatch(self, prefix: RequestPrefix, frame: Frame, session: Session) -> Dispatch:
        """Decode the request in the frame, and return its answer, to be awaited.

        Raises CloseConnection for an API or version that is not served, and FrameError for bytes that are no such
        request. Awaiting raises both, too: CloseConnection for a request that can only be refused by closing.
        """
        api_key, version, _ = prefix
        session.request_count += 1
        sasl = session.sasl
        if sasl is not None and not sasl.is_open and api_key not in _BEFORE_LOGIN:
            ended = "its session has ended, and it did not log in again in time"
            raise CloseConnection(ended if sasl.is_expired else "the client has not logged in")
        route = ROUTES.get(api_key)
        if route is None:
            private = PRIVATE_CALLS.get(api_key)
            if private is None or version != PRIVATE_VERSION:
                raise CloseConnection("the API is not served")
            return Dispatch(self._answer_private(private, prefix, frame, session), may_be_cut=False)
        if not route.api.serves(version):
            if api_key == API_VERSIONS:
                return Dispatch(self._answer_unsupported(prefix), may_be_cut=True)
            raise CloseConnection(
                f"{route.api.name} is served from version {route.api.served_min} "
                f"to {route.api.max_version}"
            )
        if len(frame) >= _LARGE_BYTES:
            return Dispatch(self._read(route, prefix, frame, session, None), route.may_be_cut)
        client_id, position = read_client_id(frame, route.api.is_flexible(version))
        schema = schema_of(api_key, version)
        elements = schema.check_request(frame, position)
        if elements > TURN_ELEMENTS:
            return Dispatch(self._read(route, prefix, frame, session, elements), route.may_be_cut)
        request = schema.read_checked(frame, position)
        call: AnyCall = Call(api_key, version, client_id, request, schema, session, self._cluster)
        if route.at_once is not None and not self._throttling.is_on:
            response = route.at_once(call)
            if response is not None:
                return Dispatch(self._framed(route, prefix, call, response), route.may_be_cut)
        answer = self._answer(route, prefix, call, len(frame), elements)
        return Dispatch(answer, route.may_be_cut)

    async def _read(
        self,
        route: Route,
        prefix: RequestPrefix,
        frame: Frame,
        session: Session,
        elements: int | None,
    ) -> bytes | None:
        """Decode and answer a large request. It is decoded in short turns, so other tasks run between them. `elements`
        None: they are not counted yet."""
        api_key, version, _ = prefix
        client_id, position = read_client_id(frame, route.api.is_flexible(version))
        schema = schema_of(api_key, version)
        if elements is None:
            elements = await self._in_turns(schema.check_request.in_steps(frame, position))
        is_large = elements > TURN_ELEMENTS
        if is_large:
            await self._cluster.turns.next()
        if elements <= _STEPS_IN_A_TURN:
            request = schema.read_checked(frame, position)
        else:
            request = await self._in_turns(schema.reading_checked(frame, position))
        if is_large:
            await self._cluster.turns.next()
        call: AnyCall = Call(api_key, version, client_id, request, schema, session, self._cluster)
        return await self._answer(route, prefix, call, len(frame), elements)

    async def _answer(
        self, route: Route, prefix: RequestPrefix, call: AnyCall, frame_bytes: int, elements: int
    ) -> bytes | None:
        with request_span(call) as span:
            is_cut = elements > PIECE_ELEMENTS
            levels = levels_of(call.api_key, call.version) if is_cut else ()
            work = answered_in_pieces(call, levels, route.handle) if levels else route.handle(call)
            if self._throttling.is_on:
                work = self._throttling.held(call, frame_bytes, work)
            response = await work
            answered(call, span, response)
        if response is None:
            return None
        if call.is_large:
            parts = await _written(call, response)
            has_tags = route.api.response_has_tags(call.version)
            return framed_response(prefix.correlation_id, has_tags, parts)
        return self._framed(route, prefix, call, response)

    def _framed(
        self, route: Route, prefix: RequestPrefix, call: AnyCall, response: object
    ) -> bytes:
        parts = call.schema.write_response(response)
        has_tags = route.api.response_has_tags(call.version)
        return framed_response(prefix.correlation_id, has_tags, parts)

    async def _in_turns(self, steps: Generator[None, None, _Found]) -> _Found:
        """Run a generator of many small steps in short turns, so other tasks run between them. Return its result."""
        try:
            while True:
                for _ in range(_STEPS_IN_A_TURN):
                    next(steps)
                await self._cluster.turns.next()
        except StopIteration as end:
            found: _Found = end.value
            return found

    async def _answer_private(
        self, call: PrivateCall, prefix: RequestPrefix, frame: Frame, session: Session
    ) -> bytes:
        client_id, position = read_client_id(frame, is_flexible=True)
        work = private_call(self._cluster, call, frame, position, session, client_id)
        request = _Private(prefix.api_key, client_id, session)
        is_held = self._throttling.is_on
        body = await (self._throttling.held(request, len(frame), work) if is_held else work)
        return framed_response(prefix.correlation_id, True, [body])

    async def _answer_unsupported(self, prefix: RequestPrefix) -> bytes:
        schema = schema_of(API_VERSIONS, _FALLBACK_VERSION)
        response = unsupported_api_versions(schema.response_types)
        return framed_response(prefix.correlation_id, False, schema.write_response(response))


async def _written(call: AnyCall, response: DataclassInstance) -> list[bytes]:
    """Return the encoded pieces of a large response, made in turns. The pieces of a turn are joined: half a million of
    them take long to join."""
    joined: list[bytes] = []
    parts: list[bytes] = []
    for _ in call.schema.writing_response(parts, response):
        if call.is_turn_over():
            joined.append(b"".join(parts))
            parts.clear()
            await call.next_turn()
    return joined + parts
