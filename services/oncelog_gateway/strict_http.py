"""An HTTP parser (h11) that refuses ambiguous requests which h11 itself would accept.

If a request gives the length of its body twice, a proxy may read it as another request than the gateway does. A check
of headers above the parser may then use the length that does not count.

So a request has one Content-Length, or no body. Its size is known before the first byte of the body arrives.
"""

import re
from http import HTTPStatus
from typing import Final

import h11

_VERSIONS: Final = frozenset({b"1.0", b"1.1"})
_BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_CONTINUED: Final = re.compile(rb"\r\n[ \t]")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:([^\r]*)", re.IGNORECASE)


class UnwantedRequest(h11.RemoteProtocolError):
    """A request that this gateway refuses to read. Its text and status go to the client."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail, error_status_hint=status)


class StrictConnection(h11.Connection):
    """h11's connection on the server's side, which also refuses ambiguous requests."""

    def __init__(self, head_bytes_max: int, body_bytes_max: int) -> None:
        super().__init__(h11.SERVER, head_bytes_max)
        self._body_bytes_max = body_bytes_max

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return h11's next event, such as a request's head. Raises UnwantedRequest if that request is ambiguous."""
        if self.their_state is not h11.IDLE:
            return super().next_event()
        before = self.trailing_data[0]
        event = super().next_event()
        if isinstance(event, h11.Request):
            head = before[: len(before) - len(self.trailing_data[0])]
            self._check(event, head)
        return event

    def _check(self, request: h11.Request, head: bytes) -> None:
        if request.http_version not in _VERSIONS:
            version = request.http_version.decode("ascii")
            raise UnwantedRequest(
                HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
                f"HTTP/{version} is not spoken here; HTTP/1.1 is",
            )
        if _BARE.search(head) or _CONTINUED.search(head):
            raise UnwantedRequest(
                HTTPStatus.BAD_REQUEST,
                "each header must be one line, and end with CR and LF",
            )
        lengths = _LENGTH.findall(head)
        if len(lengths) > 1 or any(b"," in one for one in lengths):
            raise UnwantedRequest(
                HTTPStatus.BAD_REQUEST, "there is more than one Content-Length; send one"
            )
        if any(name == b"transfer-encoding" for name, _ in request.headers):
            if lengths:
                raise UnwantedRequest(
                    HTTPStatus.BAD_REQUEST,
                    "there are Content-Length and Transfer-Encoding; send Content-Length alone",
                )
            raise UnwantedRequest(
                HTTPStatus.LENGTH_REQUIRED,
                "a body must tell its Content-Length; Transfer-Encoding is not taken",
            )
        # h11 has seen that it is a number.
        if lengths and int(lengths[0]) > self._body_bytes_max:
            raise UnwantedRequest(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body may have {self._body_bytes_max} bytes, and its Content-Length is {int(lengths[0])}",
            )
