"""Pages, patterns, quantities and configurations, without a cluster."""

import base64
import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import KafkaError
from oncelog.topic_config import TOPIC_CONFIGS, checked_overrides
from oncelog_gateway.core.id_pattern import ID_PATTERN_SCHEMA, as_regular_expression
from oncelog_gateway.core.paging import PageRequest, page_of
from oncelog_gateway.core.topic_configs import CONFIGS_SCHEMA, configs_as_json, configs_as_text
from oncelog_gateway.core.wording import duration, precise_duration, ranges, size


class Row(NamedTuple):
    transactional_id: str
    producer_id: int = 0


@given(
    st.lists(st.builds(Row, st.text(max_size=3), st.integers(0, 2)), unique=True), st.integers(1, 5)
)
def test_pages_show_every_row_once_and_in_order(rows, limit):
    seen = []
    cursor = None
    for _ in range(len(rows) + 1):
        page, cursor = page_of(rows, tuple, PageRequest(limit, cursor))
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert cursor is None
    assert seen == sorted(rows)


@given(st.text(max_size=20))
def test_a_cursor_of_another_list_is_refused(cursor):
    _, numbers = page_of([1, 2], lambda row: (row,), PageRequest(1))
    rows = [Row("a"), Row("b")]
    for wrong in (cursor, numbers):
        with pytest.raises(KafkaError, match="is not a cursor of this list"):
            page_of(rows, tuple, PageRequest(1, wrong))


def test_a_cursor_of_nested_lists_is_refused():
    """Python's JSON decoder gives up on it with an error that is no ValueError; the gateway answered 500."""
    cursor = base64.urlsafe_b64encode(b"[" * 60_000).decode()
    with pytest.raises(KafkaError, match="is not a cursor of this list"):
        page_of([Row("a"), Row("b")], tuple, PageRequest(1, cursor))


@given(st.text(alphabet="ab*.\\[(\n1", max_size=6), st.text(alphabet="ab.\\[(\n1", max_size=8))
def test_only_the_star_is_special(pattern, name):
    def matches(pattern, name):
        if not pattern:
            return not name
        if pattern[0] == "*":
            return matches(pattern[1:], name) or (name != "" and matches(pattern, name[1:]))
        return name[:1] == pattern[0] and matches(pattern[1:], name[1:])

    if pattern:
        found = re.compile(as_regular_expression(pattern)).fullmatch(name) is not None
        assert found == matches(pattern, name)


def test_no_pattern_is_no_filter():
    assert as_regular_expression("") == ""


def test_more_than_three_stars_are_refused_by_the_schema():
    assert re.search(ID_PATTERN_SCHEMA, "a*b*c*d")
    assert not re.search(ID_PATTERN_SCHEMA, "a*b*c*d*")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (3_725_000, "1 h 2 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_a_duration_has_two_units_at_most(milliseconds, text):
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")],
)
def test_a_size_has_the_largest_unit_that_fits(size_bytes, text):
    assert size(size_bytes) == text


def test_configs_are_written_as_kafka_does():
    given = {
        "retention.ms": 1000.0,
        "unclean.leader.election.enable": True,
        "cleanup.policy": ["compact", "delete"],
    }
    text = configs_as_text(given)
    assert text == {
        "retention.ms": "1000",
        "unclean.leader.election.enable": "true",
        "cleanup.policy": "compact,delete",
    }
    assert checked_overrides(text) == text
    assert configs_as_json(text) == given


@pytest.mark.parametrize(
    ("configs", "word"),
    [
        ({"retention": 1}, "retention.ms"),
        ({"retention.ms": "1000"}, "an integer"),
        ({"retention.ms": True}, "an integer"),
        ({"retention.ms": -2}, "-1"),
        ({"retention.ms": 2**60}, "leave it out"),
        ({"cleanup.policy": "delete"}, "list"),
        ({"cleanup.policy": [["delete"]]}, "delete, compact"),
        ({"compression.type": "zip"}, "producer"),
        ([], "object"),
    ],
)
def test_a_config_that_could_never_be_right_is_named(configs, word):
    with pytest.raises(ValueError, match=re.escape(word)):
        configs_as_text(configs)


def test_the_schema_has_every_config():
    assert list(CONFIGS_SCHEMA["properties"]) == list(TOPIC_CONFIGS)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([7], "7"), ([3, 1, 2, 0], "0–3"), ([0, 1, 5, 7, 8], "0–1, 5, 7–8")],
)
def test_numbers_that_follow_each_other_are_a_range(numbers, text):
    assert ranges(numbers) == text


def test_durations_that_are_compared_have_tenths():
    texts = [precise_duration(one) for one in (999, 1_000, 1_449, 9_999, 10_000, 61_000)]
    assert texts == ["999 ms", "1.0 s", "1.4 s", "10.0 s", "10 s", "1 min 1 s"]
