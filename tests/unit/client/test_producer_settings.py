"""S2-81 to S2-97: Kafka's names, defaults and conflicts."""

from typing import get_type_hints

import pytest

from oncelog.client import ConfigError, Producer
from oncelog.client.core.producer_settings import ProducerSettings, producer_settings
from oncelog.client.network.brokers import NetworkOptions
from oncelog.client.options import ProducerOptions
from oncelog.record.batch import Codec


def test_defaults_are_kafkas():
    found = producer_settings({})
    assert (found.acks, found.enable_idempotence, found.batch_size) == (-1, True, 16_384)
    assert (found.linger_ms, found.buffer_memory, found.max_block_ms) == (5, 32 << 20, 60_000)
    assert found.max_in_flight_requests_per_connection == 5
    assert (found.retries, found.delivery_timeout_ms) == (2**31 - 1, 120_000)
    assert (found.request_timeout_ms, found.retry_backoff_ms) == (30_000, 100)
    assert (found.compression_type, found.max_request_size) == ("none", 1 << 20)
    assert (found.transactional_id, found.transaction_timeout_ms) == (None, 60_000)


def test_each_setting_is_a_typed_keyword():
    settings = {*ProducerSettings.__slots__, *NetworkOptions.__slots__}
    assert set(get_type_hints(ProducerOptions)) == settings


def test_kafkas_names_mean_the_same():
    given = {"linger.ms": "20", "enable.idempotence": "true", "compression.type": "lz4"}
    found = Producer("localhost:9092", given).settings
    assert (found.linger_ms, found.enable_idempotence, found.codec) == (20.0, True, Codec.LZ4)


def test_bootstrap_servers_may_stand_in_the_config():
    producer = Producer(config={"bootstrap.servers": "one:1,two:2"})
    assert [one.host for one in producer._network.bootstrap] == ["one", "two"]


def test_a_batch_size_of_0_is_taken_for_1():
    assert producer_settings({"batch_size": 0}).batch_size == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"linger": 5}, "did you mean linger_ms?"),
        ({"acks": 2}, "acks is 2: give all, 0 or 1"),
        ({"linger_ms": "soon"}, "linger.ms is 'soon': give a number"),
        ({"retries": 1.5}, "retries is 1.5: give a whole number"),
        ({"retries": -1}, "retries is -1: give 0 or more"),
        ({"enable_idempotence": "perhaps"}, "give true or false"),
        ({"compression_type": "brotli"}, "give none, gzip, snappy, lz4, zstd"),
        ({"compression_type": "gzip", "compression_gzip_level": 10}, "is 10: give 1 to 9"),
        ({"transactional_id": ""}, "transactional.id is empty"),
        ({"transactional_id": 7}, "transactional.id is 7: give text"),
        (
            {"transactional_id": "pay", "enable_idempotence": False},
            "a transaction needs idempotence",
        ),
        ({"transactional_id": "pay", "acks": 1}, "idempotence needs acks=all"),
        ({"enable_idempotence": True, "acks": 0}, "idempotence needs acks=all"),
        ({"enable_idempotence": True, "retries": 0}, "idempotence needs retries of 1 or more"),
        ({"max_in_flight_requests_per_connection": 6}, "with idempotence give 1 to 5"),
        ({"max_in_flight_requests_per_connection": 0}, "give 1 to 5"),
        ({"delivery_timeout_ms": 30_004}, "give at least linger.ms + request.timeout.ms, 30005"),
        ({"buffer_memory": 0}, "buffer.memory is 0: give 1 or more"),
    ],
)
def test_what_cannot_be_is_refused_with_a_way_out(given, said):
    with pytest.raises(ConfigError) as refused:
        Producer("localhost:9092", **given)
    assert said in str(refused.value)


def test_a_wrong_name_of_kafkas_is_answered_in_kafkas_way():
    with pytest.raises(ConfigError, match=r"did you mean compression\.type\?"):
        Producer(config={"compresion.type": "lz4"})


def test_one_setting_given_twice_is_refused():
    with pytest.raises(ConfigError, match="give one of them"):
        Producer(config={"linger.ms": 1}, linger_ms=2)


def test_a_wrong_login_is_refused():
    with pytest.raises(ConfigError, match=r"sasl\.mechanism is missing"):
        Producer(config={"security.protocol": "SASL_PLAINTEXT"})


def test_no_server_is_refused():
    with pytest.raises(ConfigError, match="names no server"):
        Producer("")


@pytest.mark.parametrize("weaker", [{"acks": 1}, {"acks": "0"}, {"retries": 0}])
def test_a_weaker_setting_alone_switches_idempotence_off(weaker):
    assert not producer_settings(weaker).enable_idempotence


def test_six_in_flight_are_taken_without_idempotence():
    found = producer_settings(
        {"enable_idempotence": False, "max_in_flight_requests_per_connection": 6}
    )
    assert found.max_in_flight_requests_per_connection == 6


def test_the_delivery_timeout_follows_what_was_given():
    assert producer_settings({"request_timeout_ms": 200_000}).delivery_timeout_ms == 200_005
