"""Keeps commits of offsets in the order of their client's connection (ADR 0018).

A listener repeats what a broken connection to a coordinator did not answer, and the first copy may arrive when the
client has committed later offsets: taken in, it would set the group back. A connection's requests come one after the
other, so an older one than the newest seen here is such a copy, and one with the newest's number that was answered is
answered alike. What is remembered is lost with the process, and so is whoever could still deliver a copy to it. What
was committed elsewhere, while another process had the shard, is not remembered here; so a commit also says to which
coordinator of the shard it was sent (`GroupShards.is_outdated`).
"""

from typing import Final

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.group_events import CommitAnswer
from oncelog_coordinator.core.stamp import Stamp

CONNECTIONS_MAX: Final = 10_000

LATE: Final = CommitAnswer(ErrorCode.REQUEST_TIMED_OUT)
"""Nobody waits for it."""


class CommitOrder:
    def __init__(self) -> None:
        self._newest: dict[tuple[int, int], tuple[int, CommitAnswer | None]] = {}
        """Listener and connection → request, and its answer once it is committed."""

    def arrived(self, stamp: Stamp | None) -> CommitAnswer | None:
        """What to answer without committing anything; None: go on."""
        if stamp is None:
            return None
        connection = (stamp.listener, stamp.connection)
        number, answer = self._newest.pop(connection, (0, None))
        if stamp.request > number:
            number, answer = stamp.request, None
        if len(self._newest) >= CONNECTIONS_MAX:
            del self._newest[next(iter(self._newest))]
        self._newest[connection] = (number, answer)
        return answer if stamp.request == number else LATE

    def is_late(self, stamp: Stamp | None) -> bool:
        """A later one has come since it arrived."""
        if stamp is None:
            return False
        return stamp.request < self._newest.get((stamp.listener, stamp.connection), (0,))[0]

    def answered(self, stamp: Stamp | None, answer: CommitAnswer) -> None:
        """What was refused, whole or in part, may be asked again."""
        codes = (answer.error_code, *(code for _, code in answer.partitions))
        if stamp is None or any(code is not ErrorCode.NONE for code in codes):
            return
        connection = (stamp.listener, stamp.connection)
        if self._newest.get(connection, (0,))[0] == stamp.request:
            self._newest[connection] = (stamp.request, answer)
