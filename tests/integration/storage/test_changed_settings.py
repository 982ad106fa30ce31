"""Settings of a storage node that change while it runs (Kafka's dynamic broker configs) count at once."""

from tests.integration.storage.storage_node import (
    NODE,
    NOW,
    batch,
    running,
    topic,
    txn_batch,
    until,
)

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.record.batch import Codec, read_header

VERIFICATION = "transaction.partition.verification.enable"
EXPIRATION = "producer.id.expiration.ms"


def set_for(node, name, **configs):
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    kind = controller_pb2.CONFIG_KIND_BROKER
    node.delta(configs=[controller_pb2.DynamicConfigs(kind=kind, name=name, configs=configs)])


async def test_verification_is_switched_off_for_all_and_on_for_one(tmp_path):
    async with running(tmp_path, topic("orders", 3)) as node:

        async def produce(partition):
            answer = await node.produce(
                "orders", txn_batch(5, 0), partition=partition, transactional_id="pay", mode=0
            )
            assert answer.error_code == ErrorCode.NONE
            return len(node.coordinator.calls)

        assert await produce(0) == 1
        set_for(node, "", transaction_partition_verification_enable="false")
        assert await produce(1) == 1, "nobody is asked"
        set_for(node, str(NODE), transaction_partition_verification_enable="true")
        assert await produce(2) == 2, "what is set for this node is stronger"


async def test_producers_expire_after_the_time_that_is_set(node):
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    await node.produce("orders", batch(**fields))
    node.clock.time += 2_000
    hosted = node.role.partition(Partition("orders", 0))
    producers, verifications = hosted.log.producers, hosted.verifications
    # Its batch was verified and never came.
    verifications.begin(8, 0, 0, supports_epoch_bump=False, now=NOW)
    node.role.maintenance.expire_producers()
    assert producers.get(7) is not None
    assert verifications.get(8) is not None
    set_for(node, "", producer_id_expiration_ms="1000")
    node.role.maintenance.expire_producers()
    assert producers.get(7) is None
    assert verifications.get(8) is None


async def test_defaults_of_topics_count_where_the_topic_sets_nothing(tmp_path):
    topics = [topic("plain"), topic("own", compression_type="zstd")]
    async with running(tmp_path, *topics) as node:
        set_for(node, "", compression_type="lz4")
        for name, codec in (("plain", Codec.LZ4), ("own", Codec.ZSTD)):
            await node.produce(name, batch())
            assert read_header((await node.fetch(name, 0)).records).codec == codec
        set_for(node, "")
        await node.produce("plain", batch())
        assert read_header((await node.fetch("plain", 1)).records).codec == Codec.NONE


async def test_the_cleaners_pause_may_end_while_it_lasts(tmp_path):
    topics = [topic("c", cleanup_policy="compact", segment_bytes=1024)]
    async with running(tmp_path, *topics, cleaner_interval_ms=3_600_000) as node:
        for index in range(20):
            await node.produce("c", batch(key=b"k%d" % (index % 2), value=b"x" * 200))
        assert node.role.maintenance.cleaner.metrics.passes == 0
        set_for(node, "", log_cleaner_backoff_ms="0")
        await until(lambda: node.role.maintenance.cleaner.metrics.passes == 1)


async def test_a_cleaning_pass_has_the_memory_that_is_set(tmp_path):
    topics = [topic("c", cleanup_policy="compact", segment_bytes=1024)]
    async with running(tmp_path, *topics, cleaner_interval_ms=3_600_000) as node:
        for index in range(100):
            await node.produce("c", batch(key=b"k%d" % (index % 20), value=b"x" * 200))
        set_for(node, str(NODE), log_cleaner_dedupe_buffer_size="1024")
        cleaner = node.role.maintenance.cleaner
        await cleaner.clean_all()
        assert cleaner.metrics.passes > 1, "one pass knows four keys of 20"
