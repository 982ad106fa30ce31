"""Makes connections between simulated processes: the steps of connect(2), from the first SYN to an open
connection or an error."""

import asyncio
import contextvars
import errno
from typing import Final

from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.links import End
from oncelog_robustness.simulator.listening import Listener
from oncelog_robustness.simulator.network import SimNetwork
from oncelog_robustness.simulator.process import ProcessState, owner

_SYN_TIMEOUT_S: Final = 127.0
"""Seconds until an attempt to connect is given up, as Linux does after six repetitions."""


async def dial(network: SimNetwork, address: str, port: int) -> End:
    """Connect to a port and return the caller's end of the connection. Nothing is delivered to it until it is
    given a receiver. Raises OSError."""
    network.refuse_the_dead()
    host = network.host_at(address)
    if host is None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")
    attempt = Attempt(network, host, port, is_loopback=address.startswith(("127.", "localhost")))
    return await attempt.connected()


class Attempt:
    """One call of connect(2): a SYN goes to the port, an answer comes back. A fault may hold up either; the SYN is then
    sent again."""

    def __init__(
        self, network: SimNetwork, target_host: str, port: int, *, is_loopback: bool
    ) -> None:
        self._network = network
        self._host = network.host_here()
        self._target_host = target_host
        self._port = port
        self._is_loopback = is_loopback
        self._process = owner()
        self._context = contextvars.copy_context()
        self._answer: asyncio.Future[End] = network.loop.create_future()

    async def connected(self) -> End:
        """Send the SYN and return the caller's end when the connection is made. Raises OSError when it is
        refused, or after 127 seconds."""
        network = self._network
        timeout = network.loop.call_later(
            _SYN_TIMEOUT_S, self._fail, TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        )
        self._send(0.0)
        try:
            return await self._answer
        finally:
            timeout.cancel()
            network.waiting_attempts.pop(self, None)

    def send_again(self, late_s: float) -> None:
        """Send the SYN again, `late_s` seconds from now, because a fault of the network began or ended."""
        is_dead = self._process is not None and self._process.state is ProcessState.DEAD
        if not self._answer.done() and not is_dead:
            self._send(late_s)

    def _send(self, late_s: float) -> None:
        network = self._network
        if network.is_connecting_blocked(self._host, self._target_host):
            network.world.effects[Effect.CONNECTING_STUCK] += 1
            network.waiting_attempts[self] = None
            return
        delays = network.delays(self._host, self._target_host)
        at = network.loop.time() + late_s + network.latency_s(delays)
        network.loop.call_at(at, self._syn_arrived, context=network.context)

    def _syn_arrived(self) -> None:
        network = self._network
        if self._answer.done():
            return
        if network.is_connecting_blocked(self._host, self._target_host) or (
            network.is_connecting_blocked(self._target_host, self._host)
        ):
            network.world.effects[Effect.CONNECTING_STUCK] += 1
            network.waiting_attempts[self] = None
            return
        delays = network.delays(self._target_host, self._host)
        back_at = network.loop.time() + network.latency_s(delays)
        listener = network.listening_at(self._target_host, self._port)
        if listener is None or not listener.is_listening:
            network.world.trace("net-refused", self._host, self._target_host, self._port)
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            network.loop.call_on_arrival(back_at, self._fail, refused, context=self._context)
            return
        dialer, acceptor = self._ends(listener)
        network.connect(dialer, acceptor)
        network.loop.call_on_arrival(
            network.loop.time(), listener.accept, acceptor, context=acceptor.context
        )
        network.loop.call_on_arrival(back_at, self._succeed, dialer, context=self._context)

    def _ends(self, listener: Listener) -> tuple[End, End]:
        network = self._network
        if self._is_loopback:
            own = theirs = "127.0.0.1"
        else:
            own, theirs = network.address_of(self._host), network.address_of(self._target_host)
        port = network.free_port(self._host)
        dialer = End(self._host, (own, port), self._process, self._context.copy())
        return dialer, listener.end((theirs, self._port))

    def _succeed(self, end: End) -> None:
        if self._answer.done():
            # The caller has given the attempt up.
            end.abort()
        else:
            self._answer.set_result(end)

    def _fail(self, error: OSError) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
