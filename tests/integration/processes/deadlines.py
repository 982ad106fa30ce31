"""Waiting for a condition, with an end."""

import time

WAIT_S = 90


def eventually(holds, wait_s=WAIT_S):
    """Return once `holds()` is true; fail after `wait_s`."""
    deadline = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
