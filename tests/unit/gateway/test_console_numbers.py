"""Long numbers on pages: groups of three digits, one rule for all."""

import pytest

from oncelog_gateway.console_numbers import digits, thin_digits


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1_200, '<span class="num">1<span>200</span></span>'),
        (12_345_678, '<span class="num">12<span>345</span><span>678</span></span>'),
        ("behind by 12345", 'behind by <span class="num">12<span>345</span></span>'),
        ("1023.4 KiB", '<span class="num">1<span>023</span></span>.4 KiB'),
        ("1000 to 2000", "{} to {}"),
        ("a < 1", "a &lt; 1"),
    ],
)
def test_digits_are_in_groups_of_three(value, shown):
    thousands = [f'<span class="num">{one}<span>000</span></span>' for one in (1, 2)]
    assert str(digits(value)) == shown.format(*thousands)


@pytest.mark.parametrize(
    "text",
    [
        "orders-12345 is held",
        "producer 999998, epoch 32767",
        "client 'app-1' at 10.0.0.1:56258",
        "2026-11-29",
        "02:44:10 UTC (28 Nov 2025)",
        "'20251129' is a name",
        "id-2025/1234",
    ],
)
def test_names_and_dates_keep_their_digits_together(text):
    assert "num" not in digits(text)
    assert thin_digits(text) == text


def test_a_picture_has_thin_spaces_that_no_line_breaks_at():
    assert thin_digits("250000") == "250\u202f000"
    assert "<" not in thin_digits("250000")
