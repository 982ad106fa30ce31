"""Where a request comes from, by the word of proxies that are trusted and of no others."""

import pytest
from fastapi import Request

from oncelog_gateway.access_guard import is_secure, session_cookie
from oncelog_gateway.operators import Operators

PROXIES = Operators("10.0.0.0/8, 192.0.2.1")


def request_of(client, **headers):
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": "/",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "query_string": b"",
            "client": (client, 1),
            "headers": [
                (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
            ],
        }
    )


@pytest.mark.parametrize(
    ("client", "forwarded", "address"),
    [
        ("198.51.100.7", "203.0.113.9", "198.51.100.7"),
        ("10.1.1.1", "203.0.113.9", "203.0.113.9"),
        ("10.1.1.1", "203.0.113.9, 192.0.2.1", "203.0.113.9"),
        ("10.1.1.1", "10.2.2.2", "10.2.2.2"),
        ("10.1.1.1", "1.1.1.1, 203.0.113.9, 10.9.9.9", "203.0.113.9"),
        ("10.1.1.1", "", "10.1.1.1"),
        ("10.1.1.1", "no address", "no address"),
    ],
)
def test_the_last_address_that_no_proxy_has_is_the_clients(client, forwarded, address):
    assert PROXIES.address_of(request_of(client, x_forwarded_for=forwarded)) == address


def test_only_a_trusted_proxy_says_that_it_was_tls():
    said = {"x_forwarded_proto": "https"}
    assert is_secure(request_of("10.1.1.1", **said), PROXIES)
    assert not is_secure(request_of("198.51.100.7", **said), PROXIES)
    assert not is_secure(request_of("10.1.1.1"), PROXIES)


def test_a_plain_page_cannot_set_the_cookie_of_tls():
    both = "oncelog-session=plain; __Host-oncelog-session=tls"
    by_tls = request_of("10.1.1.1", x_forwarded_proto="https", cookie=both)
    assert session_cookie(by_tls, PROXIES) == "tls"
    assert session_cookie(request_of("198.51.100.7", cookie=both), PROXIES) == "plain"
    plain = request_of("10.1.1.1", x_forwarded_proto="https", cookie="oncelog-session=plain")
    assert session_cookie(plain, PROXIES) is None


def test_a_reason_is_short_and_in_any_writing():
    operator = PROXIES.of(
        request_of("198.51.100.7", oncelog_reason="ticket%207%20%E2%9C%93" + "x" * 900)
    )
    assert operator.reason is not None
    assert operator.reason.startswith("ticket 7 ✓")
    assert len(operator.reason) == 500
