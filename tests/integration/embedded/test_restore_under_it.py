"""An older `controller.db` that is put back while `oncelog up` runs ends it, and loses nothing (ADR 0039)."""

import contextlib
import time

import pytest
from tests.integration.controller.sql_databases import copied, put_back
from tests.integration.processes.test_restore_under_cluster import (
    VALUES,
    make_topics,
    send,
    values_of,
)

from oncelog.embedded import running
from oncelog.errors import OncelogError

DEADLINE_S = 90


def ended(pid):
    """A child that nobody waited for yet is dead when its first field after the name says Z."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(") ")[2][0] == "Z"
    return True


def test_an_older_database_under_a_running_log_ends_it(tmp_path):
    data = tmp_path / "data"
    url = f"sqlite:///{data / 'controller.db'}"
    with running(data=data) as log:
        older = copied(url)
        assert make_topics(log.bootstrap_servers, "payments") == ["payments"]
        send(log.bootstrap_servers)
        newer = copied(url)
        put_back(url, older)
        assert make_topics(log.bootstrap_servers, "other") == []
        deadline = time.monotonic() + DEADLINE_S
        while not ended(log.pid):
            assert time.monotonic() < deadline, "it went on"
            time.sleep(0.01)
    with (
        pytest.raises(OncelogError, match="the metadata is older than the folder of node 1"),
        running(data=data),
    ):
        pass
    put_back(url, newer)
    with running(data=data) as log:
        assert values_of(log.bootstrap_servers) == VALUES
