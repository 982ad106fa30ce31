"""Which connection a TV1 request came in on, so that one held up on an old connection is recognised (ADR 0018).

Under TV1 every transaction of a producer has the same epoch, so an EndTxn or AddPartitionsToTxn that arrives late looks
exactly like one of the transaction that runs now. What differs is the connection: a client that gave up waiting has
connected again, and its newer requests came in on the newer connection. So the newest connection that changed a
transaction is kept with it, and a request of an older one changes nothing: it is told to come again.

Nobody reads that answer on a connection that was given up. A live client that really uses an older connection does
read it and comes again, and then it is let through: `insists` says that the same connection has been refused before.
"""

from typing import NamedTuple


class Stamp(NamedTuple):
    """Stamps of two starts of listeners do not compare."""

    listener: int
    connection: int


def newest(known: Stamp | None, asked: Stamp | None) -> Stamp | None:
    """The one to keep when a request stamped `asked` has changed a transaction stamped `known`."""
    if asked is None or known is None or known.listener != asked.listener:
        return asked or known
    return max(known, asked)


def is_delayed(known: Stamp | None, asked: Stamp | None) -> bool:
    """The request came in on an older connection than one that has changed the transaction since."""
    return (
        known is not None
        and asked is not None
        and known.listener == asked.listener
        and asked.connection < known.connection
    )
