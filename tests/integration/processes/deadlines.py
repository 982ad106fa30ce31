"""Waiting for a condition, with an end."""

import time

PATIENCE_S = 30


def eventually(holds):
    """Return once `holds()` is true; fail after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
