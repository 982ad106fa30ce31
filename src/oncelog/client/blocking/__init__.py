"""The client for threads: `Producer`, `Consumer` and `Admin` as in `oncelog.client`, without `await`.

    from oncelog.client.blocking import Producer

    with Producer("localhost:9092") as producer:
        print(producer.send("payments", b"12.50", key=b"alice").result())

Errors, partitions and other values come from `oncelog.client`. Each client has one I/O thread with an event loop, and
there the client for asyncio. A thread of the program never touches a socket.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from oncelog.client.blocking.admin import Admin
    from oncelog.client.blocking.consumer import Consumer
    from oncelog.client.blocking.delivery import Delivery
    from oncelog.client.blocking.producer import Producer, Transaction

__all__ = ["Admin", "Consumer", "Delivery", "Producer", "Transaction"]

_PLACES: Final = {
    "Admin": "admin",
    "Consumer": "consumer",
    "Delivery": "delivery",
    "Producer": "producer",
    "Transaction": "producer",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
