"""Assignments as Kafka's clients write them, and whatever else members send."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_gateway.core.group_assignment import assigned_partitions

TWO = bytes.fromhex("0001 00000002 0001 61 00000002 00000000 00000003 0002 6262 00000000 ffffffff")


def test_an_assignment_is_read():
    assert assigned_partitions(TWO) == {"a": [0, 3], "bb": []}
    assert assigned_partitions(b"") == {}


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_lengths_that_do_not_fit_are_no_assignment(count):
    assert assigned_partitions(struct.pack(">hi", 1, count) + b"abc") is None
    assert assigned_partitions(struct.pack(">hih1si", 1, 1, 1, b"a", count)) is None
    assert assigned_partitions(b"\0") is None


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_are_none(content):
    found = assigned_partitions(content)
    assert found is None or isinstance(found, dict)
