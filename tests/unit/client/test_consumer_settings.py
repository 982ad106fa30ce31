"""A consumer's settings: Kafka's names, their defaults, and what is said of those that cannot be."""

import pytest

from oncelog.client.consumer import Consumer
from oncelog.client.core.consumer_settings import consumer_settings
from oncelog.client.errors import ConfigError


def test_only_committed_records_are_read_by_default():
    assert consumer_settings({}).reads_committed


def test_the_defaults_are_kafkas():
    found = consumer_settings({})
    assert found.auto_offset_reset == "latest"
    assert (found.max_poll_records, found.max_poll_interval_ms) == (500, 300_000)
    assert (found.fetch_min_bytes, found.fetch_max_wait_ms) == (1, 500)
    assert (found.fetch_max_bytes, found.max_partition_fetch_bytes) == (50 << 20, 1 << 20)
    assert (found.enable_auto_commit, found.auto_commit_interval_ms) == (True, 5000)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P2DT30M", 174_600_000),
        ("by_duration:PT0.5S", 500),
    ],
)
def test_a_reset_may_go_back_by_a_duration(text, duration_ms):
    assert consumer_settings({"auto_offset_reset": text}).reset_duration_ms == duration_ms


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"isolation_level": "dirty"}, "isolation.level is 'dirty'"),
        ({"auto_offset_reset": "by_duration:1h"}, "by_duration:PT1H"),
        ({"auto_offset_reset": "by_duration:P"}, "by_duration:PT1H"),
        ({"max_poll_records": 0}, "max.poll.records is 0"),
        ({"group_id": ""}, "group.id is empty"),
        ({"group_instance_id": "i"}, "without group.id"),
        ({"enable_auto_commit": True}, "without group.id"),
    ],
)
def test_a_setting_that_cannot_be_says_the_way_out(given, said):
    with pytest.raises(ConfigError, match=said):
        consumer_settings(given)


def test_kafkas_dotted_names_are_taken():
    consumer = Consumer("h:1", {"max.poll.records": "7", "client.id": "me"})
    assert consumer.settings.max_poll_records == 7


def test_a_wrong_name_says_which_was_meant():
    with pytest.raises(ConfigError, match=r"did you mean fetch\.min\.bytes"):
        Consumer("h:1", {"fetch.min.byte": 1})
