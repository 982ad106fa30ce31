"""Ending commands that run for minutes: SIGTERM and Ctrl-C stop one, and it still prints what it has found."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Final

ENDS: Final = (signal.SIGINT, signal.SIGTERM)
EXIT_INTERRUPTED: Final = 130


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C while this is entered: a shell lets its background processes ignore Ctrl-C."""
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def no_interrupt() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM until a fork is over: an exception in a hook of the fork, such
    as logging's, is ignored."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
