"""The offsets that a consumer commits to its group, and reads back."""

import logging
from collections.abc import Iterable, Mapping

from oncelog.client.core.membership import MemberState
from oncelog.client.core.transaction_calls import OffsetToCommit
from oncelog.client.errors import ClientError, IllegalStateError, RefusedError
from oncelog.client.network.consumer_loop import ConsumerLoop
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition

logger = logging.getLogger(__name__)


class GroupOffsets:
    def __init__(self, run: ConsumerLoop) -> None:
        self._run = run
        self._own: dict[Partition, int] = {}
        """The offsets that this consumer has committed itself, so that it does not commit them again."""

    def forget(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._own.pop(partition, None)

    async def commit(self, offsets: Mapping[Partition, OffsetToCommit]) -> None:
        """Commit these offsets. Raises TimedOutError, and RefusedError if the consumer is no member any more."""
        run, settings = self._run, self._run.settings
        self._check("commit()")
        if not offsets:
            return
        if run.membership.state in (MemberState.FENCED, MemberState.STALE):
            raise RefusedError(
                f"this consumer is no member of the group {settings.group_id!r} any more, and others may have its "
                "partitions: poll on to join again",
                ErrorCode.UNKNOWN_MEMBER_ID,
            )
        try:
            await run.brokers.retrying(
                lambda: run.commit(offsets), settings.default_api_timeout_ms, "commit()"
            )
        except KafkaError as error:
            raise RefusedError(f"commit(): {error}", error.error_code) from error
        self._own.update({one: at.offset for one, at in offsets.items()})

    async def commit_new(self, positions: Mapping[Partition, OffsetToCommit], when: str) -> None:
        """Commit the offsets that were not committed before. A failure is only logged, and `when` says in the log at
        which occasion: the records are then read again."""
        new = {one: at for one, at in positions.items() if self._own.get(one) != at.offset}
        try:
            await self.commit(new)
        except ClientError as error:
            logger.warning("offsets could not be committed %s: %s", when, error)

    async def committed(
        self, partitions: Iterable[Partition]
    ) -> dict[Partition, OffsetToCommit | None]:
        run, settings = self._run, self._run.settings
        self._check("committed()")
        wanted = tuple(partitions)

        async def attempt() -> dict[Partition, OffsetToCommit | None]:
            worst, found = await run.committed(wanted)
            if worst is not ErrorCode.NONE:
                raise KafkaError(worst, f"committed offsets of {settings.group_id!r}")
            return {partition: found.get(partition) for partition in wanted}

        try:
            return await run.brokers.retrying(
                attempt, settings.default_api_timeout_ms, "committed()"
            )
        except KafkaError as error:
            raise RefusedError(str(error), error.error_code) from error

    def _check(self, what: str) -> None:
        if self._run.settings.group_id is None:
            raise IllegalStateError(f"{what} needs a group: give group_id")
