"""The Fetch requests of one consumer. Each is sent at once in the fetch session of its node, and a callback handles its
answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from oncelog.client.core.counts import NodeTimes
from oncelog.client.core.fetch_session import Asked, FetchSession
from oncelog.client.core.fetching import FetchCore
from oncelog.client.core.partition_state import Fetch
from oncelog.client.core.spoken import BY_NAME_MAX
from oncelog.client.errors import ClientError
from oncelog.client.network.brokers import Brokers
from oncelog.client.network.connection import Connection, OnAnswer
from oncelog.client.network.consumer_messages import (
    fetch_answers,
    fetch_leaders,
    fetch_request,
    fetch_version_max,
    fetched_partitions,
)
from oncelog.errors import error_code_of
from oncelog.protocol import versions
from oncelog.protocol.messages import Schema

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

    FetchSchema = Schema[
        kafka.FetchRequestTypes, kafka.FetchRequest, kafka.FetchResponseTypes, kafka.FetchResponse
    ]

logger = logging.getLogger(__name__)

_NOTHING: Final = Fetch(-1, 0, ())


class Fetches:
    def __init__(
        self,
        core: FetchCore,
        brokers: Brokers,
        on_answer: Callable[[], None],
        on_loss: Callable[[], None],
    ) -> None:
        self.times = NodeTimes()
        self._core, self._brokers = core, brokers
        self._on_answer, self._on_loss = on_answer, on_loss
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[int, FetchSession] = {}

    def send(self, fetch: Fetch) -> None:
        connection = self._brokers.ready(fetch.node_id)
        if connection is None:
            self._core.fetch_lost(fetch, self._now_ms())
            return
        schema = connection.schema(versions.FETCH, fetch_version_max(fetch))
        session = self._session(fetch.node_id)
        asked = session.ask(fetch, has_ids=schema.version > BY_NAME_MAX[versions.FETCH])
        began = self._loop.time()

        def answered(response: kafka.FetchResponse | None, error: ClientError | None) -> None:
            self.times.add(fetch.node_id, self._loop.time() - began)
            if response is None:
                logger.debug("a fetch was not answered: %s", error)
                session.lost()
                self._core.fetch_lost(fetch, self._now_ms())
                self._on_loss()
            else:
                if response.throttle_time:
                    self._brokers.throttle(connection, response.throttle_time.total_seconds())
                self._fetched(session, asked, fetch, response)

        self._write(connection, schema, fetch, asked, answered)

    def _write(
        self,
        connection: Connection,
        schema: FetchSchema,
        fetch: Fetch,
        asked: Asked,
        answered: OnAnswer[kafka.FetchResponse],
    ) -> None:
        settings = self._core.settings
        request = fetch_request(schema.request_types, settings, fetch.max_bytes, asked)
        connection.send(schema, request, settings.request_timeout_ms / 1000, answered)

    def _fetched(
        self, session: FetchSession, asked: Asked, fetch: Fetch, response: kafka.FetchResponse
    ) -> None:
        core = self._core
        core.fetch_ended(fetch)
        error = error_code_of(response.error_code)
        told = fetched_partitions(response, fetch)
        now_ms = self._now_ms()
        if session.answered(error, response.session_id, told):
            for one in fetch_leaders(response, told):
                self._brokers.told_of_leader(*one)
            is_old = False
            for part, answer in fetch_answers(error, told, fetch, asked):
                is_old |= core.fetched(part, answer, now_ms)
            if is_old:
                self._brokers.update_soon()
            if not core.took_all(fetch):
                session.lost()
        else:
            logger.debug("node %d ended a fetch session: %s", fetch.node_id, error.name)
        self._on_answer()

    def close(self) -> None:
        """Close the sessions, so that nodes free them. It waits for no answer: that would come behind a long poll."""
        for node_id, session in self._sessions.items():
            connection = self._brokers.ready(node_id)
            asked = session.close()
            if asked is not None and connection is not None:
                self._write(
                    connection, connection.schema(versions.FETCH), _NOTHING, asked, _ignored
                )
        self._sessions.clear()

    def _session(self, node_id: int) -> FetchSession:
        found = self._sessions.get(node_id)
        if found is None:
            for gone in self._sessions.keys() - self._brokers.view.nodes.keys():
                del self._sessions[gone]
            found = self._sessions[node_id] = FetchSession()
        return found

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


def _ignored(response: object, error: ClientError | None) -> None:
    pass
