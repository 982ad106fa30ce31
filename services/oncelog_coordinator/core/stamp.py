"""Which request of which connection a TV1 request is, so that one that was held up is recognised (ADR 0018).

Under TV1 every transaction of a producer has the same epoch, so an EndTxn or AddPartitionsToTxn that arrives late looks
exactly like one of the transaction that runs now. What differs is the connection: a client that gave up waiting has
connected again, to this listener or to another one. On one connection requests are counted: where
the listener itself asked again, because the connection between it and the coordinator broke, the first copy may arrive
when the client is long at a later one. So the newest request that was done is kept with the transaction. An older one
of its connection changes nothing, nor does the first one of any other connection: both are told to come again.

Nobody reads that answer on a connection that was given up, and nobody gives it on to a client that has had another one.
A client that lives does read it and comes again, and its listener says for which request it was refused: if that is
still the newest one, this connection is the client's now. If not, another connection was heard meanwhile, and it is
told once more. Whatever is answered with success is the newest from then on, also when there was nothing to change:
its client goes on, and what it has left behind elsewhere must count no more.
"""

from typing import NamedTuple


class Stamp(NamedTuple):
    """Requests of one connection compare; those of two do not."""

    listener: int
    connection: int
    request: int = 0
    """0: not known."""


def is_copy(known: Stamp | None, asked: Stamp | None) -> bool:
    """The request has been done, or one of its connection that came after it."""
    return (
        known is not None
        and asked is not None
        and known[:2] == asked[:2]
        and 0 < asked.request <= known.request
    )


def is_delayed(known: Stamp | None, asked: Stamp | None, told: Stamp | None = None) -> bool:
    """A request that was done since, or may have been, is newer than this one.

    `known` was done last. `told`: its client was refused for that one, and comes again; on its own
    connection a client never goes back, whatever it was told.
    """
    if known is None or asked is None:
        return False
    if asked[:2] == known[:2]:
        return 0 < asked.request < known.request
    return told != known
