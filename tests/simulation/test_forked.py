"""The child that simulations run in."""

import contextlib
import os
import resource
import time

import pytest
from tests.simulation.forked import ChildFailed, run_forked, run_forked_within


def test_a_parent_with_many_open_files_reads_the_answer():
    """`select` takes no descriptor above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip(f"this machine allows {hard} open files, the test needs 1,200")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while (descriptor := os.open(os.devnull, os.O_RDONLY)) < 1024:
            opened.callback(os.close, descriptor)
        opened.callback(os.close, descriptor)
        assert run_forked(lambda: b"x" * 200_000) == b"x" * 200_000


def test_child_that_hangs_is_killed():
    began = time.monotonic()

    def hang():
        while True:
            time.sleep(60)

    with pytest.raises(ChildFailed, match="not done"):
        run_forked_within(0.2, hang)
    assert time.monotonic() - began < 60
