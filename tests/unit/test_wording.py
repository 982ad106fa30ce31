"""Counts as people read them."""

import pytest

from oncelog.wording import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 partitions"), (1, "1 partition"), (2, "2 partitions")]
)
def test_a_noun_is_in_the_number_of_its_count(count, text):
    assert counted(count, "partition") == text
