"""Which request of which connection a TV1 request is, so that one that was held up is recognised (ADR 0018).

Under TV1 every transaction of a producer has the same epoch, so an EndTxn or AddPartitionsToTxn that arrives late looks
exactly like one of the transaction that runs now. What differs is the connection: a client that gave up waiting has
connected again, and its newer requests came in on the newer connection. On one connection requests are counted: where
the listener itself asked again, because the connection between it and the coordinator broke, the first copy may arrive
when the client is long at a later one. So the newest request that changed a transaction is kept with it, and an older
one changes nothing: it is told to come again.

Nobody reads that answer on a connection that was given up, and nobody gives it on to a client that has had another one.
A live client that really uses an older connection does read it and comes again, and then it is let through: `insists`
says that its listener has seen it refused.
"""

from typing import NamedTuple


class Stamp(NamedTuple):
    """Stamps of two starts of listeners do not compare."""

    listener: int
    connection: int
    request: int = 0
    """0: not known."""


def newest(known: Stamp | None, asked: Stamp | None) -> Stamp | None:
    """The one to keep when a request stamped `asked` has changed a transaction stamped `known`."""
    if asked is None or known is None or known.listener != asked.listener:
        return asked or known
    return max(known, asked)


def is_copy(known: Stamp | None, asked: Stamp | None) -> bool:
    """The request has been done, or one of its connection that came after it."""
    return (
        known is not None
        and asked is not None
        and known[:2] == asked[:2]
        and 0 < asked.request <= known.request
    )


def is_delayed(known: Stamp | None, asked: Stamp | None, insists: bool = False) -> bool:
    """The request is older than one that has changed the transaction since. One that `insists` may have come in on an
    older connection; on its own connection its client never goes back."""
    if known is None or asked is None or known.listener != asked.listener:
        return False
    if asked.connection == known.connection:
        return 0 < asked.request < known.request
    return asked.connection < known.connection and not insists
