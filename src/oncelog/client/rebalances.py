"""A consumer's work between two records: it tells the program of gained and lost partitions, and commits offsets."""

from collections.abc import Awaitable, Callable

from oncelog.client.core.hand import Hand
from oncelog.client.core.membership import Change
from oncelog.client.core.transaction_calls import OffsetToCommit
from oncelog.client.group_offsets import GroupOffsets
from oncelog.client.network.consumer_loop import ConsumerLoop
from oncelog.ids import Partition

Told = Callable[[frozenset[Partition]], Awaitable[None]]
"""A program's callback for a rebalance, with the partitions that changed. It may seek and commit."""


class Rebalances:
    def __init__(self, run: ConsumerLoop, hand: Hand, group: GroupOffsets) -> None:
        self._run, self._hand, self._group = run, hand, group
        self.on_assigned: Told | None = None
        self.on_revoked: Told | None = None
        self.on_lost: Told | None = None

    def positions(self) -> dict[Partition, OffsetToCommit]:
        """Return the offset of the next record for the program, for each partition where it is known."""
        found: dict[Partition, OffsetToCommit] = {}
        core = self._run.core
        for partition in core.partitions:
            state = core.state(partition)
            if state is not None and (offset := self._hand.position(state)) >= 0:
                found[partition] = OffsetToCommit(offset, state.position_epoch)
        return found

    async def attend(self) -> None:
        """Do what is due between two records: call the program's callbacks for gained and lost partitions, and commit
        offsets.

        Raises errors that end the consumer, and those of the callbacks.
        """
        run = self._run
        run.needs_attention = False
        if run.brokers.fatal is not None:
            raise run.brokers.fatal
        while (change := run.membership.change(run.names)) is not None:
            await self._tell(change)
        run.membership.polled()
        if run.membership.error is not None:
            raise run.membership.error
        if run.auto_commits and run.now_ms() >= run.commit_due_ms:
            run.commit_due_ms = run.now_ms() + run.settings.auto_commit_interval_ms
            run.spawn(self._group.commit_new(self.positions(), "in the background"))
        run.wake()

    async def _tell(self, change: Change) -> None:
        """Call the program's callbacks for a change of its partitions. The change holds even if a callback raises: the
        partitions are gone all the same."""
        run, hand, core = self._run, self._hand, self._run.core
        names = dict(run.names)
        gone = change.lost | change.revoked
        if hand.last is not None and hand.last.topic_partition in gone:
            hand.put_back(core)
        kept = [one for one in core.partitions if one not in gone]
        wanted = [*kept, *sorted(change.assigned)]
        try:
            if change.lost:
                core.assign(kept)
                await _call(self.on_lost or self.on_revoked, change.lost)
            if change.revoked:
                if run.auto_commits:
                    await self._group.commit_new(self.positions(), "before a rebalance")
                await _call(self.on_revoked, change.revoked)
            core.assign(wanted, is_held=True)
            run.brokers.need({one.topic for one in change.assigned})
            await _call(self.on_assigned, change.assigned)
        finally:
            core.assign(wanted, is_held=True)
            core.release()
            self._group.forget(gone)
            run.membership.told(change, names)
            run.take_turn()

    async def leave(self, *, commits: bool) -> None:
        """Commit offsets, call `on_revoked`, and leave the group."""
        run = self._run
        try:
            if commits and run.auto_commits and run.brokers.fatal is None:
                await self._group.commit_new(self.positions(), "before leaving")
            await _call(self.on_revoked, run.membership.owned)
        finally:
            run.membership.owned = frozenset()
            await run.leave()


async def _call(told: Told | None, partitions: frozenset[Partition]) -> None:
    if told is not None and partitions:
        await told(partitions)
