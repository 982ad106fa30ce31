"""A batch with bad records: a client learns which of them are at fault (KIP-467).

librdkafka reads the list, but gives every message the code of the batch: it overwrites what it has read.
"""

import asyncio
import time

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from tests.conformance.group_members import eventually
from tests.conformance.logins import wire_client
from tests.worlds.listener.listener_requests import produce_request

from oncelog.record.records import Record, encode_batch

PRODUCE, INVALID_TIMESTAMP, INVALID_RECORD = 0, 32, 87
DAY_MS = 86_400_000


def now_ms():
    return int(time.time() * 1000)


def port_of_leader(server, topic):
    """Where partition 0 is led: one of three nodes of Kafka, or any listener of ours."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    leader = eventually(
        lambda: (known := admin.list_topics(topic, 20)).brokers.get(
            known.topics[topic].partitions[0].leader
        )
    )
    return leader.port


def produced(server, topic, version, records):
    """The answer to one batch of these records."""

    async def scenario():
        client = await wire_client(port_of_leader(server, topic))
        request = produce_request(version, topic, records=(bytes(encode_batch(records)),))
        answer = await client.call(PRODUCE, version, request=request)
        client.close()
        return answer.responses[0].partition_responses[0]

    return asyncio.run(scenario())


def test_records_without_a_key_on_a_compacted_topic_are_named(server, new_topic):
    topic = new_topic(cleanup_policy="compact")
    batch = [Record(key, b"v", now_ms()) for key in (b"k", None, b"k", None)]
    for version in (8, 10, 12):
        answer = produced(server, topic, version, batch)
        assert (answer.error_code, answer.base_offset) == (INVALID_RECORD, -1)
        assert answer.error_message.startswith("2 of 4 records are refused")
        assert [
            (one.batch_index, one.batch_index_error_message) for one in answer.record_errors
        ] == [(at, f"record {at} has no key; a compacted topic needs one") for at in (1, 3)]
    assert produced(server, topic, 7, batch).error_code == INVALID_RECORD
    assert produced(server, topic, 10, batch[:1]).base_offset == 0


def test_a_record_out_of_time_is_named(server, new_topic):
    topic = new_topic(message_timestamp_before_max_ms=DAY_MS)
    now = now_ms()
    batch = [Record(b"k", b"v", at) for at in (now, now - 3 * DAY_MS, now)]
    answer = produced(server, topic, 10, batch)
    assert answer.error_code == INVALID_TIMESTAMP
    (error,) = answer.record_errors
    assert error.batch_index == 1
    assert "message.timestamp.before.max.ms" in error.batch_index_error_message


@pytest.mark.parametrize("bad", [0, 2])
def test_no_message_of_such_a_batch_is_delivered(server, new_topic, bad):
    topic = new_topic(cleanup_policy="compact")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "linger.ms": 1000, "log_level": 0}
    )
    codes = []
    for index in range(3):
        key = None if index == bad else b"k"
        producer.produce(topic, b"v", key, 0, lambda error, _: codes.append(error.code()))
    assert producer.flush(30) == 0
    assert all(
        code in (KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD) for code in codes
    )
    assert len(codes) == 3
