"""What a group has not read: what it can read now, and what an open transaction holds back."""

import pytest

from oncelog_gateway.core.held_back import (
    Behind,
    Holder,
    is_blocked,
    longest,
    may_be_blocked,
    unread,
    where_it_stands,
)

SPLITS = [
    # committed offset, LSO, high watermark: readable, held back
    ("all is read", (10, 10, 10), (0, 0)),
    ("nothing is held", (4, 10, 10), (6, 0)),
    ("all of it is held", (4, 4, 10), (0, 6)),
    ("both", (4, 7, 10), (3, 3)),
    ("read beyond the LSO", (8, 7, 10), (0, 2)),
    ("read to the end, beyond the LSO", (10, 7, 10), (0, 0)),
    ("committed beyond the end, after data loss", (12, 10, 10), (0, 0)),
    ("an LSO that is ahead of the high watermark", (4, 11, 10), (6, 0)),
]


@pytest.mark.parametrize(("case", "ends", "split"), SPLITS, ids=[one[0] for one in SPLITS])
def test_the_lag_is_what_is_readable_and_what_is_held(case, ends, split):
    offset, _, high_watermark = ends
    assert unread(*ends) == split
    assert sum(unread(*ends)) == max(high_watermark - offset, 0)


@pytest.mark.parametrize(
    ("ends", "read", "blocked"),
    [
        ((4, 4, 10), Behind(read_to=4), True),
        ((3, 4, 10), Behind(markers=1, read_to=4), True),
        ((2, 4, 10), Behind(aborted=1, markers=1, read_to=4), True),
        ((2, 4, 10), Behind(records=1, markers=1, read_to=4), False),
        # Read in part: what follows may be a record.
        ((1, 4, 10), Behind(markers=1, read_to=2), False),
        ((10, 10, 10), Behind(read_to=10), False),
        # It reads uncommitted records, so nothing holds it back.
        ((5, 4, 10), Behind(read_to=5), False),
    ],
)
def test_a_group_is_blocked_with_nothing_left_to_read(ends, read, blocked):
    assert is_blocked(*ends, read) is blocked
    assert may_be_blocked(*ends) or not blocked


PAY = Holder("pay-7", 7, 120_000, 3_000, False)
HANGING = Holder(None, 77, None, 7_200_000, True)


@pytest.mark.parametrize(
    ("lag", "holder", "words"),
    [
        (0, None, "has read everything"),
        (12, None, "behind by 12"),
        (None, None, "not known"),
        (12, PAY, "blocked by pay-7 for 2 min"),
        (12, HANGING, "blocked by a hanging transaction of producer 77 for at least 2 h"),
        (
            12,
            Holder("old", 8, None, 1_000, True),
            "blocked by a hanging transaction of old for at least 1 s",
        ),
        (
            12,
            Holder(None, 77, None, 1_000, True, 7_200_000),
            "blocked by a hanging transaction of producer 77 for 2 h",
        ),
        (12, Holder(None, 9, None, None, None), "blocked by producer 9"),
        (12, Holder("pay-1", 9, 146, 146, False), "held by pay-1 for 146 ms"),
        (
            12,
            Holder("pay-1", 9, 146, 146, True),
            "blocked by a hanging transaction of pay-1 for 146 ms",
        ),
    ],
)
def test_where_a_group_stands_is_said_in_words(lag, holder, words):
    assert where_it_stands(lag, holder) == words


def test_the_one_that_nobody_ends_is_named_first():
    longer = Holder("long", 8, 9_000_000, 0, False)
    assert longest([PAY, longer]) is longer
    assert longest([PAY, HANGING, longer]) is HANGING
    assert longest([]) is None


def test_only_what_is_open_for_long_is_worth_a_look():
    assert PAY.holds_for_long
    assert not Holder("pay-7", 7, 9_999, 0, False).holds_for_long
    assert Holder(None, 77, None, 5, True).holds_for_long
