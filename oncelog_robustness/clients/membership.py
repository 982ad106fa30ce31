"""What a producer tells a group coordinator about the member whose offsets it commits (KIP-447)."""

from typing import NamedTuple, Protocol, runtime_checkable


class Membership(NamedTuple):
    generation: int
    """In a group of the consumer protocol (KIP-848), the member's epoch."""
    member_id: str
    instance_id: str | None = None
    """Of a static member."""


@runtime_checkable
class Member(Protocol):
    """A consumer that knows its place in its group."""

    group: str | None

    @property
    def membership(self) -> Membership | None:
        """Of the generation in which it was handed its last records. A newer one would vouch for records that it
        never handed out. None: it is no member yet."""
        ...

    def check_member(self) -> None:
        """Raises Refused when its group has rebalanced since the application last polled."""
        ...
