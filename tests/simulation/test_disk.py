"""Simulated disks under production's storage code: what a kill leaves, what a power cut leaves, what faults do."""

import os

import pytest
from tests.integration.storage.partition_log_at import (
    everything,
    new_log,
    opened,
    write_story,
)
from tests.simulation.small_world import in_small_world

from oncelog.errors import OncelogError
from oncelog_storage.log_directory import LogDirectory

HOST = "storage-1"


def as_process(small, name, work):
    """`work()` as a process of that name; returns it and what `work` returned."""
    process = small.world.new_process(name, HOST)
    return process, process.context().run(work)


def test_killed_process_loses_its_descriptors_and_nothing_it_wrote():
    def story(small):
        folder = small.disks.folder(HOST)
        before = len(os.listdir("/proc/self/fd"))

        def write():
            directory = LogDirectory(folder / "data")
            directory.open("cluster", 1)
            log = new_log(folder / "data" / "orders-0", segment_bytes=600)
            write_story(log)
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

    assert in_small_world(1, story) > 10
