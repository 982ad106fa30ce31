"""A TCP proxy that reads Kafka frames. It can swallow a reply: the request took effect, and nobody receives it. And it
can hold a request: its client is cut off and connects again, and the request arrives whenever the test says.

Where clients log in (`logins.py`), they speak TLS to the proxy with the certificate of the listener, and it speaks TLS
to the listener.
"""

import queue
import socket
import ssl
import struct
import threading
from contextlib import ExitStack, contextmanager

from tests.conformance.logins import listener_files, tls_of_clients
from tests.conformance.tls_relay import TlsRelay
from tests.targets import is_login_asked, open_target

PRODUCE, ADD_PARTITIONS_TO_TXN, END_TXN = 0, 24, 26
HELD = "held"
"""Among a connection's doomed correlation ids: its client is gone and a request of it is still on its way."""


class CuttingProxy:
    """Forwards to a port given later. A context manager; every connection has two threads."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._target_port = None
        self._relays = ExitStack()
        self._before = self._behind = None
        self._lock = threading.Lock()
        self._cuts = {}
        self.swallowed = []
        self._hold_next = None
        self._then_cut_off = None
        self._is_cut_off = False
        self._held = queue.Queue()
        self._replies_to_held = queue.Queue()
        self._sockets = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        if is_login_asked():
            inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._before = self._relays.enter_context(TlsRelay(inward=inward))
            self._behind = self._relays.enter_context(TlsRelay())
            self._before.target_port, self.port = self.port, self._before.port
        return self

    @property
    def target_port(self):
        return self._target_port

    @target_port.setter
    def target_port(self, port):
        """Of a target that runs."""
        if self._before is None:
            self._target_port = port
            return
        self._before.inward.load_cert_chain(*listener_files())
        self._behind.outward = tls_of_clients()
        self._behind.target_port = port
        self._target_port = self._behind.port

    def __exit__(self, *_):
        self._relays.close()
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            _shut(one)

    def swallow_next_reply(self, api_key, times=1):
        """Forward the next `times` requests with `api_key`, wait for each reply, and cut the connection instead."""
        with self._lock:
            self._cuts[api_key] = times

    def hold_next_request(self, api_key, *, then_cut_off=None):
        """Keep the next request with `api_key`, and its connection to the server; cut its client off.

        `then_cut_off` is called with this proxy when that has happened, and from then on nobody is let in here.
        """
        with self._lock:
            self._hold_next = api_key
            self._then_cut_off = then_cut_off

    def hold_nothing(self):
        with self._lock:
            self._hold_next = self._then_cut_off = None

    def let_in(self):
        """After a request was held with `then_cut_off`: take new connections again."""
        self._is_cut_off = False

    def release_held(self, timeout_s):
        """Let the held request arrive on its old connection; returns the server's reply, length included."""
        server, frame = self._held.get(timeout=timeout_s)
        assert _send(server, frame), "the server closed the connection of the held request"
        reply = self._replies_to_held.get(timeout=timeout_s)
        _shut(server)
        return reply

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut_off:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets |= {client, server}
            doomed = set()
            for work in (
                (self._forward_requests, client, server),
                (self._forward_replies, server, client),
            ):
                threading.Thread(target=work[0], args=(*work[1:], doomed), daemon=True).start()

    def _forward_requests(self, client, server, doomed):
        for frame in _frames(client):
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            with self._lock:
                if self._cuts.get(api_key, 0) > 0:
                    self._cuts[api_key] -= 1
                    doomed.add(correlation_id)
                    self.swallowed.append(api_key)
                is_held = self._hold_next == api_key
                then_cut_off = self._then_cut_off
            if is_held:
                self.hold_nothing()
                doomed.add(HELD)
                self._held.put((server, frame))
                if then_cut_off is not None:
                    self._cut_off(server)
                    then_cut_off(self)
                _shut(client)
                return
            if not _send(server, self.request(frame)):
                break
        _shut(client)
        _shut(server)

    def request(self, frame):
        """What arrives of it; a test may change it, at the same length."""
        return frame

    def reply(self, frame):
        return frame

    def _cut_off(self, held):
        self._is_cut_off = True
        with self._lock:
            sockets = self._sockets - {held}
        for one in sockets:
            _shut(one)

    def _forward_replies(self, server, client, doomed):
        for frame in _frames(server):
            if HELD in doomed:
                self._replies_to_held.put(frame)
                continue
            if struct.unpack_from(">i", frame, 4)[0] in doomed or not _send(
                client, self.reply(frame)
            ):
                break
        _shut(server)
        _shut(client)


@contextmanager
def open_behind(proxy, folder, **options):
    """A server whose clients are told the proxy's port, so that every connection of theirs goes through it."""
    with open_target(folder, advertised_port=proxy.port, **options) as running:
        proxy.target_port = int(running.bootstrap.rpartition(":")[2])
        yield running


def _frames(source):
    """Whole frames, length included, until the other side goes away."""
    try:
        with source.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                body = stream.read(struct.unpack(">i", head)[0])
                yield head + body
    except (OSError, ValueError):
        return


def _send(target, frame):
    try:
        target.sendall(frame)
    except OSError:
        return False
    return True


def _shut(one):
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class PairingProxy(CuttingProxy):
    """Lets an addition wait for the EndTxn that its client sends behind it: then both arrive in one piece, or both are
    held and their client is cut off."""

    def __init__(self):
        self.addition_came = threading.Event()
        self.together = threading.Event()
        self._next = None
        super().__init__()

    def join_next_pair(self):
        self._next = "join"

    def hold_next_pair(self):
        """`release_next` lets the two go one after the other."""
        self._next = "hold"

    def cut_everyone(self):
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for one in sockets:
            _shut(one)

    def release_next(self, timeout_s):
        """The server's reply, length included."""
        server, frame = self._held.get(timeout=timeout_s)
        assert _send(server, frame), "the server closed the connection of the held requests"
        return self._replies_to_held.get(timeout=timeout_s)

    def _forward_requests(self, client, server, doomed):
        pair = []
        for frame in _frames(client):
            (api_key,) = struct.unpack_from(">h", frame, 4)
            if self._next is not None and api_key == ADD_PARTITIONS_TO_TXN:
                pair.append(frame)
                self.addition_came.set()
                continue
            if pair and api_key == END_TXN:
                pair.append(frame)
                if self._next == "hold":
                    doomed.add(HELD)
                    for one in pair:
                        self._held.put((server, one))
                self.together.set()
                self._next = None
                if HELD in doomed:
                    _shut(client)
                    return
            frames, pair = pair or [frame], []
            if not _send(server, b"".join(frames)):
                break
        _shut(client)
        _shut(server)
