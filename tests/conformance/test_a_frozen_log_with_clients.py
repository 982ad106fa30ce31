"""`oncelog up` is stopped for a while and goes on: no client loses its connection or sees an error."""

import os
import re
import signal
import threading
import time
import urllib.request

import pytest
from tests.conformance.clients.face import commit, values
from tests.conformance.group_members import eventually

from oncelog_server.demo.processes import OncelogServer

LONGEST_MS = 500
STOPPED_S = 0.8
ACCEPTED = re.compile(r"^oncelog_listener_connections_accepted_total (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    environment = {"ONCELOG_LISTENER_STOOD_STILL_MAX_MS": str(LONGEST_MS)}
    folder = tmp_path_factory.mktemp("oncelog")
    with OncelogServer(folder / "data", environment=environment) as running:
        yield running


def connections_accepted(server):
    with urllib.request.urlopen(f"{server.gateway}/metrics", timeout=20) as answer:
        return float(ACCEPTED.search(answer.read().decode())[1])


def times_stood_still(server):
    return server.log.read_text().count("stood still")


class Stopped:
    """The process stands still while the block's client waits for it, and has noticed it at the block's end.

    A process that is stopped again before it notices counts both times as one.
    """

    def __init__(self, server):
        self._server = server
        self._goes_on = threading.Timer(STOPPED_S, os.kill, (server.pid, signal.SIGCONT))

    def __enter__(self):
        self._noticed_before = times_stood_still(self._server)
        self._since = time.monotonic()
        os.kill(self._server.pid, signal.SIGSTOP)
        self._goes_on.start()

    def __exit__(self, *_):
        self._goes_on.join()
        assert time.monotonic() - self._since >= STOPPED_S, "the client waited"
        eventually(
            lambda: times_stood_still(self._server) > self._noticed_before,
            "it did not notice the stop",
        )


def test_no_client_loses_its_connection(client, server, topic, producer):
    commit(producer, topic, b"0")
    before = connections_accepted(server)
    producer.begin()
    with Stopped(server):
        producer.send(topic, b"1")
    with Stopped(server):
        producer.commit()
    with Stopped(server):
        producer.begin()
        producer.send(topic, b"2")
        producer.abort()
    commit(producer, topic, b"3")
    assert connections_accepted(server) == before
    read = client.read(server.bootstrap, topic, until=b"3")
    assert values(read) == [b"0", b"1", b"3"]
