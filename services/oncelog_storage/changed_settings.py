"""The settings of a storage node that change while it runs, as the metadata says now (`oncelog.broker_config`)."""

from oncelog.broker_config import PRODUCER_ID_EXPIRATION, VERIFICATION
from oncelog.rpc.metadata import MetadataFollower
from oncelog_storage.settings import StorageSettings


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
        found = self._metadata.image.changed_setting(self._node_id, PRODUCER_ID_EXPIRATION)
        return self._settings.producer_id_expiration_ms if found is None else int(found)
