"""Waiting for a condition, with an end."""

import time

WAIT_S = 30


def eventually(holds):
    """Return once `holds()` is true; fail after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
