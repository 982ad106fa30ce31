"""Lines as records, and records as lines: separators, null, escapes, formats, times."""

import pytest

from oncelog.errors import OncelogError
from oncelog_server.cli.input_lines import Line, LineForm, ranges, unescaped
from oncelog_server.cli.record_form import LINES, form_of
from oncelog_server.cli.times import milliseconds_of


class Record:
    """A record as the client gives it."""

    def __init__(self, key, value, headers=None):
        self._key, self._value, self._headers = key, value, headers

    def topic(self):
        return "orders"

    def partition(self):
        return 2

    def offset(self):
        return 7

    def timestamp(self):
        return (1, 1500)

    def key(self):
        return self._key

    def value(self):
        return self._value

    def headers(self):
        return self._headers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\t", b"\t"),
        (r"a\x1fb", b"a\x1fb"),
        (r"\\t", b"\\t"),
        ("ü", "ü".encode()),
        (r"\0\n\r", b"\0\n\r"),
    ],
)
def test_escapes_are_those_of_a_shell(text, found):
    assert unescaped(text) == found


@pytest.mark.parametrize("text", [r"\q", "a\\", r"\x1"])
def test_what_is_no_escape_is_refused(text):
    with pytest.raises(ValueError, match="is no escape"):
        unescaped(text)


def test_null_and_empty_keys_and_values_are_different():
    form = LineForm(b"\t", b"NULL")
    assert list(form.read([b"NULL\tNULL\n", b"\t\r\n", b"a\tNULLS\n"])) == [
        Line(1, None, None),
        Line(2, b"", b""),
        Line(3, b"a", b"NULLS"),
    ]
    shown = form_of(LINES, "<null>")
    assert shown(Record(None, b"v")) == "orders-2@7\t<null>\tv\n"
    assert shown(Record(b"", None)) == "orders-2@7\t\t<null>\n"


def test_a_line_without_a_separator_is_named_by_its_number():
    with pytest.raises(OncelogError, match="line 2 has no key separator '=': 'bad'"):
        list(LineForm(b"=").read([b"a=1\n", b"bad\n"]))


def test_a_format_has_a_place_for_each_part_of_a_record():
    shown = form_of(r"%T|%t/%p/%o|%K:%k|%S:%s|%h|%%\x41\n", "-")
    record = Record(b"k\xff", None, [("trace", b"1"), ("none", None)])
    assert shown(record) == "1500|orders/2/7|2:k\\xff|-1:-|trace=1,none=-|%A\n"


@pytest.mark.parametrize("text", ["%x", "100%"])
def test_a_place_that_there_is_not_is_refused(text):
    with pytest.raises(ValueError, match="stands for nothing; there are %t"):
        form_of(text, "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T02:00:01.5+02:00", 1500),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_time_without_a_zone_is_utc(text, found):
    assert milliseconds_of(text) == found


@pytest.mark.parametrize("text", ["yesterday", "", "-1", str(2**63)])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="2026-01-31T14:00:00Z"):
        milliseconds_of(text)


def test_ranges_are_short():
    assert ranges([]) == ""
    assert ranges([1, 2, 3, 7]) == "1 to 3, 7"
    assert ranges(range(1, 100, 2), most=2) == "1, 3 and 48 more ranges"
