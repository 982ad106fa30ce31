"""Partitions and names are spread evenly over the listeners, and few move when one goes."""

from collections import Counter

import pytest

from oncelog_listener.brokers import Broker, Brokers


def brokers(first, count):
    return Brokers(
        tuple(Broker(node_id, "h", 9092, None) for node_id in range(first, first + count))
    )


@pytest.mark.parametrize("first", [1, 101, 1001])
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize(
    ("partitions", "largest"),
    [(50, 2.2), (200, 1.5), (1000, 1.25)],
    ids=["50", "200", "1000"],
)
def test_no_listener_leads_far_more_than_its_share(first, count, partitions, largest):
    """By chance alone the largest share is 1.4 times the mean of 50 partitions on 5 listeners."""
    spread = brokers(first, count)
    for topic in ("orders", "payments", "t"):
        led = Counter(spread.listener_for(topic, index) for index in range(partitions))
        share = partitions / count
        assert len(led) == count, led
        assert max(led.values()) <= largest * share, led


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_listener_that_goes_takes_only_its_own_partitions(count):
    before, after = brokers(1, count), brokers(1, count - 1)
    for index in range(500):
        leader = before.listener_for("orders", index)
        if leader != count:
            assert after.listener_for("orders", index) == leader
