"""Segments that are lost, exchanged or another log's, files that are old, and two faults at one time: a table of cases.

A fault is a function of a partition's folder, the folder of a topic with other records, and this folder as it was
earlier. It returns whether there was something to damage.
"""

import shutil

from tests.integration.storage.damage_cases import Case

from oncelog.ids import Partition
from oncelog_storage.core.checkpoint_files import decode_checkpoint, encode_checkpoint
from oncelog_storage.core.segment_files import SUFFIXES

PLACES = ("first", "middle", "newest")


def bases(folder):
    return [path.stem for path in sorted(folder.glob("*.log"))]


def base_of(folder, place):
    found = bases(folder)
    return found[{"first": 0, "middle": len(found) // 2, "newest": -1}[place]]


# Segments.


def lose(place):
    """With all of its files."""

    def hit(folder, _donor, _earlier):
        for path in folder.glob(f"{base_of(folder, place)}.*"):
            if path.suffix in SUFFIXES:
                path.unlink()
        return True

    return hit


def lose_log(place):
    def hit(folder, _donor, _earlier):
        (folder / f"{base_of(folder, place)}.log").unlink()
        return True

    return hit


def empty(place):
    def hit(folder, _donor, _earlier):
        (folder / f"{base_of(folder, place)}.log").write_bytes(b"")
        return True

    return hit


def cut(place, share):
    def hit(folder, _donor, _earlier):
        path = folder / f"{base_of(folder, place)}.log"
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])
        return True

    return hit


def exchange(one, other, *suffixes):
    def hit(folder, _donor, _earlier):
        for suffix in suffixes:
            first, second = (folder / f"{base_of(folder, each)}{suffix}" for each in (one, other))
            if first.exists() and second.exists():
                first.rename(folder / "between")
                second.rename(first)
                (folder / "between").rename(second)
        return True

    return hit


def replace(place, by, *suffixes):
    """A copy of another segment of the same log in its place."""

    def hit(folder, _donor, _earlier):
        for suffix in suffixes:
            source = folder / f"{base_of(folder, by)}{suffix}"
            if source.exists():
                shutil.copy(source, folder / f"{base_of(folder, place)}{suffix}")
        return True

    return hit


def foreign(place, *suffixes):
    """The same segment of another partition in its place."""

    def hit(folder, donor, _earlier):
        for suffix in suffixes:
            name = f"{base_of(folder, place)}{suffix}"
            if (donor / name).exists():
                shutil.copy(donor / name, folder / name)
        return True

    return hit


def add(offset):
    """One more segment of another partition: behind the end, or where none begins."""

    def hit(folder, donor, _earlier):
        name = f"{int(base_of(folder, 'newest')) + offset:020d}"
        for suffix in SUFFIXES:
            source = donor / f"{base_of(donor, 'newest')}{suffix}"
            if source.exists():
                shutil.copy(source, folder / f"{name}{suffix}")
        return True

    return hit


# Folders.


def all_foreign(*, with_topic_id):
    """Another topic's folder in the place of this one."""

    def hit(folder, donor, _earlier):
        topic_id = (folder / "partition.metadata").read_bytes()
        shutil.rmtree(folder)
        shutil.copytree(donor, folder)
        if not with_topic_id:
            (folder / "partition.metadata").write_bytes(topic_id)
        return True

    return hit


# Other files.


def remove(pattern):
    def hit(folder, _donor, _earlier):
        found = list(folder.glob(pattern))
        for path in found:
            path.unlink()
        return bool(found)

    return hit


def older(name):
    """As it was in the middle of the log, or empty where there was none."""

    def hit(folder, _donor, earlier):
        source = earlier / name
        (folder / name).write_bytes(source.read_bytes() if source.exists() else b"")
        return True

    return hit


def short_index(place):
    """The aborted transactions of a segment without the last one, in a file that is sound by itself."""

    def hit(folder, _donor, _earlier):
        found = sorted(folder.glob("*.txnindex"))
        if not found:
            return False
        path = found[{"first": 0, "middle": len(found) // 2, "newest": -1}[place]]
        path.write_bytes(path.read_bytes()[:-34])
        return True

    return hit


def forget(name):
    """The node's file `name` has no line of this partition."""

    def hit(folder, _donor, _earlier):
        path = folder.parent / name
        known = decode_checkpoint(path.read_text()) if path.exists() else {}
        topic, _, number = folder.name.rpartition("-")
        found = known.pop(Partition(topic, int(number)), None)
        path.write_bytes(encode_checkpoint(known))
        return found is not None

    return hit


NO_POINT, NO_START = (
    forget("recovery-point-offset-checkpoint"),
    forget("log-start-offset-checkpoint"),
)
NO_CHECKS, OLD_CHECKS = remove("segments-checkpoint"), older("segments-checkpoint")
NO_SNAPSHOTS, NO_EPOCHS = remove("*.snapshot"), remove("leader-epoch-checkpoint")
INDEXES = SUFFIXES[1:]


def singles():
    """name → fault."""
    found = {}
    for place in PLACES:
        found[f"lost-{place}"] = lose(place)
        found[f"foreign-log-{place}"] = foreign(place, ".log")
        found[f"foreign-{place}"] = foreign(place, *SUFFIXES)
        found[f"foreign-indexes-{place}"] = foreign(place, *INDEXES)
        found[f"short-index-{place}"] = short_index(place)
    for one, other in (("first", "middle"), ("first", "newest"), ("middle", "newest")):
        found[f"exchanged-log-{one}-{other}"] = exchange(one, other, ".log")
        found[f"exchanged-{one}-{other}"] = exchange(one, other, *SUFFIXES)
        found[f"exchanged-indexes-{one}-{other}"] = exchange(one, other, *INDEXES)
        found[f"twice-log-{one}-{other}"] = replace(one, other, ".log")
        found[f"twice-{one}-{other}"] = replace(one, other, *SUFFIXES)
        found[f"twice-{other}-{one}"] = replace(other, one, *SUFFIXES)
    found["added-between"] = add(-1)
    found["added-behind"] = add(1000)
    found["folder-foreign"] = all_foreign(with_topic_id=False)
    found["folder-of-another"] = all_foreign(with_topic_id=True)
    found["checks-old"] = OLD_CHECKS
    return found


def doubles(state):
    """name → two faults."""
    found = {}
    for place in PLACES:
        found[f"point-lost-{place}"] = (NO_POINT, lose(place))
        found[f"point-removed-{place}"] = (NO_POINT, lose_log(place))
        found[f"start-lost-{place}"] = (NO_START, lose(place))
        found[f"start-removed-{place}"] = (NO_START, lose_log(place))
        found[f"snapshots-lost-{place}"] = (NO_SNAPSHOTS, lose(place))
        found[f"epochs-lost-{place}"] = (NO_EPOCHS, lose(place))
        found[f"old-lost-{place}"] = (OLD_CHECKS, lose(place))
        found[f"point-foreign-{place}"] = (NO_POINT, foreign(place, *SUFFIXES))
        found[f"start-foreign-{place}"] = (NO_START, foreign(place, ".log"))
        found[f"checks-short-{place}"] = (NO_CHECKS, short_index(place))
        found[f"old-short-{place}"] = (OLD_CHECKS, short_index(place))
        found[f"point-short-{place}"] = (NO_POINT, short_index(place))
        found[f"snapshots-short-{place}"] = (NO_SNAPSHOTS, short_index(place))
        # What a kill leaves of the newest segment may be short, and nothing else says of it what was there.
        if place != "newest" or state == "stopped":
            found[f"checks-lost-{place}"] = (NO_CHECKS, lose(place))
            for how, fault in (("cut", cut(place, 0.6)), ("empty", empty(place))):
                found[f"point-{how}-{place}"] = (NO_POINT, fault)
                found[f"start-{how}-{place}"] = (NO_START, fault)
                found[f"checks-{how}-{place}"] = (NO_CHECKS, fault)
                found[f"old-{how}-{place}"] = (OLD_CHECKS, fault)
    for one, other in (("first", "middle"), ("middle", "newest")):
        found[f"checks-exchanged-{one}-{other}"] = (NO_CHECKS, exchange(one, other, *SUFFIXES))
        found[f"point-exchanged-{one}-{other}"] = (NO_POINT, exchange(one, other, ".log"))
    found["point-start"] = (NO_POINT, NO_START)
    found["point-checks"] = (NO_POINT, NO_CHECKS)
    found["checks-snapshots"] = (NO_CHECKS, NO_SNAPSHOTS)
    found["point-folder"] = (NO_POINT, lambda folder, *_: shutil.rmtree(folder) or True)
    found["start-folder"] = (NO_START, lambda folder, *_: shutil.rmtree(folder) or True)
    return found


def faults_by_case(state):
    """Case → its faults, one after the other."""
    found = {Case(state, name, "", 0): (fault,) for name, fault in singles().items()}
    return {**found, **{Case(state, name, "", 0): two for name, two in doubles(state).items()}}
