"""What a page of records shows: places, shares, cursors, filters, contents."""

import pytest

from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.records import Record
from oncelog_gateway.core.paging import cursor_of
from oncelog_gateway.core.record_content import (
    PREVIEW_LENGTH,
    as_json,
    content_of,
    hex_dump,
    hex_preview,
    preview_of,
    schema_id,
)
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.core.record_position import Place, Reading, queued, shares

PLACES = (Place(0, 5), Place(1, 0), Place(2, 9))


def test_a_cursor_is_read_as_it_was_written():
    for is_backward in (True, False):
        reading = Reading(is_backward, PLACES)
        cursor = reading.cursor()
        assert cursor is not None
        assert Reading.of_cursor(cursor) == reading
    assert Reading(False, ()).cursor() is None


@pytest.mark.parametrize(
    "position",
    [
        [],
        ["forward"],
        ["sideways", [0, 1]],
        ["forward", [0]],
        ["forward", [0, 1, 2]],
        ["forward", ["0", 1]],
        ["forward", [0, True]],
        ["forward", [-1, 0]],
        ["forward", [0, -1]],
        ["forward", [0, 2**63]],
        ["forward", [2**31, 0]],
        ["forward", [0, 1], [0, 2]],
        {"forward": 1},
        7,
    ],
)
def test_a_cursor_that_cannot_be_is_refused(position):
    with pytest.raises(KafkaError, match="is not a cursor of this list") as refused:
        Reading.of_cursor(cursor_of(position))
    assert refused.value.error_code is ErrorCode.RESOURCE_NOT_FOUND


def test_each_partition_has_its_share_of_a_page():
    assert shares(PLACES, 100) == [(PLACES[0], 34), (PLACES[1], 33), (PLACES[2], 33)]
    assert shares(PLACES, 2) == [(PLACES[0], 1), (PLACES[1], 1)]
    assert shares((), 5) == []


def test_who_was_read_comes_last_the_next_time():
    assert queued(PLACES, 2, [Place(0, 6)]) == (Place(2, 9), Place(0, 6))


RECORD = Record(b"key", b"the value", headers=(("h", b"1"), ("n", None), ("\udcff", b"odd")))


@pytest.mark.parametrize(
    ("key", "header", "text", "fits"),
    [
        (None, None, None, True),
        ("key", None, None, True),
        ("ke", None, None, False),
        ("", None, None, False),
        (None, "h", None, True),
        (None, "h=1", None, True),
        (None, "h=", None, False),
        (None, "h=2", None, False),
        (None, "n", None, True),
        (None, "n=", None, False),
        (None, "\\xff", None, True),
        (None, "x", None, False),
        (None, None, "val", True),
        (None, None, "ke", True),
        (None, None, "odd", True),
        (None, None, "VAL", False),
        (None, None, "", True),
        ("key", "h=1", "value", True),
        ("key", "h=1", "other", False),
    ],
)
def test_everything_that_a_filter_names_must_fit(key, header, text, fits):
    assert RecordFilter.of(key, header, text).fits(RECORD) is fits


def test_no_text_is_in_a_record_without_key_and_value():
    assert not RecordFilter.of(None, None, "x").fits(Record(None, None))
    assert not RecordFilter.of("", None, None).fits(Record(None, None))
    assert RecordFilter.of("", None, None).fits(Record(b"", None))


@pytest.mark.parametrize(
    ("data", "bytes_max", "expected"),
    [
        (None, 9, (None, None, None, False)),
        (b"", 9, ("", None, 0, False)),
        (b"abc", 3, ("abc", None, 3, False)),
        (b"abc", 2, ("ab", None, 3, True)),
        (b"abc", 0, ("", None, 3, True)),
        ("aü".encode(), 2, ("a", None, 3, True)),
        ("a€".encode(), 3, ("a", None, 4, True)),
        ("a😀".encode(), 4, ("a", None, 5, True)),
        ("aü".encode()[:2], 9, (None, "YcM=", 2, False)),
        (b"\xff", 9, (None, "/w==", 1, False)),
        (b"\xffab", 1, (None, "/w==", 3, True)),
    ],
)
def test_text_is_never_cut_within_a_character(data, bytes_max, expected):
    assert content_of(data, bytes_max) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, "ü"]}', '{\n  "a": [\n    1,\n    "ü"\n  ]\n}'),
        (" []", "[]"),
        ('["\\ud800"]', '[\n  "\\ud800"\n]'),
        ("12", None),
        ("plain", None),
        ("{broken", None),
        ("[" * 100_000, None),
        ("", None),
    ],
)
def test_json_is_shown_in_lines(text, expected):
    assert as_json(text) == expected


def test_hex_shows_places_bytes_and_letters():
    assert hex_dump(b"\x00oncelog \xff{}" + bytes(range(0x30, 0x38))).split("\n") == [
        "000000  00 6f 6e 63 65 6c 6f 67  20 ff 7b 7d 30 31 32 33  .oncelog .{}0123",
        "000010  34 35 36 37                                       4567",
    ]
    assert hex_dump(b"") == ""
    assert hex_preview(bytes(33)) == " ".join(["00"] * 32) + " …"
    assert hex_preview(b"\x01\xfe") == "01 fe"


def test_a_preview_is_one_line_of_a_bounded_length():
    assert preview_of('{\n  "a": 1\n}') == '{ "a": 1 }'
    assert preview_of("x" * 5_000) == "x" * PREVIEW_LENGTH + "…"


def test_a_confluent_value_names_its_schema():
    assert schema_id(b"\x00\x00\x00\x00\x2adata") == 42
    assert schema_id(b"\x00\x00\x00\x00\x2a") is None
    assert schema_id(b'{"a": 1}') is None
