"""Keeps the position where the last read of a log ended, so that the next one need not search. It also keeps the
segments whose indexes stay loaded.

Mostly a reader reads on, so little else stays in memory.
"""

from typing import Final, Generic, TypeVar

from oncelog_storage.core.segment_state import SegmentState

LOADED_SEGMENTS_MAX: Final = 4
"""This many sealed segments of one log keep their indexes in memory. A consumer that reads old data needs one."""

SegmentT = TypeVar("SegmentT", bound=SegmentState)


class ReadPlaces(Generic[SegmentT]):
    """The position where the last read of a log's newest segment ended, and the sealed segments that were read
    lately.
    """

    def __init__(self) -> None:
        # The place where the last read of the newest segment ended: a consumer at the tail goes on from there.
        self._tail: tuple[SegmentT | None, int, int] = (None, -1, 0)
        self._recently_read: list[SegmentT] = []

    def position_of(self, segment: SegmentT, fetch_offset: int) -> tuple[int, int] | None:
        """Return (position in bytes, `fetch_offset`) if the last read of this segment ended there, just before
        `fetch_offset`. None: the batch must be searched for.
        """
        tail_segment, tail_offset, tail_position = self._tail
        if tail_segment is segment and tail_offset == fetch_offset:
            return tail_position, tail_offset
        return None

    def was_read(
        self, segment: SegmentT, next_offset: int, end_position: int, *, is_newest: bool
    ) -> None:
        """Keep where a read of the newest segment ended, for the read that follows. Keep the indexes of a sealed one.

        At most `LOADED_SEGMENTS_MAX` sealed segments keep their indexes in memory. The one kept longest is unloaded.
        """
        if is_newest:
            self._tail = (segment, next_offset, end_position)
            return
        if segment in self._recently_read:
            return
        self._recently_read.append(segment)
        if len(self._recently_read) > LOADED_SEGMENTS_MAX:
            self._recently_read.pop(0).unload()

    def is_recent(self, segment: SegmentT) -> bool:
        return segment in self._recently_read

    def forget_sealed(self) -> None:
        """Drop the sealed segments that were read lately, because some were dropped from the log or replaced."""
        self._recently_read = []

    def forget(self) -> None:
        """Drop all positions and segments, because all segments are about to be replaced."""
        self._tail = (None, -1, 0)
        self._recently_read = []
