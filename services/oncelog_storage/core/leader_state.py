"""A leader's view of its followers, from which it derives the high watermark and the in-sync replicas.

```
follower's fetch offset ──▶ its log end ──▶ HW = the smallest log end of the maximal ISR
                                        ├─▶ it has reached the HW in this leader epoch: propose it for the ISR
                                        └─▶ it has not caught up for replica_lag_time_max_ms: propose the ISR without it
```

The *maximal* ISR is the committed one and the replicas that are proposed to join. The controller may have taken a
proposal whose answer is still under way. Then it may choose a new leader among all of them. A proposal to shrink
changes nothing until it is committed. Times are seconds of a monotonic clock.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

UNKNOWN_END: Final = -1
"""The log end of a follower that has not fetched in this leader epoch."""


class Liveness:
    """The time when a follower last fetched, in monotonic seconds.

    One object mostly serves all partitions of a fetch session.
    """

    __slots__ = ("is_waiting", "last_seen")

    def __init__(self, last_seen: float) -> None:
        self.last_seen = last_seen
        self.is_waiting = False
        """True while a request of the follower waits at this node for news.

        Then it is alive, however old its request is.
        """


class FollowerProgress:
    """The progress of one follower in one leader epoch, as its leader knows it: how far it has got, and whether it
    keeps up.
    """

    __slots__ = (
        "behind_since",
        "end_at_last_fetch",
        "end_offset",
        "last_fetch",
        "liveness",
        "log_start_offset",
        "node_epoch",
    )

    def __init__(self, now: float) -> None:
        self.end_offset = UNKNOWN_END
        self.log_start_offset = UNKNOWN_END
        self.node_epoch = -1
        self.behind_since: float | None = now
        """The time since which the follower is behind; None: it had everything when it last fetched."""
        self.last_fetch = now
        self.end_at_last_fetch = 0
        """The leader's log end offset at the follower's last fetch."""
        self.liveness = Liveness(now)

    def fetched(
        self,
        fetch_offset: int,
        log_end_offset: int,
        node_epoch: int,
        liveness: Liveness,
        now: float,
    ) -> None:
        if fetch_offset >= log_end_offset:
            self.behind_since = None
        elif fetch_offset >= self.end_at_last_fetch and self.end_offset != UNKNOWN_END:
            # The follower has all that was there at its last fetch: it keeps up, one round behind.
            self.behind_since = max(self.behind_since or 0.0, self.last_fetch)
        elif self.behind_since is None:
            self.behind_since = self.last_fetch
        self.end_offset = fetch_offset
        self.end_at_last_fetch = log_end_offset
        self.node_epoch = node_epoch
        self.liveness = liveness
        self.last_fetch = now

    def left(self) -> None:
        """Count the follower as out of sync from now on: it said that it no longer follows. Its copy may be damaged."""
        self.behind_since = -math.inf

    def is_in_sync(self, now: float, lag_max_s: float) -> bool:
        if self.behind_since is not None:
            return now - self.behind_since <= lag_max_s
        return self.liveness.is_waiting or now - self.liveness.last_seen <= lag_max_s


class Proposal(NamedTuple):
    """An ISR that this leader has proposed to the controller, or is about to propose."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class LeaderState:
    """The followers and the ISR of a partition in one leader epoch, as their leader knows them."""

    def __init__(
        self,
        node_id: int,
        leader_epoch: int,
        epoch_start_offset: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        now: float,
    ) -> None:
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.partition_epoch = partition_epoch
        self.isr = tuple(isr)
        self.pending: Proposal | None = None
        self._followers: dict[int, FollowerProgress] = {}
        self._set_replicas(replicas, now)

    @property
    def followers(self) -> Mapping[int, FollowerProgress]:
        return self._followers

    def image_moved(
        self, replicas: Iterable[int], isr: Iterable[int], partition_epoch: int, now: float
    ) -> None:
        """Take over the replicas and the ISR of newer metadata, within this leader epoch.

        A proposal that is older than these metadata is dropped: they show its result.
        """
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        if self.pending is not None and partition_epoch > self.pending.partition_epoch:
            self.pending = None
        self._set_replicas(replicas, now)

    def _set_replicas(self, replicas: Iterable[int], now: float) -> None:
        wanted = [node for node in replicas if node != self.node_id]
        self._followers = {
            node: self._followers.get(node) or FollowerProgress(now) for node in wanted
        }

    def appended(self, now: float) -> None:
        """Mark the followers that had everything as behind from `now` on, because the log grew."""
        for progress in self._followers.values():
            if progress.behind_since is None:
                progress.behind_since = now

    def high_watermark(self, local_end_offset: int) -> int:
        """Return the smallest log end of the maximal ISR: the committed ISR and the replicas that are proposed to join
        it.

        It is -1 until each other member has fetched in this leader epoch. `local_end_offset` is this leader's own end.
        """
        smallest = local_end_offset
        isr = self.isr if self.pending is None else {*self.isr, *self.pending.isr}
        for node in isr:
            if node == self.node_id:
                continue
            progress = self._followers.get(node)
            end_offset = UNKNOWN_END if progress is None else progress.end_offset
            if end_offset < smallest:
                smallest = end_offset
        return smallest

    def may_join(self, node_id: int, high_watermark: int) -> bool:
        """True if the replica may be proposed for the ISR.

        It must have all committed records, and all records that were there when this leader epoch began.
        """
        progress = self._followers.get(node_id)
        return (
            progress is not None
            and self.pending is None
            and node_id not in self.isr
            and progress.end_offset >= high_watermark
            and progress.end_offset >= self.epoch_start_offset
        )

    def out_of_sync(self, now: float, lag_max_s: float) -> list[int]:
        """Return the members of the ISR that have not kept up; none while a proposal is under way."""
        if self.pending is not None:
            return []
        return [
            node
            for node in self.isr
            if node != self.node_id
            and node in self._followers
            and not self._followers[node].is_in_sync(now, lag_max_s)
        ]

    def propose(self, isr: Iterable[int]) -> Proposal:
        self.pending = Proposal(tuple(isr), self.leader_epoch, self.partition_epoch)
        return self.pending
