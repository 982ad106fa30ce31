"""Wrong tokens of one address are counted for a minute."""

from oncelog_gateway.core.failed_logins import ADDRESSES_MAX, WINDOW_MS, FailedLogins


def test_the_limit_holds_for_a_minute():
    failed = FailedLogins(3)
    for now in (0, 10_000, 20_000):
        assert failed.wait_ms("a", now) == 0
        failed.failed("a", now)
    assert failed.wait_ms("a", 20_000) == WINDOW_MS - 20_000
    assert failed.wait_ms("a", WINDOW_MS) == 0
    failed.failed("a", WINDOW_MS)
    assert failed.wait_ms("a", WINDOW_MS) == 10_000


def test_another_address_does_not_wait():
    failed = FailedLogins(1)
    failed.failed("a", 0)
    assert failed.wait_ms("a", 1) > 0
    assert failed.wait_ms("b", 1) == 0


def test_addresses_are_bounded():
    failed = FailedLogins(1)
    for number in range(ADDRESSES_MAX + 1):
        failed.failed(str(number), 0)
    assert failed.wait_ms("0", 1) == 0
    assert failed.wait_ms("1", 1) > 0
