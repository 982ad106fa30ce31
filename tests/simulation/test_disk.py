"""Simulated disks under production's storage code: what a kill leaves, what a power cut leaves, what faults do."""

import errno
import fcntl
import os
import shutil
import stat

import pytest
from oncelog_robustness.simulator.process import ProcessKilled
from tests.integration.storage.partition_log_at import (
    append,
    checkpoint,
    everything,
    new_log,
    opened,
    write_rounds,
)
from tests.integration.storage.storage_node import NOW, txn_batch
from tests.simulation.small_world import in_small_world

from oncelog.errors import OncelogError
from oncelog_storage.files import StorageFailed, sync_directory, write_at, write_atomically
from oncelog_storage.log_directory import LogDirectory

HOST = "storage-1"


def as_process(small, name, work):
    """`work()` as a process of that name; returns it and what `work` returned."""
    process = small.world.new_process(name, HOST)
    return process, process.context().run(work)


def test_killed_process_loses_nothing_that_it_wrote():
    def steps(small):
        folder = small.disks.folder(HOST)
        before = len(os.listdir("/proc/self/fd"))

        def write():
            directory = LogDirectory(folder / "data")
            directory.open("cluster", 1)
            log = new_log(folder / "data" / "orders-0", segment_bytes=600)
            write_rounds(log)
            return everything(log)

        process, written = as_process(small, "storage-1", write)
        with pytest.raises(OncelogError, match="in use"):
            as_process(small, "rival", lambda: LogDirectory(folder / "data").open("cluster", 1))
        process.end()
        assert len(os.listdir("/proc/self/fd")) == before

        def recover():
            LogDirectory(folder / "data").open("cluster", 1)
            return everything(opened(folder / "data" / "orders-0", segment_bytes=600))

        _, recovered = as_process(small, "storage-1", recover)
        assert recovered == written
        return recovered[1]

    assert in_small_world(1, steps) > 10


def test_after_a_power_cut_a_log_has_at_least_what_was_synced():
    def steps(small):
        folder = small.disks.folder(HOST) / "orders-0"

        def write():
            log = new_log(folder, segment_bytes=600)
            write_rounds(log, rounds=3)
            safe = checkpoint(log)
            sync_directory(folder)
            sync_directory(folder.parent)
            write_rounds(log, rounds=2)
            return safe, log.log_end_offset, everything(log)[0]

        process, (safe, end, records) = as_process(small, "storage-1", write)
        process.end()
        small.disks.power_cut(HOST)
        _, log = as_process(
            small, "storage-1", lambda: opened(folder, safe, segment_bytes=600, lost_power=True)
        )
        recovered = everything(log)
        assert safe <= recovered[1] <= end
        assert records.startswith(recovered[0])
        # It goes on from there.
        append(log, txn_batch(9, 0, 2, timestamp=NOW))
        return (recovered[1] - safe, end - safe), small.digest

    ends = [in_small_world(seed, steps)[0] for seed in range(40)]
    kept = {kept if kept in (0, whole) else "part" for kept, whole in ends}
    assert {0, "part", ends[0][1]} == kept
    assert in_small_world(7, steps) == in_small_world(7, steps)


def test_a_power_cut_takes_what_no_sync_covers():
    """The books see every way in which production writes; without its syncs, nothing is safe."""

    def steps(small):
        folder = small.disks.folder(HOST)
        sizes = []
        write_at(str(folder / "synced"), 0, b"s" * 9000)
        sync_directory(folder)
        descriptor = os.open(folder / "synced", os.O_RDWR)
        os.pwrite(descriptor, b"n" * 100, 50)
        os.pwritev(descriptor, (b"n" * 100, b"n" * 8000), 9000)
        os.close(descriptor)
        small.disks.power_cut(HOST)
        content = (folder / "synced").read_bytes()
        sizes.append(len(content))
        # The page that was overwritten is the old one or the new one; the one after it was not touched.
        assert content[:4096] in (b"s" * 4096, b"s" * 50 + b"n" * 100 + b"s" * 3946)
        assert content[4096:9000] == b"s" * 4904
        assert set(content[9000:]) <= {0, ord("n")}
        return len(content), content[:4096].count(b"n"), content.count(b"\0")

    seen = [in_small_world(seed, steps) for seed in range(60)]
    sizes = {size for size, _, _ in seen}
    assert {9000, 17100} < sizes
    assert {overwritten for _, overwritten, _ in seen} == {0, 100}
    assert any(holes for _, _, holes in seen)


def test_a_synced_replacement_is_there_and_others_may_be_torn():
    def steps(small):
        folder = small.disks.folder(HOST)
        for name in ("a", "b"):
            write_atomically(folder / name, b"old", sync=True)
        write_atomically(folder / "a", b"new and longer", sync=True)
        write_atomically(folder / "b", b"new and longer", sync=False)
        small.disks.power_cut(HOST)
        assert (folder / "a").read_bytes() == b"new and longer"
        return (folder / "b").read_bytes()

    seen = {in_small_world(seed, steps) for seed in range(40)}
    assert {b"old", b"new and longer", b""} < seen


def test_names_that_were_not_synced_come_and_go_in_order():
    def steps(small):
        folder = small.disks.folder(HOST)
        for name in ("first", "second"):
            os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY))
        sync_directory(folder)
        os.rename(folder / "first", folder / "renamed")
        os.unlink(folder / "second")
        os.mkdir(folder / "made")
        shutil.rmtree(folder / "made")
        small.disks.power_cut(HOST)
        names = tuple(sorted(os.listdir(folder)))
        # What came back is a real file again.
        for name in names:
            write_atomically(
                folder / name / "x" if name == "made" else folder / name, b"", sync=True
            )
        return names

    assert {in_small_world(seed, steps) for seed in range(60)} == {
        ("first", "second"),
        ("renamed", "second"),
        ("renamed",),
        ("made", "renamed"),
    }


def test_truncation_is_undone_or_done():
    def steps(small):
        folder = small.disks.folder(HOST)
        write_at(str(folder / "log"), 0, b"a" * 10_000)
        sync_directory(folder)
        descriptor = os.open(folder / "log", os.O_RDWR)
        os.ftruncate(descriptor, 5000)
        os.pwrite(descriptor, b"b" * 1000, 5000)
        os.close(descriptor)
        small.disks.power_cut(HOST)
        content = (folder / "log").read_bytes()
        assert content[:5000] == b"a" * 5000
        assert content[5000:] == b"a" * 5000 or set(content[5000:6000]) <= {0, ord("b")}
        return len(content)

    sizes = {in_small_world(seed, steps) for seed in range(60)}
    assert sizes == {5000, 6000, 10_000}


def test_full_disk_cuts_a_write_short_and_room_heals_the_log():
    def steps(small):
        folder = small.disks.folder(HOST) / "orders-0"
        log = new_log(folder)
        write_rounds(log, rounds=1)
        small.disks.fill(HOST, 30)
        before = everything(log)
        for _ in range(3):
            with pytest.raises(StorageFailed, match="No space left"):
                append(log, txn_batch(7, 0, 3, timestamp=NOW))
        assert everything(log) == before
        assert everything(opened(folder))[:2] == before[:2]
        small.disks.heal(HOST)
        append(log, txn_batch(7, 0, 3, timestamp=NOW))
        assert everything(opened(folder)) == everything(log)

    in_small_world(1, steps)


def test_what_a_failed_sync_dropped_is_gone_unless_rewritten():
    def steps(small, is_written_again):
        folder = small.disks.folder(HOST)
        write_at(str(folder / "log"), 0, b"a" * 100)
        sync_directory(folder)
        small.disks.fail_syncs(HOST, 1)
        with pytest.raises(OSError) as caught:
            write_at(str(folder / "log"), 100, b"b" * 100)
        assert caught.value.errno == errno.EIO
        write_at(str(folder / "log"), 200, b"c" * 100)
        if is_written_again:
            write_at(str(folder / "log"), 100, b"b" * 100)
        small.disks.power_cut(HOST)
        return (folder / "log").read_bytes()

    for seed in range(20):
        found = in_small_world(seed, lambda small: steps(small, is_written_again=False))
        assert found == b"a" * 100 + bytes(100) + b"c" * 100
        found = in_small_world(seed, lambda small: steps(small, is_written_again=True))
        assert found == b"a" * 100 + b"b" * 100


def test_flipped_bit_is_in_a_closed_segment_and_is_noticed():
    def steps(small):
        folder = small.disks.folder(HOST) / "orders-0"
        log = new_log(folder, segment_bytes=600)
        assert small.disks.flip_bit(HOST) is None
        write_rounds(log)
        before = everything(log)
        name = small.disks.flip_bit(HOST)
        assert name != f"orders-0/{os.path.basename(log.segments[-1].log_path)}"
        try:
            found = everything(log)
        except StorageFailed:
            return name, True
        # Only a batch's leader epoch has no checksum.
        changed = [
            at for at, pair in enumerate(zip(before[0], found[0], strict=True)) if len({*pair}) > 1
        ]
        assert len(changed) == 1
        return name, False

    seen = [in_small_world(seed, steps) for seed in range(20)]
    assert len({name for name, _ in seen}) > 1
    assert sum(is_noticed for _, is_noticed in seen) >= 15


def test_process_can_be_killed_at_any_step_of_a_checkpoint():
    def steps(small, operations):
        folder = small.disks.folder(HOST) / "orders-0"

        def write():
            log = new_log(folder, segment_bytes=600)
            write_rounds(log)
            safe = checkpoint(log)
            write_rounds(log)
            return log, safe, everything(log)

        process, (log, safe, written) = as_process(small, "storage-1", write)
        small.disks.crash_after(process, operations)
        cleanups = []

        def work():
            try:
                checkpoint(log)
            finally:
                # Unwinding does nothing to the disk any more.
                with pytest.raises(ProcessKilled):
                    os.unlink(log.segments[0].log_path)
                cleanups.append(len(os.listdir(folder)))

        try:
            process.context().run(work)
        except ProcessKilled:
            assert process.state.value == "dead"
        else:
            raise AssertionError(f"a checkpoint has fewer than {operations} steps")
        _, log = as_process(
            small, "storage-1", lambda: opened(folder, safe, segment_bytes=600, lost_power=True)
        )
        assert everything(log) == written
        return len(cleanups)

    for operations in range(12):
        assert in_small_world(operations, lambda small, n=operations: steps(small, n)) == 1


def test_numbers_times_and_order_of_files_are_simulated():
    def steps(small):
        folder = small.disks.folder(HOST)
        for name in "abcdefgh":
            write_at(str(folder / name), 0, b"x")
        status = (folder / "a").stat()
        with os.scandir(folder) as entries:
            times = {entry.stat().st_mtime_ns for entry in entries}
        assert times == {status.st_mtime_ns} == {1_800_000_000_000 * 1_000_000}
        assert stat.S_ISREG(status.st_mode)
        assert status.st_size == 1
        return status.st_ino, os.listdir(folder), os.listdir(folder)

    number, order, another = in_small_world(3, steps)
    assert order != another
    assert (number, order, another) == in_small_world(3, steps)


def test_slow_disk_makes_the_work_of_its_hosts_threads_late():
    async def steps(small):
        from concurrent.futures import ThreadPoolExecutor

        loop = small.world.loop
        small.disks.folder(HOST)

        async def work():
            executor = ThreadPoolExecutor(1, thread_name_prefix="storage-sync")
            began = loop.time()
            await loop.run_in_executor(executor, lambda: None)
            return loop.time() - began

        fast = await small.world.new_process("storage-1", HOST).spawn(work(), "work")
        small.disks.slow(HOST, 10.0)
        slow = await small.world.new_process("storage-1", HOST).spawn(work(), "work")
        other = await small.world.new_process("storage-2").spawn(work(), "work")
        small.disks.heal(HOST)
        healed = await small.world.new_process("storage-1", HOST).spawn(work(), "work")
        return fast, slow, other, healed

    fast, slow, other, healed = in_small_world(1, steps)
    assert max(fast, other, healed) < 0.01 < slow


def test_files_elsewhere_are_the_real_ones(tmp_path):
    def steps(small):
        process = small.world.new_process("storage-1", HOST)
        small.disks.fill(HOST)
        small.disks.fail_syncs(HOST, 10)

        def work():
            write_atomically(tmp_path / "file", b"content", sync=True)
            with open(tmp_path / "other", "w") as file:
                file.write("content")
            with pytest.raises(AssertionError, match="not simulated"):
                (small.disks.folder(HOST) / "other").write_text("content")
            fcntl.flock(os.open(tmp_path / "file", os.O_RDWR), fcntl.LOCK_EX)
            return (tmp_path / "file").stat().st_ino

        return process.context().run(work)

    assert in_small_world(1, steps) == (tmp_path / "file").stat().st_ino
    assert (tmp_path / "other").read_text() == "content"
