"""Ports for tests: each worker that runs beside others has a part of those that clusters take theirs from."""

import os
import random
import socket

from oncelog_server.cluster import plan


def keep_to_a_part():
    """Otherwise clusters that two workers start at once take the same port now and then."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    size = len(plan.FREE_PORTS) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    first = int(worker.removeprefix("gw")) * size
    plan.FREE_PORTS = plan.FREE_PORTS[first : first + size]


def free_block(count):
    """So many in a row, from a place of its own: another test run may look at the same time, and a broker takes its
    ports seconds later. A port that the system gives (0) may be a client's end of a connection by then: not one of
    these."""
    starts = plan.FREE_PORTS[::count]
    at = random.SystemRandom().randrange(len(starts))
    for start in (*starts[at:], *starts[:at]):
        block = range(start, start + count)
        if all(_is_free(port) for port in block):
            return block
    raise AssertionError(f"no {count} free ports in a row")


def _is_free(port):
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
