"""What is written down of a log's segments: it is true after a kill, and nothing is read again without need."""

import contextlib
import os

import pytest
from crc32c import crc32c
from tests.integration.storage.partition_log_at import (
    append,
    checkpoint,
    copied,
    everything,
    new_log,
    opened,
    write_rounds,
)
from tests.integration.storage.storage_node import NOW, batch

from oncelog_storage import log_recovery, log_replication
from oncelog_storage.core.recovery import UNKNOWN_LOG_START
from oncelog_storage.core.segment_files import SUFFIXES
from oncelog_storage.files import StorageFailed
from oncelog_storage.segment import Segment

CHECKS = "segments-checkpoint"
SMALL = {"segment_bytes": 400, "index_interval_bytes": 100}


def written_log(directory):
    log = new_log(directory, **SMALL)
    write_rounds(log, rounds=6)
    assert len(log.segments) > 4
    return log


def lose(directory, base_offset):
    for suffix in SUFFIXES:
        (directory / f"{base_offset:020d}{suffix}").unlink(missing_ok=True)


@pytest.mark.parametrize("place", ["first", "middle", "newest"])
@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_a_segment_lost_with_all_of_its_files_is_missed(directory, place, is_checkpointed):
    log = written_log(directory)
    recovery_point = checkpoint(log) if is_checkpointed else None
    lose(directory, log.segments[{"first": 0, "middle": 2, "newest": -1}[place]].base_offset)
    with pytest.raises(StorageFailed, match=r"are gone|is missing.* restore it"):
        opened(directory, recovery_point, **SMALL)


def test_a_lost_beginning_is_missed_without_the_log_start(directory):
    log = written_log(directory)
    recovery_point = checkpoint(log)
    lose(directory, 0)
    with pytest.raises(StorageFailed, match=r"are gone"):
        opened(directory, recovery_point, UNKNOWN_LOG_START, **SMALL)


@pytest.mark.parametrize("evidence", ["checks", "snapshot"])
def test_a_cut_end_is_missed_without_the_recovery_point(directory, evidence):
    log = written_log(directory)
    checkpoint(log)
    os.truncate(log.segments[-1].log_path, 0)
    if evidence == "snapshot":
        (directory / CHECKS).unlink()
    with pytest.raises(StorageFailed, match=r"bytes, and|was safe on disk"):
        opened(directory, None, **SMALL)


def test_a_clean_restart_reads_nothing_again_and_writes_nothing(directory, caplog):
    log = written_log(directory)
    recovery_point = checkpoint(log)
    before = (directory / CHECKS).stat().st_mtime_ns
    for _ in range(3):
        found = opened(directory, recovery_point, **SMALL)
        assert not found.is_dirty
        assert not found.segments[0].is_loaded
    assert not caplog.records
    assert (directory / CHECKS).stat().st_mtime_ns == before
    assert everything(found) == everything(log)


def test_what_was_derived_again_is_written_down(directory, caplog):
    log = written_log(directory)
    recovery_point = checkpoint(log)
    (directory / CHECKS).unlink()
    found = opened(directory, recovery_point, **SMALL)
    assert "is read for that" in caplog.text
    assert found.is_dirty
    checkpoint(found)
    caplog.clear()
    assert everything(opened(directory, recovery_point, **SMALL)) == everything(log)
    assert not caplog.records


def test_a_truncation_keeps_what_is_known_of_the_rest(directory, caplog):
    log = written_log(directory)
    checkpoint(log)
    cut = log.segments[-1].base_offset - 1
    log.recovery_point = log.segments[2].base_offset + 1
    log_replication.truncate(log, cut, NOW)
    append(log, batch())
    found = opened(directory, log.recovery_point, **SMALL)
    assert "is read for that" not in caplog.text
    assert everything(found) == everything(log)


class Killed(BaseException):
    pass


def kill(*_arguments, **_named):
    raise Killed


@pytest.mark.parametrize("step", ["begin", "write_checks", "write"])
def test_a_kill_as_a_segment_begins_looks_like_no_loss(directory, tmp_path, monkeypatch, step):
    log = written_log(directory)
    before = everything(log)
    log.roll(NOW)
    target = type(log) if step == "write_checks" else Segment
    monkeypatch.setattr(target, step, kill)
    with pytest.raises(Killed):
        append(log, batch())
    monkeypatch.undo()
    found = opened(copied(directory, tmp_path / "again"), None, **SMALL)
    assert everything(found)[1:] == before[1:]
    append(found, batch())
    assert opened(found.directory, None, **SMALL).log_end_offset == before[1] + 1


@pytest.mark.parametrize("step", range(12))
def test_a_kill_amid_a_truncation_looks_like_no_loss(directory, tmp_path, monkeypatch, step):
    """After any change of the folder: the recovery point was lowered before."""
    log = written_log(directory)
    checkpoint(log)
    log.recovery_point = cut = log.segments[2].base_offset + 1
    killed = []

    def stopping(call):
        def stop(*arguments, **named):
            answer = call(*arguments, **named)
            killed.append(1)
            if len(killed) == step + 1:
                raise Killed
            return answer

        return stop

    for name in ("unlink", "replace", "ftruncate"):
        monkeypatch.setattr(os, name, stopping(getattr(os, name)))
    with contextlib.suppress(Killed):
        log_replication.truncate(log, cut, NOW)
    monkeypatch.undo()
    found = opened(copied(directory, tmp_path / "again"), cut, **SMALL)
    assert found.log_end_offset >= cut - 1


def test_an_older_versions_checks_are_believed_once(directory, caplog):
    """It names only segments in which something was aborted."""
    log = written_log(directory)
    recovery_point = checkpoint(log)
    aborted = [(s.base_offset, s.aborted_check) for s in log.segments if s.aborted()]
    rows = "".join(f"{base} {check.entry_count} {check.crc}\n" for base, check in aborted)
    text = f"1\n{len(aborted)}\n{rows}"
    (directory / CHECKS).unlink()
    (directory / "aborted-index-checkpoint").write_text(f"{text}{crc32c(text.encode())}\n")
    found = new_log(directory, **SMALL)
    log_recovery.recover(found, recovery_point, 0, NOW, keeps_checks=False)
    assert not caplog.records
    assert everything(found) == everything(log)
    # From now on the segments are known.
    lose(directory, log.segments[1].base_offset)
    with pytest.raises(StorageFailed, match="is missing"):
        opened(directory, recovery_point, **SMALL)
