"""A TCP proxy that reads Kafka frames and misbehaves at the call a test chose.

All clients of a test reach the cluster through it (the cluster advertises the proxy's port). So production code runs as
it is, and faults happen where they happen in life: between two machines.
"""

import os
import signal
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import psutil

from oncelog.client.core.addresses import Address
from oncelog.errors import ErrorCode
from oncelog.protocol import versions
from oncelog.protocol.frames import framed_response, read_request_prefix
from oncelog.protocol.private_api import PRIVATE_CALLS

NAMES = {key: call.method for key, call in PRIVATE_CALLS.items()} | {
    key: api.name for key, api in versions.APIS.items()
}


class Fault(Enum):
    REFUSE = "the caller gets an error, the cluster nothing"
    REFUSE_AFTER = "the cluster acts, the caller gets an error"
    CUT = "the connection is closed, the cluster gets nothing"
    CUT_AFTER = "the cluster acts, the connection is closed"
    KILL_CALLER = "the calling process gets SIGKILL, the cluster nothing"
    KILL_CALLER_AFTER = "the cluster acts, then the calling process gets SIGKILL"
    HOLD = "the call waits until `release`"


@dataclass
class Plan:
    method: str
    fault: Fault
    skip: int = 0
    """Calls of the method to let pass first."""
    times: int = 1
    happened: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def takes(self, method: str) -> bool:
        if method != self.method or not self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class CallProxy:
    """`start()`, point `upstream` at the cluster, give faults to `plan`; `calls` counts by method."""

    def __init__(self) -> None:
        self.upstream: Callable[[], Address] = lambda: Address("127.0.0.1", 1)
        self.calls: Counter[str] = Counter()
        self.order: list[str] = []
        """Sink calls in the order in which they came."""
        self.on_call: Callable[[str], None] = lambda method: None
        self._plans: list[Plan] = []
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=256)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._server.getsockname()[1])

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def plan(self, method: str, fault: Fault, skip: int = 0, times: int = 1) -> Plan:
        plan = Plan(method, fault, skip, times)
        with self._lock:
            self._plans.append(plan)
        return plan

    def reset(self) -> None:
        """Forget faults and counts; calls that are held go on."""
        with self._lock:
            for plan in self._plans:
                plan.released.set()
            self._plans.clear()
            self.calls.clear()
            self.order.clear()
            self.on_call = lambda method: None

    def _accept(self) -> None:
        while True:
            try:
                client, peer = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, peer[1]), daemon=True).start()

    def _serve(self, client: socket.socket, client_port: int) -> None:
        """Requests of one connection in order, each with its answer: what a broker promises, and simple."""
        try:
            with client, socket.create_connection(self.upstream()) as server:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                requests, answers = client.makefile("rb"), server.makefile("rb")
                while frame := _read_frame(requests):
                    answer = self._call(frame, client_port, server, answers)
                    if not answer:
                        return
                    client.sendall(answer)
        except OSError:
            return

    def _call(self, frame: bytes, client_port: int, server: socket.socket, answers) -> bytes:
        api_key, _, correlation_id = read_request_prefix(frame[4:])
        method = NAMES.get(api_key, str(api_key))
        with self._lock:
            self.calls[method] += 1
            if api_key in PRIVATE_CALLS:
                self.order.append(method)
            plan = next((plan for plan in self._plans if plan.takes(method)), None)
        self.on_call(method)
        if plan is None:
            return _forward(frame, server, answers)
        if plan.fault is Fault.HOLD:
            plan.happened.set()
            plan.released.wait(120)
            return _forward(frame, server, answers)
        is_kill = plan.fault in (Fault.KILL_CALLER, Fault.KILL_CALLER_AFTER)
        # Looked up while the call is fresh: a caller that gives up meanwhile has closed its end.
        victim = pid_of_client(client_port, self.address.port) if is_kill else None
        if plan.fault in (Fault.REFUSE_AFTER, Fault.CUT_AFTER, Fault.KILL_CALLER_AFTER):
            _forward(frame, server, answers)
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
        plan.happened.set()
        if plan.fault in (Fault.REFUSE, Fault.REFUSE_AFTER):
            refusal = PRIVATE_CALLS[api_key].response(
                error_code=ErrorCode.INVALID_REQUEST, error_message="a fault of the test"
            )
            return framed_response(correlation_id, True, [refusal.SerializeToString()])
        return b""


def pid_of_client(client_port: int, server_port: int) -> int:
    """The process at the client's end of this connection on 127.0.0.1.

    Its port alone does not name it: a connection to elsewhere may have the same, and so may one that has ended.
    """
    ends = ("127.0.0.1", client_port), ("127.0.0.1", server_port)
    for one in psutil.net_connections("tcp4"):
        if (one.laddr, one.raddr) == ends and one.pid is not None:
            return one.pid
    raise AssertionError(f"nobody has a connection from port {client_port} to {server_port}")


def _forward(frame: bytes, server: socket.socket, answers) -> bytes:
    server.sendall(frame)
    return _read_frame(answers)


def _read_frame(stream) -> bytes:
    prefix = stream.read(4)
    if len(prefix) < 4:
        return b""
    body = stream.read(struct.unpack(">i", prefix)[0])
    return prefix + body
