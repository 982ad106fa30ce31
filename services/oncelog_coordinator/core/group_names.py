"""The limits on names of groups and members: a record holds a string of at most 32,767 bytes (docs/kafka-facts.md,
5.2).
"""

from typing import Final

NAME_BYTES_MAX: Final = 32_767
MEMBER_PREFIX_MAX: Final = 1_000
"""The most characters of a client's or an instance's name at the beginning of a member id."""


def fits(name: str) -> bool:
    return len(name.encode()) <= NAME_BYTES_MAX


def is_group_id(group_id: str) -> bool:
    """True if the group id is not empty and fits into a record's key."""
    return bool(group_id) and fits(group_id)
