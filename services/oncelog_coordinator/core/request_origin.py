"""The origin of a TV1 request: its connection and its number there. It tells a delayed request from a current one (ADR
0018).

Under TV1 (before KIP-890) every transaction of a producer has the same epoch. So a delayed EndTxn or AddPartitionsToTxn
looks exactly like a request of the current transaction. The connection tells them apart:

- A client that stopped waiting opens another connection, to this listener or to another one.
- The listener numbers the requests of a connection. It repeats a request when its own connection to the coordinator
  breaks. The first copy may arrive after later requests of the client.

The coordinator stores the newest successful request with the transaction. Two kinds of requests change nothing and get
CONCURRENT_TRANSACTIONS: an older request of the stored connection, and the first request of any other connection.

The listener drops the response when its connection is closed or the client already has a response. A client that is
still there reads the response and repeats. Its listener then names the request that the refusal named. If that request
is still the newest one, the coordinator accepts the repetition, and stores its connection from then on. Otherwise
another connection had a success in between, and the coordinator refuses the repetition too.

The coordinator also stores a successful request that changed nothing. Its client continues, so what the client left
behind on other connections must have no effect.
"""

from typing import NamedTuple


class RequestOrigin(NamedTuple):
    """The origin of a client's request: the listener and connection it came in on, and its number on that connection.

    Numbers of one connection can be compared; those of two cannot.
    """

    listener: int
    connection: int
    request: int = 0
    """The number of the request on its connection; 0: not known."""


def is_copy(known: RequestOrigin | None, received: RequestOrigin | None) -> bool:
    """True if `received` is a copy of a request that was handled: the last success (`known`) was on the same
    connection, and was this request or a later one."""
    return (
        known is not None
        and received is not None
        and known[:2] == received[:2]
        and 0 < received.request <= known.request
    )


def is_delayed(
    known: RequestOrigin | None,
    received: RequestOrigin | None,
    refused_origin: RequestOrigin | None = None,
) -> bool:
    """True if this request may be late: a newer one of its producer was successful, or may have been. It must change
    nothing.

    `known` is the origin of the producer's last successful request, `received` that of this one. False if either is
    None.

    - On the connection of `known`, this request is late if its number is lower.
    - On any other connection, it is late unless `refused_origin` equals `known`.

    `refused_origin` is the last success that an earlier refusal of this request named; None: it was not refused before.
    If nothing has succeeded since, the client has read the refusal and repeats, so the request is not late.
    """
    if known is None or received is None:
        return False
    if received[:2] == known[:2]:
        return 0 < received.request < known.request
    return refused_origin != known
