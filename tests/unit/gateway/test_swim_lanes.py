"""A timeline as a picture."""

from oncelog.telemetry.events import Event
from oncelog_gateway.core.swim_lanes import EVENTS_MAX, GAP_WIDTH, STEP, draw


def event(at_ms, kind, role="coordinator", **fields):
    return Event(f"{at_ms}-0", at_ms, role, 1, kind, fields)


COMMIT = [
    event(0, "transaction", state="Ongoing", request="AddPartitions", added="orders-0"),
    event(1, "opened", "storage", topic="orders", partition=0, offset=0),
    event(2, "transaction", state="PrepareCommit", request="EndTxn"),
    event(3, "marker_queued", "marker-sender", names="orders-0", outcome="commit"),
    event(4, "marker_sent", "marker-sender", names="orders-0", outcome="commit"),
    event(5, "marker", "storage", topic="orders", partition=0, error_code=0),
    event(6, "transaction", state="CompleteCommit", request="MarkersDelivered"),
]


def test_every_event_has_its_lane_and_its_caller():
    picture = draw(COMMIT)
    y_of = {lane.name: lane.y for lane in picture.lanes}
    assert list(y_of) == ["client", "coordinator", "marker sender", "orders-0"]
    ways = [(mark.from_y, mark.y) for mark in picture.marks]
    client, coordinator, sender, orders = y_of.values()
    assert ways == [
        (client, coordinator),
        (client, orders),
        (client, coordinator),
        (coordinator, sender),
        (sender, orders),
        (orders, orders),
        (sender, coordinator),
    ]
    assert [mark.look for mark in picture.marks] == ["", "", "", "", "", "good", "good"]
    assert [mark.x for mark in picture.marks] == [STEP * (at + 1) for at in range(7)]


def test_a_pause_is_a_gap_with_its_length():
    picture = draw([COMMIT[0], event(47_000, "refused", request="EndTxn", error="PRODUCER_FENCED")])
    (gap,) = picture.gaps
    assert gap.text == "47 s"
    assert picture.marks[1].x - picture.marks[0].x == STEP + GAP_WIDTH
    assert picture.marks[1].look == "bad"


def test_of_many_events_the_newest_are_drawn():
    picture = draw([event(at, "verified", names="orders-0") for at in range(EVENTS_MAX + 5)])
    assert (len(picture.marks), picture.left_out) == (EVENTS_MAX, 5)


def test_nothing_is_an_empty_picture():
    assert draw([]).marks == ()
