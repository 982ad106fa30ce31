"""Rates and waits as Kafka computes them (Rate, QuotaUtils), and whose quota holds for whom."""

import pytest

from oncelog.security.quotas import CLIENT_ID, IP, USER, entity_of
from oncelog_listener.core.client_rates import RATES_MAX, ClientRates
from oncelog_listener.core.quota_rates import Rate, TokenBucket

PRODUCED = "producer_byte_rate"
FETCHED = "consumer_byte_rate"
TIME = "request_percentage"
CONNECTIONS = "connection_creation_rate"
ALICE = ("alice", "app")


def rate_of(*values):
    """Of (value, time in ms)."""
    rate = Rate()
    for value, now in values:
        rate.record(value, now)
    return rate


@pytest.mark.parametrize(
    ("values", "now", "per_second"),
    [
        ([], 0, 0),
        ([(1000, 0)], 0, 100),  # ten full windows are assumed
        ([(1000, 0)], 500, 1000 / 10.5),
        ([(1000, 0)], 999, 1000 / 10.999),
        ([(1000, 0)], 1000, 100),
        ([(1000, 0), (1000, 1000)], 1000, 200),
        ([(1000, 0)], 10_999, 1000 / 10.999),
        ([(1000, 0)], 11_000, 0),  # it counts for eleven seconds
        ([(1000, 0), (1000, 900)], 11_000, 2000 / 11),  # as long as its last value
        ([(1000, at) for at in range(0, 30_000, 1000)], 29_000, 1100),
        ([(5, 0), (-5, 0)], 0, 0),
    ],
)
def test_a_rate_is_the_sum_over_eleven_windows(values, now, per_second):
    assert rate_of(*values).per_second(now) == pytest.approx(per_second)


@pytest.mark.parametrize(
    ("quota", "wait_ms"), [(100, 0), (101, 0), (50, 10_000), (10, 90_000), (99.9, 10)]
)
def test_who_is_above_waits_until_it_is_not(quota, wait_ms):
    rate = rate_of((1000, 0))
    assert rate.wait_ms(quota, 0) == wait_ms


def test_after_the_wait_the_rate_is_the_quota():
    """A steady client that honours its waits gets what its quota says."""
    rate, now, sent = Rate(), 0, 0
    while now < 60_000:
        rate.record(10_000, now)
        sent += 10_000
        now += rate.wait_ms(2_000, now) or 1
    # The burst of the first ten seconds comes on top.
    assert sent / 60 == pytest.approx(2_000, rel=0.25)


def test_silence_is_forgotten():
    rate = rate_of((1000, 0))
    assert not rate.is_silent(10_999)
    assert rate.is_silent(11_000)


@pytest.mark.parametrize(
    ("entity", "others_wait"),
    [
        ({USER: "alice", CLIENT_ID: "app"}, []),
        ({USER: "alice", CLIENT_ID: None}, []),
        ({USER: "alice"}, [("alice", "other")]),
        ({USER: None, CLIENT_ID: "app"}, []),
        ({USER: None, CLIENT_ID: None}, []),
        ({USER: None}, [("alice", "other")]),
        ({CLIENT_ID: "app"}, [("bob", "app")]),
        ({CLIENT_ID: None}, [("bob", "app")]),
    ],
)
def test_each_kind_of_entity_shares_one_rate(entity, others_wait):
    quotas = {entity_of(entity): {PRODUCED: 100.0}}
    rates = ClientRates()
    assert rates.wait_ms(quotas, ALICE, PRODUCED, 2_000, 0) == 10_000
    for other in [("bob", "app"), ("alice", "other"), ("bob", "other")]:
        waits = rates.wait_ms(quotas, other, PRODUCED, 1, 0) > 0
        assert waits is (other in others_wait), other


def test_a_named_quota_wins_over_a_default():
    quotas = {
        entity_of({USER: None}): {PRODUCED: 1.0},
        entity_of({USER: "alice"}): {PRODUCED: 1e9},
        entity_of({USER: "alice", CLIENT_ID: "app"}): {FETCHED: 1.0},
    }
    rates = ClientRates()
    assert rates.wait_ms(quotas, ALICE, PRODUCED, 2_000, 0) == 0
    assert rates.wait_ms(quotas, ("bob", "app"), PRODUCED, 2_000, 0) > 0


def test_a_changed_quota_holds_at_once_for_what_was_counted():
    entity = entity_of({USER: "alice"})
    rates = ClientRates()
    assert rates.wait_ms({entity: {PRODUCED: 1e6}}, ALICE, PRODUCED, 2_000, 0) == 0
    assert rates.wait_ms({entity: {PRODUCED: 100.0}}, ALICE, PRODUCED, 0, 0) == 10_000
    assert rates.wait_ms({}, ALICE, PRODUCED, 2_000, 0) == 0


def test_request_time_holds_for_a_window_at_most():
    quotas = {entity_of({CLIENT_ID: None}): {TIME: 1.0}}
    assert ClientRates().wait_ms(quotas, ALICE, TIME, 1_000, 0) == 1_000


def test_a_fetch_fits_into_its_quota():
    quotas = {entity_of({USER: "alice"}): {FETCHED: 1_000.0}}
    rates = ClientRates()
    largest = rates.fetch_bytes_max(quotas, ALICE)
    assert largest == 10_000
    assert rates.wait_ms(quotas, ALICE, FETCHED, largest, 0) == 0
    assert rates.fetch_bytes_max(quotas, ("bob", "app")) is None


def test_a_connection_that_is_turned_away_does_not_count():
    quotas = {((IP, "10.0.0.1"),): {CONNECTIONS: 1.0}, ((IP, None),): {CONNECTIONS: 2.0}}
    rates = ClientRates()
    taken = [rates.connection_wait_ms(quotas, "10.0.0.1", 0) == 0 for _ in range(15)]
    assert taken == [True] * 10 + [False] * 5
    assert rates.connection_wait_ms(quotas, "10.0.0.1", 0) == 1_000
    assert all(rates.connection_wait_ms(quotas, "10.0.0.2", 0) == 0 for _ in range(20))
    assert rates.connection_wait_ms(quotas, "10.0.0.2", 0) > 0
    assert rates.connection_wait_ms(quotas, "10.0.0.1", 11_000) == 0


def test_rates_of_invented_client_ids_are_bounded():
    quotas = {entity_of({CLIENT_ID: None}): {PRODUCED: 1.0}}
    rates = ClientRates()
    for number in range(RATES_MAX + 5):
        rates.wait_ms(quotas, ("a", str(number)), PRODUCED, 1_000, number)
    assert len(rates._rates) <= RATES_MAX
    assert rates.wait_ms(quotas, ("a", str(RATES_MAX + 4)), PRODUCED, 0, RATES_MAX + 5) > 0


def test_changes_burst_for_eleven_seconds_and_one_goes_on_credit():
    bucket = TokenBucket()
    bucket.take_tokens(11, 1.0, 5_000)
    assert bucket.wait_ms(1.0, 5_000) == 0
    bucket.take_tokens(3, 1.0, 5_000)
    assert bucket.wait_ms(1.0, 5_000) == 3_000
    assert bucket.wait_ms(1.0, 8_000) == 0
    bucket.take_tokens(11, 1.0, 60_000)  # silence gives no more than a full bucket
    assert bucket.wait_ms(1.0, 60_000) == 0
    bucket.take_tokens(1, 1.0, 60_000)
    assert bucket.wait_ms(1.0, 60_000) == 1_000


@pytest.mark.parametrize(("is_strict", "taken"), [(True, [True, True, False]), (False, [True] * 3)])
def test_a_change_on_credit_lets_strict_clients_wait(is_strict, taken):
    quotas = {entity_of({USER: "alice"}): {"controller_mutation_rate": 1.0}}
    rates = ClientRates()
    assert [
        rates.takes_changes(quotas, ALICE, count, 0, is_strict=is_strict) for count in (11, 5, 1)
    ] == taken
    assert rates.changes_wait_ms(quotas, ALICE, 0) == (5_000 if is_strict else 6_000)
    assert rates.changes_wait_ms(quotas, ("bob", "app"), 0) == 0
    assert rates.takes_changes(quotas, ("bob", "app"), 99, 0, is_strict=True)
