"""The names of a group member that a producer sends when it commits offsets for that member (KIP-447)."""

from typing import NamedTuple, Protocol, runtime_checkable


class Membership(NamedTuple):
    generation: int
    """The member's generation; in a group of the consumer protocol (KIP-848), its epoch."""
    member_id: str
    instance_id: str | None = None
    """The instance id of a static member; None for a member that is not static."""


@runtime_checkable
class Member(Protocol):
    """A group's consumer that knows its membership, so that a producer can commit offsets in its name."""

    group: str | None

    @property
    def membership(self) -> Membership | None:
        """Return the membership under which the consumer received its last records. None: it is not a member yet.

        A newer generation would be wrong: the coordinator would accept offsets of partitions that may be another
        member's by now.
        """
        ...

    def check_member(self) -> None:
        """Raise Refused if the member's group has rebalanced since the application last polled."""
        ...
