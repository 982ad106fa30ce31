"""Runs a program, and sends a signal when it is at the n-th instruction of its own file.

    python -m tests.integration.examples.interrupted EVENT SIGNAL PID PROGRAM ARGUMENTS…

An instruction is one of the interpreter: a line has several, so a signal comes at each line and between them. PID 0 is
the program itself. Another one is killed with its children, and all are gone before the program ends. EVENT 0: no
signal is sent, and the count is written to stderr at the end.
"""

import os
import runpy
import signal
import sys
import time

import psutil

from oncelog_server.cluster.os_process import ref_of


def is_alive(pid):
    """Asked once: a process may end between two questions."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Interruption:
    def __init__(self, file, event, number, pid):
        self._file, self._event = os.path.abspath(file), event
        self._number, self._pid = number, pid
        self._killed = ()
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
                self._send()
        return self.stepped

    def _send(self):
        if not self._pid:
            os.kill(os.getpid(), self._number)
        elif is_alive(self._pid):
            # A Postgres backend that is spared may wait for a lock of a killed one forever, with the shared memory.
            self._killed = ref_of(self._pid).signal_tree(self._number)

    def wait(self):
        """On a busy machine a process runs on for a while when its SIGKILL is sent, and may outlive the program."""
        while any(one.is_alive for one in self._killed):
            time.sleep(0.01)


def main(event, name, pid, program, *arguments):
    interruption = Interruption(program, int(event), getattr(signal, name), int(pid))
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
