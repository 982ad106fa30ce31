import pytest

from oncelog.protocol.frames import (
    FrameError,
    FrameSplitter,
    framed,
    framed_response,
    read_client_id,
    read_correlation_id,
    read_request_prefix,
    write_request_head,
)


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 7, 64, 1000])
def test_frames_come_out_the_same_however_the_stream_is_cut(piece):
    frames = [b"a" * size for size in (8, 0, 1, 300, 5)]
    stream = b"".join(framed([frame]) for frame in frames)
    splitter = FrameSplitter(1_000)
    found = []
    for position in range(0, len(stream), piece):
        found += map(bytes, splitter.feed(stream[position : position + piece]))
    assert found == frames
    assert splitter.buffered_bytes == 0


def test_a_whole_frame_is_not_copied():
    data = framed([b"x" * 100])
    (frame,) = FrameSplitter(1_000).feed(data)
    assert frame.obj is data


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
def test_a_length_outside_the_bounds_is_refused_at_once(size):
    with pytest.raises(FrameError, match=str(size)):
        FrameSplitter(1_000).feed(size.to_bytes(4, "big", signed=True))


def test_a_frame_that_never_ends_holds_no_more_than_was_sent():
    splitter = FrameSplitter(1_000_000)
    splitter.feed((1_000_000).to_bytes(4, "big"))
    for _ in range(10):
        assert splitter.feed(b"z" * 10) == []
    assert splitter.buffered_bytes == 104
    splitter.clear()
    assert splitter.buffered_bytes == 0


@pytest.mark.parametrize("is_flexible", [False, True])
@pytest.mark.parametrize("client_id", [None, "", "sarama", "ünïcode"])
def test_a_request_head_is_read_as_it_was_written(client_id, is_flexible):
    head = write_request_head(3, 9, 77, client_id, is_flexible)
    assert read_request_prefix(head) == (3, 9, 77)
    assert read_client_id(head + b"body", is_flexible) == (client_id, len(head))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\1\0\0\0\0\0",
        b"\0\1\0\0\0\0\0\1",
        b"\0\1\0\0\0\0\0\1\0\5abc",
        b"\0\1\0\0\0\0\0\1\xff\xff",
        b"\0\1\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\0\1\0\0\0\0\0\1\xff\xff\1\0\x7f",
        b"\0\1\0\0\0\0\0\1\xff\xff\x7f",
    ],
)
def test_a_header_that_runs_past_its_frame_is_refused(frame):
    with pytest.raises(FrameError):
        read_client_id(frame, True)


@pytest.mark.parametrize("size", range(8))
def test_a_frame_too_short_to_say_what_it_asks_is_refused(size):
    with pytest.raises(FrameError):
        read_request_prefix(bytes(size))


def test_tagged_fields_of_a_header_are_skipped():
    head = write_request_head(3, 9, 1, "c", False) + b"\2\0\3abc\7\1x"
    assert read_client_id(head + b"body", True) == ("c", len(head))


@pytest.mark.parametrize(("has_tags", "head"), [(False, 4), (True, 5)])
def test_a_response_frame_counts_its_header_and_all_its_pieces(has_tags, head):
    frame = framed_response(9, has_tags, [b"ab", b"", b"cde"])
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4 == head + 5
    assert read_correlation_id(frame[4:]) == 9
    assert frame[4 + head :] == b"abcde"


def test_a_response_shorter_than_its_header_is_refused():
    with pytest.raises(FrameError):
        read_correlation_id(b"\0\0")
