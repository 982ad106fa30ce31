"""Simulated runs, each in a fork of this process. A run replaces clock, files and network of its process for
ever, so no second run may use the same process."""

import fcntl
import gc
import itertools
import os
import pickle
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from oncelog_robustness.ending import ENDS, no_interrupt
from oncelog_robustness.scenario import Scenario
from oncelog_robustness.simulator.run import RunOptions, RunResult, run_seed
from oncelog_robustness.simulator.warming import warm_up

STANDS_STILL_AFTER: Final = 10
"""The wall time that a run may take, as a multiple of its limit of processor time; a longer run
waits for the real world."""


@dataclass(frozen=True, slots=True)
class Job:
    scenario: Scenario
    seed: int
    options: Callable[[Path], RunOptions] = RunOptions


@dataclass(slots=True)
class _Child:
    job: Job
    pid: int
    pipe: int
    folder: Path
    lock: int
    began: float
    answer: bytearray
    is_out_of_time: bool = False


def run_all(jobs: Iterable[Job], at_a_time: int, timeout_s: int) -> Iterator[RunResult]:
    """Run each job in a fork, `at_a_time` of them together, and yield the results as they come. A run is
    killed after `timeout_s` seconds of processor time. Wall time may be ten times that, because the machine
    may be busy."""
    warm_up()
    # A run must not write into what it shares with this process, or the kernel copies it page by page.
    gc.collect()
    gc.freeze()
    waiting = iter(jobs)
    selector = selectors.DefaultSelector()
    children: dict[int, _Child] = {}
    is_out_of_jobs = False
    try:
        while True:
            while not is_out_of_jobs and len(children) < at_a_time:
                job = next(waiting, None)
                if job is None:
                    is_out_of_jobs = True
                    break
                with no_interrupt():
                    child = _fork(job, timeout_s)
                    children[child.pipe] = child
                selector.register(child.pipe, selectors.EVENT_READ)
            if not children:
                return
            for key, _ in selector.select(timeout=1.0):
                child = children[key.fd]
                data = os.read(key.fd, 1 << 20)
                if data:
                    child.answer += data
                    continue
                selector.unregister(key.fd)
                del children[key.fd]
                yield _result(child)
            for child in children.values():
                if time.monotonic() - child.began > timeout_s * STANDS_STILL_AFTER:
                    child.is_out_of_time = True
                    os.kill(child.pid, signal.SIGKILL)
    finally:
        for child in children.values():
            os.kill(child.pid, signal.SIGKILL)
            _end(child)
        selector.close()


def _fork(job: Job, timeout_s: int) -> _Child:
    folder, lock = _folder(job)
    reading, writing = os.pipe()
    _flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(job, pid, reading, folder, lock, time.monotonic(), bytearray())
    os.close(reading)
    _be_the_run(job, folder, writing, timeout_s)
    raise AssertionError("a run does not return")


def _flush() -> None:
    """Write out what was printed, which the child would otherwise write as well."""
    sys.stdout.flush()
    sys.stderr.flush()


def _be_the_run(job: Job, folder: Path, writing: int, timeout_s: int) -> None:
    # Its end by that limit is SIGXCPU, which would leave a file of its memory.
    for limit, most in ((resource.RLIMIT_CPU, timeout_s), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))
    # Kept before the simulation replaces them.
    write, leave = os.write, os._exit
    for number in ENDS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
    options = job.options(folder)
    result = run_seed(job.scenario, job.seed, options)
    if options.trace is not None:
        options.trace.flush()
    data = memoryview(pickle.dumps(result))
    while data:
        data = data[write(writing, data) :]
    leave(0)


def _result(child: _Child) -> RunResult:
    status, processor_s = _end(child)
    try:
        found: Any = pickle.loads(bytes(child.answer))
        assert isinstance(found, RunResult)
        return found
    except (EOFError, pickle.UnpicklingError):
        how = (
            f"was killed by signal {os.WTERMSIG(status)}"
            if os.WIFSIGNALED(status)
            else f"left with {os.waitstatus_to_exitcode(status)}"
        )
        failed = RunResult(child.job.seed, child.job.scenario.name)
        seconds = time.monotonic() - child.began
        is_out_of_processor = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        if child.is_out_of_time or is_out_of_processor:
            took = f"{processor_s:.0f} s of a processor and {seconds:.0f} s of the wall"
            failed.unfinished = f"killed by its clock after {took} without a result"
        else:
            failed.failures.append(f"the run {how} after {seconds:.0f} s without a result")
        return failed


def _end(child: _Child) -> tuple[int, float]:
    """Clean up after a child, and return its exit status and the seconds of a processor that it used."""
    os.close(child.pipe)
    _, status, usage = os.wait4(child.pid, 0)
    shutil.rmtree(child.folder, ignore_errors=True)
    Path(f"{child.folder}.lock").unlink(missing_ok=True)
    os.close(child.lock)
    return status, usage.ru_utime + usage.ru_stime


def _folder(job: Job) -> tuple[Path, int]:
    """Make an empty folder for a run, and return it with the descriptor of the lock that reserves it. Error
    texts with the folder's name cross the simulated network. So a seed has the same folder in every run,
    unless the seed is being run already."""
    shm = Path("/dev/shm")
    base = shm if shm.is_dir() else Path(tempfile.gettempdir())
    for number in itertools.count():
        folder = base / f"oncelog-sim-{os.getuid()}-{job.scenario.name}-{job.seed}-{number}"
        lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        # Left behind by a run that was killed.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder, lock
    raise AssertionError("numbers do not end")
