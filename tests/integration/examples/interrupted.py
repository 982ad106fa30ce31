"""Runs a program, and sends a signal when it is at the n-th instruction of its own file.

    python -m tests.integration.examples.interrupted EVENT SIGNAL PIDS PROGRAM ARGUMENTS…

An instruction is one of the interpreter: a line has several, so a signal comes at each line and between them. PIDS are
process ids with commas, 0 for the program itself. What gets a SIGKILL is gone before the program ends. EVENT 0: none is
sent, and the count is written to stderr at the end.
"""

import contextlib
import os
import runpy
import signal
import sys
import time

import psutil


def is_alive(pid):
    """Asked once: a process may end between two questions."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Interruption:
    def __init__(self, file, event, number, pids):
        self._file, self._event = os.path.abspath(file), event
        self._number, self._pids = number, pids
        self._killed = []
        self.count = 0

    def called(self, frame, what, argument):
        if frame.f_code.co_filename != self._file:
            return None
        frame.f_trace_opcodes = True
        return self.stepped

    def stepped(self, frame, what, argument):
        if what == "opcode":
            self.count += 1
            if self.count == self._event:
                for pid in self._pids:
                    # A database's worker may have ended of itself.
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid or os.getpid(), self._number)
                        self._killed += [pid] * (self._number == signal.SIGKILL)
        return self.stepped

    def wait(self):
        """On a busy machine a process runs on for a while when its SIGKILL is sent, and may outlive the program."""
        while any(is_alive(pid) for pid in self._killed):
            time.sleep(0.01)


def main(event, name, pids, program, *arguments):
    numbers = [int(pid) for pid in pids.split(",")]
    interruption = Interruption(program, int(event), getattr(signal, name), numbers)
    sys.argv[:] = [program, *arguments]
    sys.settrace(interruption.called)
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sys.settrace(None)
        interruption.wait()
        print("instructions:", interruption.count, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
