"""What consumers of the classic protocol write in JoinGroup and SyncGroup, in every version, and what they did not."""

import pytest
from tests.worlds.coordinator.migration_world import subscription

from oncelog.protocol.consumer_protocol import (
    EmbeddedAssignment,
    Unreadable,
    encode_assignment,
    read_assignment,
    read_subscription,
)

NEWEST = subscription(("orders", "bills"), (("orders", 3),), version=3)


@pytest.mark.parametrize(
    ("version", "owned", "rack_id"),
    [(0, (), None), (1, (("orders", 3),), None), (2, (("orders", 3),), None)]
    + [(version, (("orders", 3),), "rack") for version in (3, 9)],
)
def test_a_subscription_of_any_version_is_read(version, owned, rack_id):
    data = version.to_bytes(2) + subscription(("orders", "bills"), owned, min(version, 3))[2:]
    found = read_subscription(data)
    assert (found.version, found.topics) == (version, ("orders", "bills"))
    assert (found.owned, found.rack_id) == (owned, rack_id)


def test_an_assignment_is_read_as_it_was_written():
    partitions = (("orders", 0), ("orders", 3), ("bills", 1))
    assert read_assignment(encode_assignment(partitions, 1)) == EmbeddedAssignment(partitions)
    assert read_assignment(b"") == EmbeddedAssignment(())


@pytest.mark.parametrize("data", [b"", b"\xff\xff" + NEWEST[2:], NEWEST[:-1], NEWEST[:9]])
def test_what_no_consumer_wrote_is_unreadable(data):
    with pytest.raises(Unreadable, match=f"a subscription of {len(data)} bytes"):
        read_subscription(data)
    with pytest.raises(Unreadable):
        read_assignment(data or b"\0")
