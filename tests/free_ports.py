"""A block of free ports, for tests of the code that hands them out."""

import os
import socket


def free_block(count):
    """So many in a row, of those that clusters take theirs from. Two processes begin at different ones."""
    starts = range(20_000, 32_000, count)
    first = os.getpid() % 97 * len(starts) // 97
    for start in (*starts[first:], *starts[:first]):
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
