"""What the parser of the gateway takes and refuses, each by its bytes."""

import h11
import pytest

from oncelog_gateway.strict_http import StrictConnection, UnwantedRequest

HEAD_BYTES_MAX = 1 << 17
BODY_BYTES_MAX = 1000


def first_event(sent):
    connection = StrictConnection(HEAD_BYTES_MAX, BODY_BYTES_MAX)
    connection.receive_data(sent)
    return connection.next_event()


def head(*lines, end=b"\r\n"):
    return end.join((b"POST /login HTTP/1.1", b"Host: localhost", *lines, b"", b""))


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, head(b"Content-Length: 2", b"Transfer-Encoding: chunked")),
        (400, head(b"Transfer-Encoding: chunked", b"Content-Length: 2")),
        (400, head(b"Content-Length: 2", b"Content-Length: 2")),
        (400, head(b"Content-Length: 2, 2")),
        (400, head(b"content-length: 2", b"CONTENT-LENGTH: 2")),
        (400, head(b"Content-Length: 2", end=b"\n")),
        (400, head(b"X-One: a\nX-Two: b")),
        (400, b"POST /login HTTP/1.1\nHost: localhost\r\n\r\n"),
        (400, b"POST /login HTTP/1.1\r\nHost: localhost\r\n\n"),
        (400, b"POST /login HTTP/1.1\r\nHost: localhost\n\r\n"),
        (400, head(b"X-One: a", b" goes on")),
        (411, head(b"Transfer-Encoding: chunked")),
        (411, head(b"Transfer-Encoding: chunked").replace(b"1.1", b"1.0")),
        (413, head(b"Content-Length: 1001")),
        (505, head().replace(b"HTTP/1.1", b"HTTP/9.9")),
        (505, head().replace(b"HTTP/1.1", b"HTTP/2.0")),
        (505, head().replace(b"HTTP/1.1", b"HTTP/0.9")),
    ],
)
def test_a_request_of_two_meanings_is_refused(status, sent):
    with pytest.raises(UnwantedRequest) as refused:
        first_event(sent)
    assert refused.value.error_status_hint == status


@pytest.mark.parametrize(
    "sent",
    [
        head(b"Content-Length: 2", b"Content-Length: 3"),
        head(b"Content-Length: -2"),
        head(b"Content-Length: +2"),
        head(b"Content-Length: 0x2"),
        head(b"Content-Length: "),
        head(b"Content-Length : 2"),
        head(b"Transfer-Encoding: gzip, chunked"),
        head(b"Transfer-Encoding: identity"),
        head(b"X-One: a\x00b"),
    ],
)
def test_what_h11_refuses_stays_refused(sent):
    with pytest.raises(h11.RemoteProtocolError):
        first_event(sent)


@pytest.mark.parametrize("length", [b"0", b"2", b"1000", b"0001"])
def test_a_body_of_one_length_is_taken(length):
    assert isinstance(first_event(head(b"Content-Length: " + length)), h11.Request)
    assert isinstance(first_event(head(b"X-Content-Length: 5000, 6000")), h11.Request)


def test_a_head_is_judged_without_the_body_behind_it():
    assert isinstance(first_event(head(b"Content-Length: 6") + b"\n\n \r\r\n"), h11.Request)


def test_the_second_request_of_a_connection_is_judged_too():
    connection = StrictConnection(HEAD_BYTES_MAX, BODY_BYTES_MAX)
    connection.receive_data(
        head(b"Content-Length: 2") + b"{}" + head(b"Content-Length: 2", end=b"\n")
    )
    while connection.next_event() is not h11.PAUSED:
        pass
    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()
    with pytest.raises(UnwantedRequest):
        connection.next_event()
