"""Keeps commits of offsets, and heartbeats of the consumer protocol, in the order of their client's connection (ADR
0018).

A listener repeats a request when its connection to the coordinator breaks before the response. The first copy may
arrive after the client has committed later offsets.

- A late commit would set the group back.
- A late heartbeat would say that its member owns only what it owned then. The coordinator would give the partitions
  that the member reads now to another one.

A client's connection sends its requests one after the other. So a request with a lower number than the newest one is
such a copy. A request with the newest number gets the same response again.

The process forgets these numbers when it ends. The connections that could bring a copy to it end too. The process does
not know the requests that another process received while it owned the shard. So a request also names the coordinator
epoch that it was sent to (`GroupShards.is_outdated`).
"""

from typing import Final, Generic, TypeVar

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.group_events import CommitAnswer, ConsumerHeartbeatAnswer
from oncelog_coordinator.core.request_origin import RequestOrigin

CONNECTIONS_MAX: Final = 10_000

LATE: Final = CommitAnswer(ErrorCode.REQUEST_TIMED_OUT)
"""The answer to a request that was overtaken by a later one. Nobody waits for this answer."""

AnswerT = TypeVar("AnswerT")


class RequestOrder(Generic[AnswerT]):
    def __init__(self, late: AnswerT) -> None:
        self._late = late
        self._newest: dict[tuple[int, int], tuple[int, AnswerT | None]] = {}
        """(listener, connection) → the number of the connection's newest request, and its answer; None: it is not
        answered yet."""

    def arrived(self, origin: RequestOrigin | None) -> AnswerT | None:
        """Return the answer for a request that must not be handled: a copy of an earlier request, or one that a later
        request overtook.

        None: the request is to be handled.
        """
        if origin is None:
            return None
        connection = (origin.listener, origin.connection)
        number, answer = self._newest.pop(connection, (0, None))
        if origin.request > number:
            number, answer = origin.request, None
        if len(self._newest) >= CONNECTIONS_MAX:
            del self._newest[next(iter(self._newest))]
        self._newest[connection] = (number, answer)
        return answer if origin.request == number else self._late

    def is_late(self, origin: RequestOrigin | None) -> bool:
        """True if a later request of the same connection has come since this one arrived."""
        if origin is None:
            return False
        return origin.request < self._newest.get((origin.listener, origin.connection), (0,))[0]

    def done(self, origin: RequestOrigin | None, answer: AnswerT) -> None:
        if origin is None:
            return
        connection = (origin.listener, origin.connection)
        if self._newest.get(connection, (0,))[0] == origin.request:
            self._newest[connection] = (origin.request, answer)


class CommitOrder(RequestOrder[CommitAnswer]):
    def __init__(self) -> None:
        super().__init__(LATE)

    def keep_answer(self, origin: RequestOrigin | None, answer: CommitAnswer) -> None:
        """Store the answer for a later copy of the same request.

        An answer that refuses any partition is not stored, because a refused commit may be tried again.
        """
        codes = (answer.error_code, *(code for _, code in answer.partitions))
        if all(code is ErrorCode.NONE for code in codes):
            self.done(origin, answer)


class HeartbeatOrder(RequestOrder[ConsumerHeartbeatAnswer]):
    def __init__(self) -> None:
        super().__init__(ConsumerHeartbeatAnswer(ErrorCode.REQUEST_TIMED_OUT))

    def keep_answer(self, origin: RequestOrigin | None, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.error_code is ErrorCode.NONE:
            self.done(origin, answer)
