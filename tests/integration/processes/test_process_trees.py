"""A process of the cluster and what it starts."""

import contextlib
import os
import signal
import subprocess
import sys

import psutil

from oncelog_server.cluster.databases import kill_tree
from oncelog_server.cluster.os_process import end_process, ref_of

STARTS_OTHERS = """
import os, time
print("ready", flush=True)
for _ in range(200):
    if not os.fork():
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def of_session(leader):
    """Those that run, by process id."""
    found = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            if process.info["status"] != psutil.STATUS_ZOMBIE and os.getsid(process.pid) == leader:
                found.append(process.pid)
    return found


ENDS_WITH_ITS_CHILD = """
import os, signal, time
child = os.fork()
if not child:
    print("ready", flush=True)
    time.sleep(600)
def end(*_):
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    os._exit(0)
signal.signal(signal.SIGINT, end)
while True:
    time.sleep(600)
"""


def test_a_paused_tree_ends_in_order():
    """As Postgres does, which waits for its backends."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDS_WITH_ITS_CHILD], start_new_session=True, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        ref = ref_of(process.pid)
        ref.signal_tree(signal.SIGSTOP)
        assert end_process(ref, signal.SIGINT, 10.0)
        assert of_session(process.pid) == []
    finally:
        for pid in of_session(process.pid):
            psutil.Process(pid).send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_no_child_outlives_a_kill():
    """Also none that is started while the others are listed."""
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", STARTS_OTHERS], start_new_session=True, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout.readline() == b"ready\n"
            kill_tree(ref_of(process.pid))
            assert of_session(process.pid) == []
        finally:
            for pid in of_session(process.pid):
                psutil.Process(pid).send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
