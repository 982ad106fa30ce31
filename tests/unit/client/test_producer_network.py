"""The rows of the producer document about brokers and about what leaves: leaders, throttling, versions, bytes."""

import asyncio
import math
from types import SimpleNamespace

import pytest
import uvloop

from oncelog.client.core.addresses import Address
from oncelog.client.core.backoff import backoff_ms
from oncelog.client.core.cluster_view import ClusterView, Leader, Node, TopicView
from oncelog.client.core.spoken import chosen_version
from oncelog.client.errors import SerializationError, UnsupportedError
from oncelog.client.network.brokers import Brokers, NetworkSettings
from oncelog.client.network.producer_messages import new_leaders
from oncelog.client.outgoing import Outgoing
from oncelog.ids import Partition
from oncelog.protocol import versions

ONE, TWO = (Node(number, Address("host", number), None) for number in (1, 2))
T0 = Partition("t", 0)


def view(leader):
    return ClusterView().with_answer([ONE], [TopicView("t", b"i" * 16, (leader,))], "c", 1)


# ------------------------------------------------------------------------------------------------- leaders


def test_s2_14_an_answer_tells_of_a_new_leader_and_where_it_is():
    """KIP-951; the topic may be named by its id."""
    one = SimpleNamespace(index=0, current_leader=SimpleNamespace(leader_id=2, leader_epoch=7))
    by_id = SimpleNamespace(topic_id=SimpleNamespace(bytes=b"i" * 16), partition_responses=[one])
    endpoint = SimpleNamespace(node_id=2, host="host", port=2, rack=None)
    response = SimpleNamespace(responses=[by_id], node_endpoints=[endpoint])
    batch = SimpleNamespace(partition=T0, topic_id=b"i" * 16)
    assert new_leaders(response, [batch]) == [(T0, Leader(2, 7), TWO)]


def test_s2_14_news_of_a_leader_never_goes_back():
    known = view(Leader(1, 5))
    assert known.with_leader(T0, Leader(2, 4), TWO) is known
    newer = known.with_leader(T0, Leader(2, 6), TWO)
    assert newer.leader(T0) == Leader(2, 6)
    assert newer.nodes[2] == TWO


# ------------------------------------------------------------------------------------------------- brokers


async def test_s2_52_a_throttled_broker_is_left_alone_for_so_long():
    """KIP-219: the client keeps the silence that it was asked for, and then goes on by itself."""
    await throttled(0.05)


def test_a_timer_that_comes_early_ends_a_silence():
    """Those of uvloop count whole milliseconds. Nobody would look again."""
    for _ in range(10):
        uvloop.run(throttled(0.0014))


async def throttled(seconds):
    changed = asyncio.Event()
    brokers = Brokers(NetworkSettings((ONE.address,)), changed.set)
    brokers.view = view(Leader(1, 0))
    connection = SimpleNamespace(address=ONE.address, renew_at=math.inf, close=lambda: None)
    brokers._connections[ONE.address] = connection
    assert brokers.ready(1) is connection
    brokers.throttle(connection, seconds)
    assert brokers.ready(1) is None
    async with asyncio.timeout(10):
        await changed.wait()
    assert brokers.ready(1) is connection
    await brokers.close()


def test_s2_57_a_broker_without_our_versions_is_named():
    with pytest.raises(
        UnsupportedError, match=r"host:1 serves versions 0 to 8 of Produce; .* 9 to"
    ):
        chosen_version(versions.PRODUCE, {versions.PRODUCE: (0, 8)}, ONE.address)
    assert chosen_version(versions.PRODUCE, {versions.PRODUCE: (0, 12)}, ONE.address) == 12


def test_s2_74_pauses_grow_with_jitter_up_to_a_bound():
    middle = [backoff_ms(100, 1_000, attempt, 0.5) for attempt in range(6)]
    assert middle == [100, 200, 400, 800, 1_000, 1_000]
    for attempt in range(6):
        low, high = (backoff_ms(100, 1_000, attempt, drawn) for drawn in (0.0, 0.999))
        assert low < middle[attempt]
        assert low >= middle[attempt] * 0.79
        assert high <= middle[attempt] * 1.2


# ------------------------------------------------------------------------------------------------- what leaves


def test_s2_09_headers_are_copied_and_the_time_is_now():
    headers = [("a", b"1")]
    record, _ = Outgoing(None, None, (), None).record("t", b"v", None, None, None, headers, None)
    headers.append(("b", b"2"))
    assert record.headers == [("a", b"1")]
    assert record.timestamp_ms > 1_700_000_000_000


def test_s2_06_an_interceptor_is_told_of_what_was_never_sent():
    class Told:
        errors = ()

        def on_send(self, record):
            return record

        def on_acknowledgement(self, metadata, error):
            self.errors += (error,)

    told = Told()
    with pytest.raises(SerializationError) as refused:
        Outgoing(None, None, (told,), None).record("t", 12, None, None, None, (), None)
    assert told.errors == (refused.value,)
