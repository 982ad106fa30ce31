"""The dynamic settings of a storage node: the value that the metadata have now, else the one it was started with
(`oncelog.broker_config`).
"""

import asyncio
from typing import Final

from oncelog.broker_config import (
    CLEANER_MAP_BYTES,
    CLEANER_PAUSE,
    PRODUCER_ID_EXPIRATION,
    VERIFICATION,
)
from oncelog.rpc.metadata import MetadataFollower
from oncelog_storage.settings import StorageSettings

_CLEANER_PAUSE_MIN_MS: Final = 10
"""The cleaner's pause is at least this long, in ms. A shorter pause may be set, as in Kafka, but the cleaner would take
the event loop for itself.
"""


class ChangedSettings:
    def __init__(self, settings: StorageSettings, node_id: int, metadata: MetadataFollower) -> None:
        self._settings = settings
        self._node_id = node_id
        self._metadata = metadata

    @property
    def verifies_transactions(self) -> bool:
        found = self._metadata.image.changed_setting(self._node_id, VERIFICATION)
        if found is None:
            return self._settings.transaction_partition_verification_enable
        return found == "true"

    @property
    def producer_id_expiration_ms(self) -> int:
        return self._number(PRODUCER_ID_EXPIRATION, self._settings.producer_id_expiration_ms)

    @property
    def cleaner_map_bytes(self) -> int:
        return self._number(CLEANER_MAP_BYTES, self._settings.cleaner_map_bytes)

    async def cleaner_pause(self) -> None:
        """Wait for the pause between two rounds of the log cleaner.

        A new length that is set meanwhile counts from the beginning of this pause.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while (left := begun + self._cleaner_pause_s - loop.time()) > 0:
            await self._metadata.newer_than(self._metadata.image, left)

    @property
    def _cleaner_pause_s(self) -> float:
        pause_ms = self._number(CLEANER_PAUSE, self._settings.cleaner_interval_ms)
        return max(pause_ms, _CLEANER_PAUSE_MIN_MS) / 1000

    def _number(self, name: str, own: int) -> int:
        found = self._metadata.image.changed_setting(self._node_id, name)
        return own if found is None else int(found)
