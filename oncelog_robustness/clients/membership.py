"""The fields by which a producer names a group member whose offsets it commits (KIP-447)."""

from typing import NamedTuple, Protocol, runtime_checkable


class Membership(NamedTuple):
    generation: int
    """The member's generation; in a group of the consumer protocol (KIP-848), its epoch."""
    member_id: str
    instance_id: str | None = None
    """The instance id of a static member; None for others."""


@runtime_checkable
class Member(Protocol):
    """A consumer that knows its membership in a group."""

    group: str | None

    @property
    def membership(self) -> Membership | None:
        """Return the membership of the generation in which the member received its last records.
        A newer one would vouch for records that it never returned. None: it is no member yet."""
        ...

    def check_member(self) -> None:
        """Raise Refused if the member's group has rebalanced since the application last polled."""
        ...
