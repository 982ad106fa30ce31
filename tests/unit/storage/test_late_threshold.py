"""From when on a transaction is late: what the critical alert fires on."""

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.metadata import MetadataImage
from oncelog_storage.replication import late_transaction_ms
from oncelog_storage.settings import StorageSettings

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


def image_with(timeout_ms):
    configs = {"transaction.max.timeout.ms": str(timeout_ms)}
    return MetadataImage(
        nodes={1: pb.Node(node_id=1, roles=[pb.ROLE_COORDINATOR], configs=configs)}
    )


def test_late_is_the_longest_timeout_and_five_minutes():
    settings = StorageSettings()
    assert late_transaction_ms(settings, MetadataImage()) == 20 * MINUTE_MS
    assert late_transaction_ms(settings, image_with(HOUR_MS)) == 65 * MINUTE_MS
    assert late_transaction_ms(settings, image_with(MINUTE_MS)) == 6 * MINUTE_MS


def test_a_threshold_that_is_set_counts():
    settings = StorageSettings(late_transaction_ms=7)
    assert late_transaction_ms(settings, image_with(HOUR_MS)) == 7
