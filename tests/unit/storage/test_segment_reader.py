"""The one seam between readers and the disk: what is in memory is read at once, what is not is brought there."""

import asyncio
import errno
import os
import threading

import pytest

from oncelog_storage import files
from oncelog_storage.files import NotInMemory, OpenFiles
from oncelog_storage.segment_reader import MISSES_MAX, SegmentReader

CONTENT = bytes(range(256)) * 10
FLAG = 8


@pytest.fixture
def opened(disk_path):
    """(the files, the path of one, its descriptor)."""
    path = str(disk_path / "0.log")
    with open(path, "wb") as file:
        file.write(CONTENT)
    open_files = OpenFiles(2)
    yield open_files, path, open_files.get(path)
    open_files.close_all()


@pytest.fixture
def held(monkeypatch):
    """How many bytes of the file the system holds in memory; a list of one."""
    bytes_held = [len(CONTENT)]

    def preadv(descriptor, buffers, position, flags=0):
        (buffer,) = buffers
        size = len(buffer)
        if flags:
            size = min(size, bytes_held[0] - position)
            if size <= 0 and position < len(CONTENT):
                raise BlockingIOError
        data = os.pread(descriptor, max(size, 0), position)
        buffer[: len(data)] = data
        return len(data)

    monkeypatch.setattr(files, "_NO_WAIT", FLAG)
    monkeypatch.setattr(files.os, "preadv", preadv)
    return bytes_held


@pytest.mark.parametrize(
    ("position", "size_bytes"), [(0, 10), (300, 2260), (2550, 100), (2560, 10), (9999, 1), (5, 0)]
)
def test_what_is_in_memory_is_read_as_it_is(opened, position, size_bytes):
    open_files, path, descriptor = opened
    with open_files.memory_only():
        found = open_files.pread(descriptor, path, size_bytes, position)
    assert found == CONTENT[position : position + size_bytes]


def test_a_long_read_goes_in_pieces(opened, monkeypatch):
    monkeypatch.setattr(files, "_PIECE_BYTES", 1000)
    open_files, path, descriptor = opened
    with open_files.memory_only():
        assert open_files.pread(descriptor, path, 9999, 0) == CONTENT


@pytest.mark.parametrize("bytes_held", [0, 100, 2559])
def test_what_is_not_in_memory_is_not_waited_for(opened, held, bytes_held):
    open_files, path, descriptor = opened
    held[0] = bytes_held
    with open_files.memory_only(), pytest.raises(NotInMemory) as miss:
        open_files.pread(descriptor, path, 2560, 0)
    assert (miss.value.path, miss.value.position, miss.value.size_bytes) == (path, 0, 2560)
    assert open_files.pread(descriptor, path, 2560, 0) == CONTENT
    with open_files.memory_only(), open_files.waiting():
        assert open_files.pread(descriptor, path, 2560, 0) == CONTENT


async def test_other_threads_may_wait(opened, held):
    open_files, path, descriptor = opened
    held[0] = 0
    with open_files.memory_only():
        assert await asyncio.to_thread(open_files.pread, descriptor, path, 10, 0) == CONTENT[:10]


async def test_a_thread_that_waits_changes_nothing_for_others(opened, held):
    open_files, path, descriptor = opened
    held[0] = 0
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait():
        with open_files.waiting():
            loop.call_soon_threadsafe(begun.set)
            ended.wait(5)

    with open_files.memory_only():
        waiting = asyncio.create_task(asyncio.to_thread(wait))
        await begun.wait()
        with pytest.raises(NotInMemory):
            open_files.pread(descriptor, path, 10, 0)
    ended.set()
    await waiting
    assert open_files.pread(descriptor, path, 10, 0) == CONTENT[:10]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EIO])
def test_a_filesystem_that_cannot_say_is_read_all_the_same(opened, monkeypatch, code):
    open_files, path, descriptor = opened
    real = os.preadv

    def preadv(descriptor, buffers, position, flags=0):
        if flags:
            raise OSError(code, "no")
        return real(descriptor, buffers, position)

    monkeypatch.setattr(files, "_NO_WAIT", FLAG)
    monkeypatch.setattr(files.os, "preadv", preadv)
    with open_files.memory_only():
        if code == errno.EIO:
            with pytest.raises(OSError, match="no"):
                open_files.pread(descriptor, path, 10, 0)
        else:
            assert open_files.pread(descriptor, path, 10, 0) == CONTENT[:10]


def test_where_nothing_can_be_said_every_read_may_wait(opened, held, monkeypatch):
    open_files, path, descriptor = opened
    held[0] = 0
    monkeypatch.setattr(files, "_NO_WAIT", 0)
    with open_files.memory_only():
        assert open_files.pread(descriptor, path, 10, 0) == CONTENT[:10]


def test_the_end_of_a_file_is_read_without_keeping_it_open(opened, held):
    open_files, path, _ = opened
    assert open_files.read_end(path) == (CONTENT, 2560)
    assert open_files.read_end(path, 12) == (CONTENT[-12:], 2560)
    held[0] = 2000
    with open_files.memory_only(), pytest.raises(NotInMemory):
        open_files.read_end(path, 12)
    with pytest.raises(FileNotFoundError):
        open_files.read_end(path + "x")


async def test_a_step_is_done_again_when_its_bytes_are_there(opened, held, monkeypatch):
    open_files, path, descriptor = opened
    held[0] = 0
    reader, steps = SegmentReader(open_files), []

    def step():
        steps.append(held[0])
        return open_files.pread(descriptor, path, 10, 0)

    async def bring(miss):
        await SegmentReader.bring(reader, miss)
        held[0] = 10

    monkeypatch.setattr(reader, "bring", bring)
    assert await reader.read(step) == CONTENT[:10]
    assert steps == [0, 10]
    assert reader.at_once(step) == CONTENT[:10]


async def test_what_is_under_way_at_the_close_is_answered(opened, held):
    open_files, path, descriptor = opened
    held[0] = 0
    reader = SegmentReader(open_files)
    miss = NotInMemory(path, 0, 10)
    bringing = [asyncio.create_task(reader.bring(miss)) for _ in range(20)]
    await asyncio.sleep(0)
    reader.close()
    await asyncio.gather(*bringing)
    assert await reader.read(lambda: open_files.pread(descriptor, path, 10, 0)) == CONTENT[:10]


async def test_a_step_waits_for_the_disk_in_the_end(opened, held):
    open_files, path, descriptor = opened
    held[0] = 0
    reader, steps = SegmentReader(open_files), []

    def step():
        steps.append(1)
        return open_files.pread(descriptor, path, 10, 0)

    assert await reader.read(step) == CONTENT[:10]
    assert len(steps) == MISSES_MAX + 1
    await reader.bring(NotInMemory(path + "x", 0, 10))
