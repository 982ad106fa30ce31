"""The `oncelog` command, called many times: each call is a fork of one process that has imported its modules.

A start of Python and its imports would take two thirds of the CPU of these tests. What the command does about its
process (signals, pipes that break, a terminal) is shown by processes of its own: `ONCELOG`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from importlib import import_module
from typing import NamedTuple

ONCELOG = [sys.executable, "-m", "oncelog_server"]
IMPORTED = (
    *("acls", "audit", "consume", "features", "groups", "health", "nodes", "partitions"),
    *("produce", "profiles", "records", "sinks", "tokens", "topics", "transactions", "users"),
)
LONGEST_S = 120


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Commands:
    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, arguments, environment, stdin=""):
        order = {"arguments": arguments, "environment": environment, "stdin": stdin}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return Done(*json.loads(self._process.stdout.readline()))

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def calling(bootstrap, gateway="", **more):
    """A function that runs `oncelog` with these arguments, checks its exit code, and returns what it printed."""
    environment = {**os.environ, "ONCELOG_BOOTSTRAP": bootstrap, "COLUMNS": "80", **more}
    if gateway:
        environment["ONCELOG_GATEWAY"] = gateway
    with contextlib.closing(Commands()) as commands:

        def call(*arguments, stdin="", code=0):
            done = commands.run(arguments, environment, stdin)
            assert done.returncode == code, (arguments, done)
            return done.stdout if code == 0 else done.stderr

        call.environment = environment
        yield call


def _forked(arguments, environment, stdin):
    with contextlib.ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile("w+b")) for _ in range(3))
        given.write(stdin.encode())
        given.seek(0)
        child = os.fork()
        if child == 0:
            os._exit(_child((given, out, err), arguments, environment))
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return Done(code, out.read().decode(), err.read().decode())


def _child(files, arguments, environment):
    signal.alarm(LONGEST_S)
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, closefd=False)  # noqa: SIM115 - it lives as long as its process
        for number, mode in enumerate("rww")
    )
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(import_module("oncelog_server.__main__").__file__), *arguments]
    try:
        import_module("oncelog_server.cli").main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main():
    for name in IMPORTED:
        import_module(f"oncelog_server.cli.{name}")
    own = tuple(f"oncelog.client.blocking.{one}" for one in ("admin", "consumer", "producer"))
    own += tuple(f"oncelog.client.network.{one}" for one in ("admin_topics", "admin_cluster"))
    others = ("rich.table", "oncelog_server.cli.kafka_clients")
    for module in (*own, *others):
        import_module(module)
    # A child has pipes of its own in their place.
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        print(json.dumps(_forked(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
