"""The brokers of a client on asyncio: connections, metadata, coordinators.

The administrator's modules are imported when they are used: a command makes one call, and should start soon.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog.client.network import (
        admin_cluster,
        admin_groups,
        admin_topics,
        admin_transactions,
        admin_users,
        log_offsets,
    )

__all__ = [
    "admin_cluster",
    "admin_groups",
    "admin_topics",
    "admin_transactions",
    "admin_users",
    "log_offsets",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
