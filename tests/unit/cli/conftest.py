import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


class AnsweringGateway(HTTPServer):
    """Answers a path, whatever its query, with its content in `answers`; any other path with `answer`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers = {}
        self.answer = (200, {"features": []}, {})
        """Status, content and headers."""
        self.seen = []
        """The headers of each request."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.headers)
        given = self.server.answers.get(self.path.partition("?")[0])
        status, content, headers = self.server.answer if given is None else (200, given, {})
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_POST = do_GET  # noqa: N815 (the base class names them so)

    def log_message(self, *_):
        """Not into the test's output."""


@pytest.fixture
def gateway(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("GATEWAY", "PROFILE", "PROFILES", "TOKEN", "TOKEN_FILE"):
        monkeypatch.delenv(f"ONCELOG_{name}", raising=False)
    with AnsweringGateway() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
