"""The stream of metadata to every node: a snapshot, then deltas, to each watcher at its own pace.

Nothing is queued per watcher. The last updates are held once, each findable by the offset it follows; a watcher is a
cursor that pulls the update after the one it saw. A watcher that is further behind, or came with an offset that is no
boundary here, gets a snapshot. So a slow watcher costs nothing and never loses or reorders anything.

Only committed records come here. Offsets are the journal's own, so a watcher continues at another controller where it
was at the last one.
"""

import asyncio
from collections.abc import AsyncIterator

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.ids import Offset
from oncelog_controller.core.events import Committed
from oncelog_controller.core.history import NOWHERE, MetadataPosition
from oncelog_controller.core.image import Change, ClusterImage
from oncelog_controller.messages import delta_message, snapshot_message


class Watchers:
    """The metadata streams of all watching processes.

    `reset` opens them, `add_committed` adds the records of a decision, `close` ends each of them until the next
    `reset`.
    """

    def __init__(self, history_max: int) -> None:
        self._history_max = history_max
        self._image = ClusterImage()
        self._snapshot: pb.MetadataUpdate | None = None
        self._following: dict[int, pb.MetadataUpdate] = {}
        self._changed = asyncio.Event()
        self._is_open = False
        self._closings = 0

    @property
    def metadata_offset(self) -> int:
        """The offset of the newest committed record."""
        return self._image.metadata_offset

    @property
    def image(self) -> ClusterImage:
        """The committed metadata, which may be served without asking the state machine. The caller must not change
        them.
        """
        return self._image

    def reset(self, image: ClusterImage) -> None:
        """Open the streams with `image`, the metadata after a replay. A watcher at another offset gets a snapshot."""
        self._image = image.copy()
        self._snapshot = None
        self._following.clear()
        self._is_open = True
        self._wake()

    def add_committed(self, committed: Committed) -> None:
        """Add one decision's committed records to the stream. Decisions come in the order of their commit."""
        previous = self._image.metadata_offset
        first = committed.metadata_offset - len(committed.records) + 1
        assert first == previous + 1, (first, previous)
        changes: list[Change] = []
        for offset, record in enumerate(committed.records, first):
            changes.append(self._image.apply(Offset(offset), record))
        self._snapshot = None
        self._following[previous] = pb.MetadataUpdate(
            metadata_offset=committed.metadata_offset, delta=delta_message(self._image, changes)
        )
        while len(self._following) > self._history_max:
            del self._following[next(iter(self._following))]
        self._wake()

    def close(self) -> None:
        """End every stream, because this controller is not, or no longer, the active one."""
        self._is_open = False
        self._closings += 1
        self._wake()

    async def watch(
        self, from_metadata_offset: int, position: MetadataPosition = NOWHERE
    ) -> AsyncIterator[pb.MetadataUpdate]:
        """Yield the metadata updates after `from_metadata_offset` (-1: from nothing) until `close`; wait while there
        are none.

        `position` says which metadata the watcher knows. If they are not in this journal, it gets nothing: the two must
        not be mixed. Its next heartbeat is refused.
        """
        seen = from_metadata_offset
        closings = self._closings
        while self._is_open and closings == self._closings:
            if seen == self._image.metadata_offset or not self._image.has(position):
                await self._changed.wait()
                continue
            # A cluster that has not begun is told with a snapshot, for only that names the cluster.
            update = self._following.get(seen) if seen >= 0 else None
            if update is None:
                update = self._current_snapshot()
            seen, position = update.metadata_offset, NOWHERE
            yield update

    def _current_snapshot(self) -> pb.MetadataUpdate:
        if self._snapshot is None:
            self._snapshot = pb.MetadataUpdate(
                metadata_offset=self._image.metadata_offset, snapshot=snapshot_message(self._image)
            )
        return self._snapshot

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
