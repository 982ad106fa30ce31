"""The warm-up: code and schemas that every run needs are loaded once, before the runs fork from this process.

Production code imports late and builds its messages' schemas at their first use, which is right for a process that
lives for weeks. A run lives for two seconds, and loading took a quarter of a second of them.
"""

import importlib
from collections.abc import Mapping
from typing import Final

from kio.serial import entity_reader

from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.protocol.writing import message_writer
from oncelog_robustness.clients.libraries import LIBRARIES, SIMULATED

_MODULES: Final = (
    "encodings.utf_16_be",
    "oncelog_controller.wiring",
    "oncelog_coordinator.wiring",
    "oncelog_listener.wiring",
    "oncelog_marker_sender.wiring",
    "oncelog_storage.wiring",
    "sqlalchemy.dialects.sqlite.aiosqlite",
)
"""The modules that production code or a library imports while a run goes on."""

_SPOKEN_BY_AIOKAFKA: Final[Mapping[int, int]] = {
    versions.PRODUCE: 7,
    versions.FETCH: 11,
    versions.LIST_OFFSETS: 3,
    versions.METADATA: 5,
    versions.OFFSET_FETCH: 3,
    versions.FIND_COORDINATOR: 1,
    versions.JOIN_GROUP: 5,
    versions.HEARTBEAT: 1,
    versions.LEAVE_GROUP: 1,
    versions.SYNC_GROUP: 3,
    versions.API_VERSIONS: 0,
    versions.INIT_PRODUCER_ID: 0,
    versions.ADD_PARTITIONS_TO_TXN: 0,
    versions.ADD_OFFSETS_TO_TXN: 0,
    versions.END_TXN: 0,
    versions.TXN_OFFSET_COMMIT: 0,
}
"""The versions that aiokafka uses of each API.
A missing version is loaded by the runs that use it: slower, and nothing else."""


def warm_up() -> None:
    """Import the modules and build the message schemas that every run needs. This draws no random number and
    opens nothing."""
    for name in _MODULES:
        importlib.import_module(name)
    for library in SIMULATED:
        LIBRARIES[library](())
    # Now it is loaded.
    from oncelog_robustness.clients.wire import SPOKEN

    for api_key, version in [*SPOKEN.items(), *_SPOKEN_BY_AIOKAFKA.items()]:
        schema_of(api_key, version)
    for api_key, version in SPOKEN.items():
        schema = schema_of(api_key, version)
        message_writer(schema.request)
        entity_reader(schema.response)
