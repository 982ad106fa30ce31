"""Cleaned segments take the place of old ones, and a crash after any step leaves one or the other."""

import pytest
from tests.integration.storage.cleaned_log import batches_from, clean, last_words, view
from tests.integration.storage.partition_log_at import append, copied, mark, new_log, opened
from tests.integration.storage.storage_node import NOW, batch, txn_batch

from oncelog.record.records import decode_batch
from oncelog_storage.core.segment_files import CHECKS_FILE


class Killed(Exception):
    pass


def written_log(directory):
    """Ten segments: keys written again and again, a commit, and two aborts of which one spans segments."""
    log = new_log(directory, is_compacted=True, is_deleted=False)
    for step in range(10):
        append(log, batch(3, key=b"k%d" % (step % 4), value=b"v%d" % step, timestamp=NOW + step))
        append(log, txn_batch(7, step, key=b"t%d" % step, timestamp=NOW + step))
        if step % 3 == 1:
            mark(log, (7, 0, step == 4), now=NOW + step)
        append(log, batch(1, key=b"last%d" % step, value=None if step == 2 else b"x"))
        log.roll(NOW + step)
    mark(log, (7, 0, False), now=NOW + 10)
    append(log, batch(1, key=b"end"))
    return log


def answers(log):
    return view(log), last_words(log), log.log_end_offset


def leftovers(directory):
    return [p.name for p in directory.iterdir() if p.name.endswith((".cleaned", ".swap"))]


def steps_of(directory):
    names = []
    clean(written_log(directory), step=names.append)
    return names


def test_a_kill_at_any_step_leaves_old_or_new_segments(tmp_path):
    steps = steps_of(tmp_path / "steps-0")
    assert {"swap.log", "own.log"} <= set(steps)
    assert len(steps) > 15
    for count in range(1, len(steps) + 1):
        directory = tmp_path / f"orders-{count}"
        log = written_log(directory)
        before = answers(log)
        taken = []

        def kill(name, taken=taken, count=count):
            taken.append(name)
            if len(taken) == count:
                raise Killed

        with pytest.raises(Killed):
            clean(log, step=kill)
        log.close()
        for with_snapshots in (True, False):
            again = copied(directory, tmp_path / f"again-{count}-{with_snapshots}")
            if not with_snapshots:
                for path in again.glob("*.snapshot"):
                    path.unlink()
            found = opened(again, log.recovery_point, is_compacted=True, is_deleted=False)
            seen, words, end = answers(found)
            assert not leftovers(again), steps[count - 1]
            assert (words, end) == before[1:], steps[count - 1]
            assert set(seen) <= set(before[0]), steps[count - 1]
            assert {row[2]: row for row in seen} == {row[2]: row for row in before[0]}
            is_swapped = "swap.log" in taken
            assert (len(found.segments) == 2) == is_swapped, steps[count - 1]
            # And what is left can be cleaned again.
            clean(found)
            assert {row[2]: row for row in view(found)} == {row[2]: row for row in before[0]}


def test_a_checkpoint_between_commit_and_exchange_does_no_harm(tmp_path):
    """A stop in that moment writes the old aborted indexes' checks once more."""
    log = written_log(tmp_path / "orders-0")
    clean(log)
    checks = (tmp_path / "orders-0" / CHECKS_FILE).read_bytes()
    other = written_log(tmp_path / "orders-1")
    stale = []

    def stop(name):
        if name == "checks":
            return
        if name == "cleaned":
            stale.append((tmp_path / "orders-1" / CHECKS_FILE).read_bytes())
        if name == "swap.log":
            raise Killed

    with pytest.raises(Killed):
        clean(other, step=stop)
    assert stale[0] != checks
    (tmp_path / "orders-1" / CHECKS_FILE).write_bytes(stale[0])
    other.close()
    found = opened(tmp_path / "orders-1", other.recovery_point, is_compacted=True)
    assert view(found) == view(log)


def test_what_a_killed_pass_wrote_is_removed(tmp_path):
    log = written_log(tmp_path / "orders-0")
    before = answers(log)

    def kill(name):
        raise Killed

    with pytest.raises(Killed):
        clean(log, step=kill)
    assert leftovers(log.directory)
    log.close()
    found = opened(log.directory, log.recovery_point, is_compacted=True)
    assert answers(found) == before
    assert not leftovers(log.directory)


def test_reads_find_their_way_through_gaps(tmp_path):
    log = written_log(tmp_path / "orders-0")
    seen = view(log)
    clean(log)
    assert len(log.segments) == 2
    kept = view(log)
    assert len(kept) < len(seen)
    rows = [
        (record.timestamp, record.offset)
        for _, records, position in batches_from(log, 0, log.segments[1].base_offset)
        for record in decode_batch(records, position)
    ]
    for offset in range(log.log_end_offset):
        assert view(log, offset=offset) == [row for row in kept if row[0] >= offset]
        found = log.segments[0].find_timestamp(NOW + 5, offset)
        expected = [row for row in rows if row[1] >= offset and row[0] >= NOW + 5]
        assert (None if found is None else found[:2]) == (expected[0] if expected else None)


def test_a_base_offset_that_is_damaged_upwards_is_still_found(tmp_path):
    log = new_log(tmp_path / "orders-0")
    for _ in range(5):
        append(log, batch(2))
    segment = log.segments[0]
    size = segment.size_bytes // 5
    for index in (1, 4):
        with open(segment.log_path, "r+b") as file:
            file.seek(index * size + 7)
            file.write(bytes([2 * index + 1]))
        with pytest.raises(Exception, match="damaged"):
            log.read(0, log.log_end_offset, 1 << 20)
        with open(segment.log_path, "r+b") as file:
            file.seek(index * size + 7)
            file.write(bytes([2 * index]))
    assert log.read(0, log.log_end_offset, 1 << 20).next_offset == 10
