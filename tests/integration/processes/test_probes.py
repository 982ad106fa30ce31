"""`/health` and `/metrics` of a process are answered whatever other clients leave half done."""

import asyncio
import http.client
import socket
import threading

import pytest
from tests.free_ports import free_block

from oncelog.errors import OncelogError
from oncelog.process import metrics as metrics_module
from oncelog.process import probe_server
from oncelog.process.metrics import served_metrics
from oncelog.process.metrics_token import MetricsToken

TOKEN = "f" * 32
LOGIN = {"Authorization": f"Bearer {TOKEN}"}


def _ask(port, path, host="localhost", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, headers={"Host": host} | (headers or LOGIN))
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("metrics") / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture(scope="module")
def port(token_file):
    """Of a process whose loop turns."""
    (port,) = free_block(1)
    stopped = asyncio.Event()
    started = threading.Event()
    loops = []

    async def process():
        loops.append(asyncio.get_running_loop())
        with served_metrics("127.0.0.1", port, "", "a_module", 7, token_file):
            started.set()
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=[process()])
    thread.start()
    assert started.wait(30)
    yield port
    loops[0].call_soon_threadsafe(stopped.set)
    thread.join()


def test_half_sent_and_idle_connections_starve_nobody(port):
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(210)]
    for number, one in enumerate(sockets):
        if number % 2:
            one.sendall(b"GET /health HTTP/1.1\r\nHost: ")
    assert _ask(port, "/health") == (200, '{"status": "alive"}')
    status, text = _ask(port, "/metrics?name=x")
    assert status == 200
    assert 'oncelog_process{module="a_module",node_id="7"' in text
    for one in sockets:
        one.close()


def test_metrics_want_the_token_of_their_file(port, token_file):
    def status(path, authorization):
        return _ask(port, path, Authorization=authorization)[0]

    for wrong in ("", f"Bearer {'e' * 32}", TOKEN, f"Basic {TOKEN}"):
        assert status("/metrics", wrong) == 401
        assert status("/health", wrong) == 200
    assert status("/metrics", f"Bearer {TOKEN}") == 200
    token_file.write_text("g" * 32)
    assert status("/metrics", f"Bearer {TOKEN}") == 401
    token_file.unlink()  # The token that was known goes on.
    assert status("/metrics", f"bearer {'g' * 32}") == 200
    token_file.write_text(TOKEN)
    assert status("/metrics", f"Bearer {TOKEN}") == 200


@pytest.mark.parametrize("content", ["", "short", "two words of a text", "\xff" * 20])
def test_a_file_without_a_token_is_refused_by_name(tmp_path, content):
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(OncelogError, match="openssl rand") as refused:
        MetricsToken(file)
    assert str(file) in str(refused.value)
    assert not content or content not in str(refused.value)


def test_a_lost_token_file_is_said_once(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    token = MetricsToken(file)
    for _ in range(2):
        file.unlink()
        assert all(token.admits(f"Bearer {TOKEN}") for _ in range(5))
        file.write_text(TOKEN)
        assert token.admits(f"Bearer {TOKEN}")
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_a_missing_token_file_is_named(tmp_path):
    with pytest.raises(OncelogError, match="No such file"):
        MetricsToken(tmp_path / "none")


def test_a_rebound_page_reads_nothing(port):
    for path in ("/metrics", "/health", "/"):
        status, text = _ask(port, path, host=f"evil.test:{port}")
        assert status == 421
        assert "evil.test" in text
        assert "ONCELOG_PROCESS_ALLOWED_HOSTS" in text


def test_another_path_or_method_is_told_what_there_is(port):
    assert _ask(port, "/")[0] == 404
    assert "/health, /metrics, /ready" in _ask(port, "/")[1]
    assert _ask(port, "/health", method="DELETE")[0] == 405


def test_a_head_without_end_is_refused(port):
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * 600_000)
        assert one.recv(100).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /health\r\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\nHost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    ],
)
def test_what_is_not_http_1_is_refused(port, head):
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(head)
        assert one.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_request_that_does_not_arrive_ends(port, monkeypatch):
    monkeypatch.setattr(probe_server, "PHASE_TIMEOUT_S", 0.1)
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"GET /health HTTP/1.1\r\n")
        one.settimeout(5)
        assert one.recv(100) == b""


def test_health_says_that_the_loop_of_the_process_is_stuck(monkeypatch):
    monkeypatch.setattr(metrics_module, "ROLE_METRICS_TIMEOUT_S", 0.2)

    async def process():
        shown = metrics_module.ProcessMetrics()
        found = [await asyncio.to_thread(asyncio.run, shown.health_page(""))]

        def ask():
            found.extend(asyncio.run(page("")) for page in (shown.health_page, shown.ready_page))

        with shown.showing(list, lambda: True):
            asking = threading.Thread(target=ask)
            asking.start()
            asking.join()  # The loop of the process is blocked by this very line.
        return [one.status for one in found]

    assert asyncio.run(process()) == [200, 503, 503]
