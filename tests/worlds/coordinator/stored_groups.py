"""A group and its offsets as `__consumer_offsets` keeps them."""

from dataclasses import replace

from oncelog.ids import Partition
from oncelog_coordinator.core.group_records import (
    OffsetCommitted,
)
from oncelog_coordinator.core.group_state import Group, GroupState, Member

OFFSET = OffsetCommitted("g", Partition("t", 7), 42, 3, "m", 1_700_000_000_000)


OFFSET_OF_TOPIC = replace(OFFSET, topic_id=b"t" * 16)


GROUP = Group(
    "g",
    GroupState.STABLE,
    5,
    "consumer",
    "range",
    "m",
    1_700_000_000_000,
    {"m": Member("m", None, "c", "/h", 10, 20, (("range", b"s"),), b"a")},
)
