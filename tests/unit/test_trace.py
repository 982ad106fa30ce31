"""W3C's traceparent and the stored form, both ways."""

import pytest

from oncelog.trace import (
    STORED_BYTES,
    TransactionTrace,
    decode_trace,
    encode_trace,
    read_traceparent,
    write_traceparent,
)

TRACE = TransactionTrace(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, 1_700_000_000_000)


def test_a_stored_trace_is_read_again():
    stored = encode_trace(TRACE)
    assert len(stored) == STORED_BYTES == 32
    assert decode_trace(stored) == TRACE


@pytest.mark.parametrize("stored", [None, b"", bytes(31), bytes(33), bytes(32), bytes(31) + b"\1"])
def test_what_is_no_trace_is_none(stored):
    assert decode_trace(stored) is None


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_example_of_the_standard(is_kept):
    text = f"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0{int(is_kept)}"
    assert write_traceparent(TRACE.trace_id, TRACE.root_id, is_kept=is_kept) == text
    assert read_traceparent(text) == (TRACE.trace_id, TRACE.root_id, is_kept)


def test_a_later_version_may_have_more_parts():
    later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"
    assert read_traceparent(later) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "00-0-0-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
        "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00- bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ],
)
def test_what_the_standard_calls_invalid_is_none(text):
    assert read_traceparent(text) is None
