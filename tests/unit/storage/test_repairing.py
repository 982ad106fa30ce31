"""What `oncelog storage repair` takes for damage, and what goes with it, without a disk."""

import pytest

from oncelog.ids import Partition
from oncelog_storage.core.damage import Behind
from oncelog_storage.core.repairing import (
    Damage,
    FoundLog,
    Read,
    damage_of,
    missing_folder,
    stale_files,
)
from oncelog_storage.core.segment_checks import FoundSegment

ORDERS = Partition("orders", 0)
A, B, C = (f"{base:020d}" for base in (0, 50, 90))
SEGMENTS = (FoundSegment(0, 500), FoundSegment(50, 400), FoundSegment(90, 300))
SOUND = (Read(500, 50), Read(400, 90), Read(300, 120))
FOUND = Behind(7, 700, 2)
NOTHING = Behind()


def found(segments=SEGMENTS, *, indexes=(0, 50, 90), log_start=0, recovery_point=120):
    return FoundLog(ORDERS, segments, indexes, log_start, recovery_point)


def examined(log, reads=SOUND):
    """(the damage, which segments were read and from which offset, from where records were counted)."""
    calls, counts = [], []

    def read(index, offset):
        calls.append((index, offset))
        return reads[index]

    def count_behind(index, position, offset):
        counts.append((index, position, offset))
        return FOUND

    return damage_of(log, read, count_behind), calls, counts


ROTTEN = Read(120, 62, "it fails its CRC")
TORN = Read(210, 104, "a batch is cut", may_cut=True)


@pytest.mark.parametrize(
    ("log", "reads", "expected"),
    [
        (found(), SOUND, None),
        # A start cuts it off by itself; what was acknowledged is there.
        (found(recovery_point=104), (*SOUND[:2], TORN), None),
        (
            found(),
            (SOUND[0], ROTTEN, SOUND[2]),
            Damage(ORDERS, f"{B}.log, byte 120: it fails its CRC", 0, 62, 1, 120, FOUND),
        ),
        (
            found(log_start=20),
            (ROTTEN, *SOUND[1:]),
            Damage(ORDERS, f"{A}.log, byte 120: it fails its CRC", 20, 62, 0, 120, FOUND),
        ),
        (
            found((SEGMENTS[0], SEGMENTS[2])),
            SOUND,
            Damage(ORDERS, "offsets 50 to 89 are missing", 0, 50, 0, 500, FOUND),
        ),
        # An index below the log's end: cleaning made one segment of two.
        (found(indexes=(0, 20, 50, 90)), SOUND, None),
        # The newest file is gone; its index tells of it.
        (
            found(SEGMENTS[:2]),
            SOUND,
            Damage(ORDERS, f"{C}.log is missing", 0, 90, 1, 400, NOTHING),
        ),
        (
            found(SEGMENTS[:2], indexes=(0, 50)),
            SOUND,
            Damage(ORDERS, "offsets 90 to 119 are missing", 0, 90, 1, 400, NOTHING),
        ),
        # Less than what was once safe is there.
        (
            found(recovery_point=121),
            (*SOUND[:2], TORN),
            Damage(ORDERS, "offsets 104 to 120 are missing", 0, 104, 2, 300, NOTHING),
        ),
        # The first file is gone: the log begins with the second.
        (
            found(SEGMENTS[1:], indexes=(50, 90), log_start=10),
            SOUND[1:],
            Damage(ORDERS, "offsets 10 to 49 are missing", 50, 120, 1, 300, NOTHING),
        ),
        # All files are gone, and their indexes.
        (
            found((), indexes=(), log_start=30),
            (),
            Damage(ORDERS, "offsets 30 to 119 are missing", 30, 30, -1, 0, NOTHING),
        ),
        (found((), indexes=(), log_start=120), (), None),
    ],
)
def test_the_first_damage_of_a_log(log, reads, expected):
    assert examined(log, reads)[0] == expected


def test_each_segment_is_read_from_where_the_one_before_ends():
    assert examined(found())[1:] == ([(0, 0), (1, 50), (2, 90)], [])


def test_nothing_is_read_behind_the_damage_but_counted():
    _, reads, counts = examined(found(), (SOUND[0], ROTTEN))
    assert (reads, counts) == ([(0, 0), (1, 50)], [(1, 120, 62)])
    _, reads, counts = examined(found((SEGMENTS[0], SEGMENTS[2])))
    assert (reads, counts) == ([(0, 0)], [(0, 500, 50)])


@pytest.mark.parametrize(
    ("recovery_point", "reason"),
    [(0, "its folder is missing"), (9, "its folder is missing with 9 offsets")],
)
def test_a_folder_that_is_gone_begins_anew(recovery_point, reason):
    assert missing_folder(ORDERS, recovery_point) == Damage(ORDERS, reason, 0, 0, -1, 0, NOTHING)


def test_snapshots_and_indexes_of_what_is_given_up_go():
    names = [
        f"{C}.index",
        f"{C}.txnindex",
        f"{B}.timeindex",
        f"{A}.log",
        f"{B}.log",
        f"{62:020d}.snapshot",
        f"{63:020d}.snapshot",
        f"{C}.log.cut",
        "leader-epoch-checkpoint",
    ]
    damage = Damage(ORDERS, "", 0, 62, 1, 120, FOUND)
    gone = [f"{63:020d}.snapshot", f"{C}.index", f"{C}.txnindex"]
    assert stale_files(damage, (0, 50), names) == gone
    assert stale_files(damage._replace(kept_end=0, segment_index=-1), (), names) == [
        f"{62:020d}.snapshot",
        f"{63:020d}.snapshot",
        f"{B}.timeindex",
        f"{C}.index",
        f"{C}.txnindex",
    ]
