"""The position of a reader of a topic's records: an offset in each partition, and whether it reads forward or backward.

A page reads some records of each partition. Then those partitions go to the end of the queue, so that each has its
turn. The cursor of the next page holds that queue, so the gateway keeps nothing between two pages.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from oncelog_gateway.core.paging import cursor_of, not_a_cursor, position_in

_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_FORWARD: Final = "forward"
_BACKWARD: Final = "backward"


class Place(NamedTuple):
    partition: int
    offset: int
    """When reading forward, the offset of the next record. When reading backward, the offset behind the next record."""


class Reading(NamedTuple):
    """The partitions that are still to be read, each with its offset, and the direction."""

    is_backward: bool
    places: tuple[Place, ...]

    def cursor(self) -> str | None:
        """Return the cursor of the next page; None: nothing is left to read."""
        if not self.places:
            return None
        way = _BACKWARD if self.is_backward else _FORWARD
        return cursor_of((way, *self.places))

    @classmethod
    def of_cursor(cls, cursor: str) -> Self:
        """Return the reading that a cursor's text stands for. Raises KafkaError for a text that is no cursor."""
        found = position_in(cursor)
        if not isinstance(found, list) or not found or found[0] not in (_FORWARD, _BACKWARD):
            raise not_a_cursor(cursor)
        places = []
        for one in found[1:]:
            if not isinstance(one, list) or [type(number) for number in one] != [int, int]:
                raise not_a_cursor(cursor)
            place = Place(*one)
            if not (0 <= place.partition <= _INT32_MAX and 0 <= place.offset <= _INT64_MAX):
                raise not_a_cursor(cursor)
            places.append(place)
        if not places or len({one.partition for one in places}) < len(places):
            raise not_a_cursor(cursor)
        return cls(found[0] == _BACKWARD, tuple(places))


def shares(places: Sequence[Place], limit: int) -> list[tuple[Place, int]]:
    """Divide a page of `limit` records among partitions. Returns the places that the page reads, each with its number
    of records.
    """
    assert limit > 0, limit
    read = places[:limit]
    if not read:
        return []
    each, more = divmod(limit, len(read))
    return [(place, each + (index < more)) for index, place in enumerate(read)]


def queued(places: Sequence[Place], read: int, gone_on: Sequence[Place]) -> tuple[Place, ...]:
    """Return the queue of the next page, after one that read the first `read` places. `gone_on` are those of them that
    have more to read; they come last now.
    """
    return (*places[read:], *gone_on)
