"""A provider of access tokens over HTTP, by OAuth's client credentials: JSON Web Tokens of tests.access_tokens."""

import base64
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote_plus

from tests.access_tokens import sign


@contextmanager
def token_provider(key, kid, clients):
    """`clients`: secrets by client id, which is the user too. Yields the address, and what was asked for."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            kind, _, found = self.headers.get("Authorization", "").partition(" ")
            user, _, secret = base64.b64decode(found).decode().partition(":")
            user, secret = unquote_plus(user), unquote_plus(secret)
            calls.append((user, form))
            if kind != "Basic" or user not in clients or clients[user] != secret:
                return self.answer(401, {"error": "invalid_client"})
            if form.get("grant_type") != ["client_credentials"]:
                return self.answer(400, {"error": "unsupported_grant_type"})
            token = sign(key, kid=kid, now_s=int(time.time()), sub=user)
            return self.answer(
                200, {"access_token": token, "token_type": "Bearer", "expires_in": 60}
            )

        def answer(self, status, body):
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", calls
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
