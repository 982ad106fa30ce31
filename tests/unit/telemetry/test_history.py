"""The history of events: bounded, found by what they are about, honest about what is missing."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.ids import Partition
from oncelog.telemetry.events import EventFilter, order_of
from oncelog.telemetry.feed import TEXT_CHARS_MAX, names_of
from oncelog.telemetry.history import History, LocalFeed


def event_of(number, origin="coordinator-1-a", kind="transaction", **fields):
    return {
        "kind": kind,
        "time_ms": 1_000 + number,
        "role": "coordinator",
        "node": 1,
        "origin": origin,
        "number": number,
        **fields,
    }


def kinds(events):
    return [event.kind for event in events]


def test_a_transaction_has_the_events_of_its_producer_ids():
    history = History()
    history.add_event(event_of(0, transactional_id="pay", producer_id=7, previous_producer_id=-1))
    history.add_event(event_of(1, transactional_id="other", producer_id=8))
    history.add_event(
        event_of(0, "storage-2-b", "marker", topic="orders", partition=3, producer_id=7)
    )
    history.add_event(
        event_of(1, "storage-2-b", "marker", topic="orders", partition=3, producer_id=8)
    )
    assert [event.role for event in history.of_transaction("pay")] == ["coordinator"] * 2
    assert kinds(history.of_transaction("pay")) == ["transaction", "marker"]
    assert len(history.of_producer(8)) == 2
    assert len(history.of_partition(Partition("orders", 3))) == 2
    assert history.of_transaction("nobody") == []


def test_a_replaced_producer_id_belongs_to_its_transaction():
    history = History()
    history.add_event(event_of(0, "s", "opened", topic="orders", partition=0, producer_id=6))
    history.add_event(event_of(1, transactional_id="pay", producer_id=7, previous_producer_id=6))
    assert kinds(history.of_transaction("pay")) == ["opened", "transaction"]


def test_a_skipped_number_is_a_hole_and_a_repeated_one_dropped():
    history = History()
    for number in (5, 6, 6, 9, 8, 10):
        history.add_event(event_of(number, transactional_id="pay"))
    assert kinds(history.newest(10)) == [
        "transaction",
        "transaction",
        "hole",
        "transaction",
        "transaction",
    ]
    assert [hole.fields["count"] for hole in history.holes()] == [2]


def test_a_hole_of_the_feed_counts_for_all_that_it_stands_for():
    history = History()
    history.add_event(event_of(0))
    history.add_event(event_of(1, kind="hole", count=90))
    history.add_event(event_of(91))
    assert [hole.fields["count"] for hole in history.holes()] == [90]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=60),
    st.integers(1, 10),
)
def test_it_never_holds_more_than_its_bound(given_, events_max):
    history = History(events_max)
    for number, (name, producer_id) in enumerate(given_):
        history.add_event(event_of(number, transactional_id=name, producer_id=producer_id))
    kept = given_[-events_max:]
    assert len(history) == len(kept)
    for name in "abc":
        assert len(history.newest(100, EventFilter(transactional_id=name))) == sum(
            one == name for one, _ in kept
        )
    for producer_id in range(4):
        assert len(history.of_producer(producer_id)) == sum(one == producer_id for _, one in kept)
    if not kept:
        assert history.oldest_ms is None


def test_a_filter_takes_what_fits_and_every_hole():
    history = History()
    history.add_event(event_of(0, transactional_id="pay", producer_id=7, added="orders-0,a-b-1"))
    history.add_event(event_of(1, kind="refused", transactional_id="pay", producer_id=7))
    history.add_event(event_of(5, kind="marker", topic="orders", partition=1, producer_id=7))

    def found(**wanted):
        return kinds(history.newest(10, EventFilter(**wanted)))

    assert found(kinds=frozenset({"refused"})) == ["refused", "hole"]
    assert found(topic="orders") == ["transaction", "hole", "marker"]
    assert found(topic="orders", partition=1) == ["hole", "marker"]
    assert found(topic="a-b", partition=1) == ["transaction", "hole"]
    assert found(producer_id=8) == ["hole"]


async def test_a_slow_subscriber_gets_a_hole_and_the_newest():
    history = History()
    subscription = history.subscribe(EventFilter(), events_max=2)
    for number in range(5):
        history.add_event(event_of(number))
    events = await subscription.next(1)
    assert kinds(events) == ["hole", "transaction", "transaction"]
    assert events[0].fields == {"count": 3}
    assert await subscription.next(0.01) == []
    history.unsubscribe(subscription)
    history.add_event(event_of(5))
    assert await subscription.next(0.01) == []


def test_who_comes_again_gets_what_came_meanwhile_or_a_hole():
    history = History(3)
    for number in range(2):
        history.add_event(event_of(number), f"100-{number}")
    assert [event.id for event in history.after("100-0", EventFilter())] == ["100-1"]
    for number in range(2, 6):
        history.add_event(event_of(number), f"100-{number}")
    again = list(history.after("100-0", EventFilter()))
    assert kinds(again) == ["hole", "transaction", "transaction", "transaction"]


def test_ids_of_one_process_grow_whatever_its_clock_does():
    history = History()
    for time_ms in (100, 100, 90, 101):
        history.add_event({"kind": "marker", "time_ms": time_ms, "role": "storage", "node": 1})
    orders = [order_of(event.id) for event in history.newest(10)]
    assert orders == sorted(set(orders))


def test_a_local_feed_is_found_at_once():
    history = History()
    LocalFeed(history, "storage", 1).publish("marker", topic="orders", partition=0, producer_id=3)
    (event,) = history.of_producer(3)
    assert (event.role, event.node, event.kind) == ("storage", 1, "marker")


def test_names_are_never_cut_in_their_middle():
    partitions = [Partition("t" * 60, number) for number in range(20)]
    names = names_of(partitions)
    assert len(names) <= TEXT_CHARS_MAX
    assert names.split(",") == [f"{'t' * 60}-{number}" for number in range(4)]
