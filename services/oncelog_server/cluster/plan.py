"""The plan of a cluster: its processes with their names, node ids and ports.

A node id tells its role: storage nodes are 11, 12, 13, coordinators 21 and 22. Ports are taken below the range from
which the system takes ports for outgoing connections. Otherwise some connection would sit on one of them while its
process is being restarted.
"""

import itertools
import random
import socket
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from typing import Final

from oncelog.errors import OncelogError

HOST: Final = "127.0.0.1"
POSTGRES: Final = "postgres"
REDIS: Final = "redis"
"""The name of Redis among the processes of a cluster, as `POSTGRES` is that of Postgres."""
FREE_PORTS: Final = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class RolePlan:
    """A role of the plan: how its processes are named, and which node ids they have."""

    role: str
    module: str
    first_node_id: int


CONTROLLER: Final = RolePlan("controller", "oncelog_controller", 1)
STORAGE: Final = RolePlan("storage", "oncelog_storage", 11)
COORDINATOR: Final = RolePlan("coordinator", "oncelog_coordinator", 21)
MARKER_SENDER: Final = RolePlan("marker-sender", "oncelog_marker_sender", 31)
LISTENER: Final = RolePlan("listener", "oncelog_listener", 41)
GATEWAY: Final = RolePlan("gateway", "oncelog_gateway", 51)
ROLES: Final = (CONTROLLER, STORAGE, COORDINATOR, MARKER_SENDER, LISTENER, GATEWAY)
"""All roles in the order in which they start: each needs only those before it."""
PER_ROLE_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The number of processes of each role in a cluster."""

    controllers: int = 2
    storage: int = 3
    coordinators: int = 2
    marker_senders: int = 2
    listeners: int = 2
    gateways: int = 1

    def counts(self) -> Iterator[tuple[RolePlan, int]]:
        for role, count in zip(ROLES, astuple(self), strict=True):
            assert 0 <= count <= PER_ROLE_MAX, f"{count} processes of {role.role}"
            yield role, count


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a planned cluster: its name, node id and ports, which stay the same when it is started again."""

    name: str
    role: str
    module: str
    node_id: int
    rpc_port: int
    port: int
    """Kafka's port of a listener, the HTTP port of a gateway; 0 for other roles."""
    metrics_port: int = 0
    """Port of the process's own metrics; 0: it has none, as in clusters that were planned before there was one."""

    @property
    def rpc_address(self) -> str:
        return f"{HOST}:{self.rpc_port}"

    @property
    def address(self) -> str:
        """The address that a client of this process connects to."""
        return f"{HOST}:{self.port or self.rpc_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self.metrics_port}/metrics" if self.metrics_port else ""


def plan_members(
    shape: ClusterShape, ports: "FreePorts", *, port: int, gateway_port: int
) -> tuple[Member, ...]:
    """Return every process, with ports; a given port of 0 takes free ones. Raises OncelogError for a given port that
    is in use.
    """
    counts = dict(shape.counts())
    given = _given(ports, counts, port, gateway_port)
    members = []
    for role, count in counts.items():
        for index in range(count):
            has_own = role in (LISTENER, GATEWAY)
            own = given.get((role.role, index)) or (ports.next_port() if has_own else 0)
            members.append(_member(role, index, ports, own))
    return tuple(members)


def _member(role: RolePlan, index: int, ports: "FreePorts", own_port: int = 0) -> Member:
    return Member(
        name=f"{role.role}-{index + 1}",
        role=role.role,
        module=role.module,
        node_id=role.first_node_id + index,
        rpc_port=ports.next_port(),
        port=own_port,
        metrics_port=ports.next_port(),
    )


def plan_more(members: tuple[Member, ...], role: RolePlan, count: int) -> tuple[Member, ...]:
    """Return `count` more processes of a role that has no port for clients, on free node ids of the role."""
    assert role not in (LISTENER, GATEWAY), f"a {role.role} has a port of its own"
    ports = FreePorts()
    ports.keep(ports_of(members))
    taken = {one.node_id for one in members}
    free = [index for index in range(PER_ROLE_MAX) if role.first_node_id + index not in taken]
    assert count <= len(free), f"{count} more processes of {role.role}"
    return tuple(_member(role, index, ports) for index in free[:count])


def replan_ports(
    members: tuple[Member, ...], ports: "FreePorts", *, port: int, gateway_port: int
) -> tuple[Member, ...]:
    """Return the same processes with ports for another start. Each keeps its port if that is free; `port` and
    `gateway_port` win unless they are 0.

    Raises OncelogError for one of these two that is in use.
    """
    counts = {role: sum(one.role == role.role for one in members) for role in ROLES}
    given = _given(ports, counts, port, gateway_port)
    ports.keep(ports_of(members))
    seen: dict[str, int] = {}
    replanned = []
    for member in members:
        index = seen[member.role] = seen.get(member.role, -1) + 1
        has_own = member.role in (LISTENER.role, GATEWAY.role)
        own = given.get((member.role, index)) or (ports.again(member.port) if has_own else 0)
        replanned.append(
            replace(
                member,
                rpc_port=ports.again(member.rpc_port),
                port=own,
                metrics_port=ports.again(member.metrics_port),
            )
        )
    return tuple(replanned)


def ports_of(members: Iterable[Member]) -> list[int]:
    """Return all ports of these processes."""
    planned = ((one.rpc_port, one.port, one.metrics_port) for one in members)
    return [port for its in planned for port in its if port]


def _given(
    ports: "FreePorts", counts: dict[RolePlan, int], port: int, gateway_port: int
) -> dict[tuple[str, int], int]:
    """Return the ports that the user gave, by role and index of the process. They are reserved first, so that no free
    port is the same.
    """
    return {
        (role.role, index): ports.exactly(first + index, role)
        for role, first in ((LISTENER, port), (GATEWAY, gateway_port))
        for index in range(counts.get(role, 0) if first else 0)
    }


class FreePorts:
    """Hands out free ports of this machine, each once. A plan that needs ports for several purposes uses one object for
    all of them.

    The ports follow each other from a random one on, so two plans that are made at once hardly ever share a port.
    """

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._kept: set[int] = set()
        at = random.SystemRandom().randrange(len(FREE_PORTS))
        self._ahead: Iterator[int] = itertools.cycle((*FREE_PORTS[at:], *FREE_PORTS[:at]))

    def keep(self, ports: Iterable[int]) -> None:
        """Reserve ports that have a purpose already, even if nobody listens there yet. `next_port` does not return
        them.
        """
        self._kept.update(ports)

    def next_port(self) -> int:
        for port in itertools.islice(self._ahead, len(FREE_PORTS)):
            if port not in self._taken and port not in self._kept and _is_free(port):
                self._taken.add(port)
                return port
        raise OncelogError(f"no free port between {FREE_PORTS.start} and {FREE_PORTS.stop}")

    def again(self, port: int) -> int:
        """Return this port if it is free. If it is in use or 0, return another one."""
        if port == 0 or port in self._taken or not _is_free(port):
            return self.next_port()
        self._taken.add(port)
        return port

    def exactly(self, port: int, role: RolePlan) -> int:
        if port in self._taken or not _is_free(port):
            option = "--port" if role is LISTENER else "--gateway-port"
            raise OncelogError(
                f"port {port}, meant for a {role.role}, is in use: stop what listens there, "
                f"or choose another with {option} (0 takes free ones)"
            )
        self._taken.add(port)
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        # As servers do: a port whose last connections are still closing is free.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError:
            return False
    return True
