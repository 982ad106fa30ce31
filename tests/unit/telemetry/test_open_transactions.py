"""An open transaction keeps its begin however many events of others come; one that ended keeps nothing."""

import pytest

from oncelog.telemetry.history import History, LocalFeed
from oncelog.telemetry.open_transactions import FIRST_MAX, OpenTransactions

RING = 20
CLIENT = {"client_id": "app-1", "client_host": "10.0.0.1:1"}


def taken(history):
    """Each event as it comes from another process."""

    def tell(kind, **fields):
        history.add_event(
            {"kind": kind, "time_ms": 1_000, "role": "coordinator", "node": 1, **fields}
        )

    return tell


def deferred(history):
    """As it comes from a role of the same process, while nobody asks."""
    return LocalFeed(history, "coordinator", 1).publish


@pytest.fixture(params=[taken, deferred])
def history(request):
    history = History(RING)
    history.tell = request.param(history)
    return history


def change(history, name, state, producer_id, cause="", **more):
    fields = {"transactional_id": name, "producer_id": producer_id, **more}
    history.tell("transaction", state=state, cause=cause, **fields)


def begin(history, name="pay", producer_id=7):
    change(history, name, "Empty", producer_id, **CLIENT)
    change(history, name, "Ongoing", producer_id, "transaction_started")
    history.tell("opened", topic="orders", partition=0, producer_id=producer_id)


def others(history, count=RING * 4):
    for number in range(count):
        change(history, f"other-{number % 3}", "Ongoing", 100, "transaction_started")
        change(history, f"other-{number % 3}", "CompleteCommit", 100)


def states(events):
    return [event.text("state") or event.kind for event in events]


def test_an_open_transaction_keeps_its_begin_and_its_client(history):
    begin(history)
    others(history)
    found = history.of_transaction("pay")
    assert states(found) == ["Empty", "Ongoing", "opened"]
    assert found[0].text("client_id") == "app-1"
    assert states(history.of_producer(7)) == states(found)
    assert len(history) == RING


def test_one_that_ended_is_forgotten_with_its_end(history):
    begin(history)
    others(history)
    change(history, "pay", "CompleteAbort", 7)
    assert states(history.of_transaction("pay"))[-1] == "CompleteAbort"
    others(history)
    assert history.of_transaction("pay") == []


def test_of_many_events_the_first_and_the_last_are_kept(history):
    begin(history)
    for _ in range(FIRST_MAX * 3):
        history.tell("verified", transactional_id="pay", producer_id=7)
    others(history)
    found = states(history.of_transaction("pay"))
    assert found[:3] == ["Empty", "Ongoing", "opened"]
    assert found[-2:] == ["hole", "verified"]
    assert len(found) == FIRST_MAX + 2


def test_asking_between_changes_nothing(history):
    begin(history)
    for _ in range(8):
        others(history, RING // 4)
        assert states(history.of_transaction("pay")) == ["Empty", "Ongoing", "opened"]


def test_what_is_kept_is_bounded():
    events = History(1)
    kept = OpenTransactions(ids_max=2)
    for name in ("a", "b", "c"):
        change_event = {"transactional_id": name, "state": "Ongoing", "kind": "transaction"}
        events.add_event(change_event)
        (event,) = events.newest(1)
        kept.forget(event.kind, event.fields, event)
    assert [bool(kept.of_transaction(name)) for name in ("a", "b", "c")] == [False, True, True]
