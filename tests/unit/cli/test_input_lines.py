"""Lines as records, and records as lines: separators, null, escapes, formats, times."""

import io

import pytest

from oncelog.client.core.consumer_record import ConsumerRecord
from oncelog.errors import OncelogError
from oncelog.times import milliseconds_of
from oncelog_server.cli.input_lines import LineForm, Lines, pieces, ranges, unescaped
from oncelog_server.cli.record_form import LINES, form_of


def record(key, value, headers=()):
    return ConsumerRecord("orders", 2, 7, 1500, 0, key, value, headers, -1)


def read(form, *pieces):
    return list(form.read([list(one) for one in pieces]))


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
    assert read(form, [b"NULL\tNULL", b"\t\r"], [b"a\tNULLS"]) == [
        Lines(1, [(None, None), (b"", b"")]),
        Lines(3, [(b"a", b"NULLS")]),
    ]
    shown = form_of(LINES, "<null>")
    assert shown(record(None, b"v")) == "orders-2@7\t<null>\tv\n"
    assert shown(record(b"", None)) == "orders-2@7\t\t<null>\n"


def test_a_line_without_a_separator_is_named_by_its_number():
    lines = LineForm(b"=").read([[b"z=0"], [b"a=1", b"bad", b"b=2"]])
    assert [next(lines), next(lines)] == [Lines(1, [(b"z", b"0")]), Lines(2, [(b"a", b"1")])]
    with pytest.raises(OncelogError, match="line 3 has no key separator '=': 'bad'"):
        next(lines)


class Pipe:
    def __init__(self, *written):
        self._written = iter(written)

    def read1(self, size):
        return next(self._written, b"")


def test_lines_come_as_soon_as_they_are_written():
    source = Pipe(b"a\nb", b"c", b"\n\n", b"d\n", b"last")
    assert list(pieces(source)) == [[b"a"], [b"bc", b""], [b"d"], [b"last"]]
    assert list(pieces(io.BytesIO(b""))) == []


def test_lines_are_cut_where_a_batch_is_full():
    lines = Lines(3, [(None, b"3"), (None, b"4"), (None, b"5"), (None, b"6"), (None, b"7")])
    assert [(one.first, len(one.records)) for one in lines.parts(4)] == [(3, 2), (5, 3)]
    assert [one.first for one in Lines(1, [(None, b"")] * 3).parts(1)] == [1, 2, 3]


def test_a_format_has_a_place_for_each_part_of_a_record():
    shown = form_of(r"%T|%t/%p/%o|%K:%k|%S:%s|%h|%%\x41\n", "-")
    given = record(b"k\xff", None, (("trace", b"1"), ("none", None)))
    assert shown(given) == "1500|orders/2/7|2:k\\xff|-1:-|trace=1,none=-|%A\n"


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
