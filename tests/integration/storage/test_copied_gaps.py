"""A follower of a compacted log, killed: the gaps that it copied are no damage, whatever its topic is by then."""

import signal
import subprocess
import sys

import pytest
from tests.integration.storage.partition_log_at import LOG, filled, flip, opened
from tests.integration.storage.storage_node import NOW

from oncelog.record.records import Record, encode_batch
from oncelog_storage import log_replication
from oncelog_storage.core.segment_files import GAPS_FILE
from oncelog_storage.segment import CorruptSegment


def at(offset):
    record = Record(b"k", b"%d" % offset, NOW)
    return bytes(encode_batch([record], base_offset=offset, leader_epoch=0))


def killed_follower(directory, *offsets):
    """A process that copies these batches one by one and is killed."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.integration.storage.partition_log_at import new_log\n"
        "from tests.integration.storage.storage_node import NOW\n"
        "from tests.integration.storage.test_copied_gaps import at\n"
        "from oncelog_storage import log_replication\n"
        "log = new_log(Path(sys.argv[1]), is_compacted=True)\n"
        "for offset in map(int, sys.argv[2:]):\n"
        "    log_replication.append_copied(log, at(offset), NOW)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", program, str(directory), *map(str, offsets)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("offsets", [(0, 7), (3,), (0, 1, 2, 9)])
def test_a_gap_is_no_damage_when_the_topic_keeps_everything(directory, offsets):
    killed_follower(directory, *offsets)
    found = opened(directory)
    assert found.log_end_offset == offsets[-1] + 1
    # What it copies from now on may have gaps too, and another start finds them.
    log_replication.append_copied(found, at(offsets[-1] + 5), NOW)
    assert opened(directory).log_end_offset == offsets[-1] + 6


def test_without_a_gap_a_damaged_offset_is_still_seen(directory):
    killed_follower(directory, 0, 1, 2)
    assert not (directory / GAPS_FILE).exists()
    flip(directory / LOG, (directory / LOG).stat().st_size // 3 * 2 + 5, 1)
    with pytest.raises(CorruptSegment, match="follows 1"):
        opened(directory)


def test_a_log_that_begins_anew_has_no_gaps(directory):
    killed_follower(directory, 0, 7)
    found = opened(directory)
    assert found.has_gaps
    log_replication.start_over(found, 20)
    assert not found.has_gaps
    assert not (directory / GAPS_FILE).exists()


def test_a_leader_notes_nothing(directory):
    filled(directory, 3)
    assert not (directory / GAPS_FILE).exists()
