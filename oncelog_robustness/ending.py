"""How a command that runs for minutes is ended from outside, and still tells what it has found."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

ENDS: Final = (signal.SIGINT, signal.SIGTERM)
EXIT_INTERRUPTED: Final = 130


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Who runs it in the background cannot send Ctrl-C: a shell has its children ignore that."""
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def no_interrupt() -> Iterator[None]:
    """An end during a fork comes after it: what its hooks raise is ignored, logging's for one."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
