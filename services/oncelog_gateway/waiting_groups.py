"""For a dry run that would end a transaction: finds the consumer groups that could read on afterwards."""

from collections.abc import Sequence
from typing import Final

from oncelog.ids import Partition
from oncelog_gateway.groups import Groups
from oncelog_gateway.partitions import Partitions

PARTITIONS_MAX: Final = 100
GROUPS_MAX: Final = 1_000
NAMES_MAX: Final = 5


class WaitingGroups:
    def __init__(self, partitions: Partitions, groups: Groups) -> None:
        self._partitions = partitions
        self._groups = groups

    async def would_read_on(self, partitions: Sequence[Partition], producer_id: int) -> str:
        """Return as text which groups wait for this producer's transaction in these partitions, such as `, group
        'billing' would read on`. Empty if none is known to wait.
        """
        looked = await self._partitions.look(partitions[:PARTITIONS_MAX])
        held = [key for key, one in looked.holders.items() if one.producer_id == producer_id]
        blocked = await self._groups.blocked(looked, held, GROUPS_MAX)
        names = sorted({group_id for group_id, _ in blocked.places})
        if not names:
            return ""
        if len(names) == 1:
            return f", group {names[0]!r} would read on"
        more = len(names) - NAMES_MAX
        listed = ", ".join(map(repr, names[:NAMES_MAX])) + (f" and {more} more" if more > 0 else "")
        return f", groups {listed} would read on"
