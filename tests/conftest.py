"""For all tests: what must be true for a failure to be told, and for Ctrl-C to reach what a test starts."""

import contextlib
import functools
import gc
import inspect
import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.free_ports import keep_to_a_part
from tests.loops import LoopOfATest

# A busy machine is slow, which says nothing about the code. pytest's own timeout ends what takes too long; to explain a
# failure takes longer still. `make slow` draws other examples each time, and the gate the same: its verdict is about
# the code alone.
settings.register_profile(
    "gate",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=set(Phase) - {Phase.explain},
    derandomize="ONCELOG_TEST_EXPLORE" not in os.environ,
)
settings.load_profile("gate")

SHARED_MEMORY = Path("/dev/shm")
ROOM_MIN_BYTES = 4 << 30


def has_room(folder):
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    may_run = not found.f_flag & getattr(os, "ST_NOEXEC", 0)  # Some tests write programs, too.
    room_bytes = found.f_bavail * found.f_frsize
    return os.access(folder, os.W_OK) and may_run and room_bytes >= ROOM_MIN_BYTES


# A disk takes milliseconds for a sync, and the gate makes tens of thousands of them. No test asks what a real disk
# keeps: SIGKILL leaves to the system what was written, and the simulator has the power cuts. TMPDIR asks for a disk.
ON_DISK = os.environ.setdefault("ONCELOG_TEST_DISK", tempfile.gettempdir())
if "TMPDIR" not in os.environ and has_room(SHARED_MEMORY):
    tempfile.tempdir = os.environ["TMPDIR"] = str(SHARED_MEMORY)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So begins whatever a shell puts into the background, and every child would inherit it: none could be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)


keep_to_a_part()


@pytest.fixture
def anyio_backend():
    """Each async test has a loop of its own, and async fixtures share that of their test."""
    return "asyncio", {"loop_factory": LoopOfATest}


@pytest.fixture
def disk_path():
    """A temporary folder that is on a disk where the machine has its temporary files there."""
    with tempfile.TemporaryDirectory(dir=ON_DISK) as folder:
        yield Path(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Where its class or a fixture has a world, such as a simulated network, an async test runs on the world's loop."""
    found = (pyfuncitem.instance, *pyfuncitem.funcargs.values())
    world = next((one for one in found if hasattr(one, "in_world")), None)
    if world is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    world.in_world(functools.partial(pyfuncitem.obj, **given))
    return True


@contextlib.contextmanager
def no_garbage_meanwhile():
    """CPython 3.11 ends a parse with "AST constructor recursion depth mismatch" when another one begins within it.

    A future whose exception nobody looked at does that when it is collected: asyncio logs its traceback, and to
    underline the failing expression a traceback is parsed. So garbage is collected before, not meanwhile.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    """Putting a failure into words parses the sources of tests."""
    if call.excinfo is None:
        return (yield)
    with no_garbage_meanwhile():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish():
    """Plugins load what they need for it only now, and pytest parses them to rewrite their asserts."""
    with no_garbage_meanwhile():
        return (yield)
