"""Lets SIGTERM and Ctrl-C end a command that runs for minutes: it stops, and still prints what it has found."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

ENDS: Final = (signal.SIGINT, signal.SIGTERM)
EXIT_INTERRUPTED: Final = 130


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does, while this is entered. A shell lets its background
    processes ignore Ctrl-C, so only SIGTERM stops those."""
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back while this is entered; they arrive afterwards. It surrounds a fork: an exception
    in a hook of the fork, such as logging's, would be ignored."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
