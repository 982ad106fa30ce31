"""The Redis of a cluster against another user of the machine, who would have it write files as the user it runs as."""

import errno
import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil
import pytest
from redis import Redis
from redis.exceptions import ResponseError
from tests.integration.telemetry.redis_server import RedisServer

from oncelog_server.cluster.databases import redis_socket

NOBODY = 65534


@pytest.fixture(params=["short", "a path too long for a socket " * 4])
def folder(request):
    """Everybody may enter what is above it, as with most folders."""
    made = Path(tempfile.mkdtemp(prefix="oncelog-redis-"))
    made.chmod(0o755)
    found = made / request.param
    found.mkdir()
    yield found
    shutil.rmtree(made)
    if redis_socket(found).parent.parent == Path("/tmp"):
        shutil.rmtree(redis_socket(found).parent, ignore_errors=True)


@pytest.fixture
def server(folder):
    started = RedisServer(folder)
    started.start()
    yield started
    started.kill()


def error_of_another_user(path):
    """What connecting to it comes to for somebody else."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as tried:
                os._exit(tried.connect_ex(str(path)))
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_it_listens_on_no_port(server):
    assert psutil.Process(server.pid).net_connections(kind="inet") == []


def test_only_its_user_may_enter_the_folder_of_its_socket(server, folder):
    path = redis_socket(folder)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o077 == 0
    if os.getuid() == 0:
        assert error_of_another_user(path) == errno.EACCES


def test_the_attack_fails_even_for_its_user(server, folder):
    """CONFIG SET dir, CONFIG SET dbfilename, SAVE: a file of one's choice, written by Redis."""
    with Redis.from_url(server.url) as redis:
        assert redis.ping()
        redis.xadd("oncelog:events", {"line": "* * * * * root id"})
        for command in (
            ("CONFIG", "SET", "dir", str(folder)),
            ("CONFIG", "SET", "dbfilename", "written"),
            ("SAVE",),
            ("BGSAVE",),
            ("BGREWRITEAOF",),
            ("DEBUG", "RELOAD"),
            ("MODULE", "LOAD", "/tmp/x.so"),
            ("REPLICAOF", "127.0.0.1", "1"),
            ("EVAL", "return 1", "0"),
            ("SHUTDOWN",),
        ):
            with pytest.raises(ResponseError, match="unknown command"):
                redis.execute_command(*command)
    found = {path.name for path in folder.rglob("*") if path.is_file() or path.is_socket()}
    assert found <= {"redis.conf", "redis.log", "redis.sock"}
