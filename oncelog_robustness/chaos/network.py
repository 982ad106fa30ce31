"""The runner's side of the proxy process, and the settings by which every connection of a cluster goes
through the proxy."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.links import CLIENTS, Rule
from oncelog_robustness.chaos.part import end_part, start_part
from oncelog_robustness.chaos.proxy import Frontend
from oncelog_server.cluster.databases import redis_socket
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    GATEWAY,
    HOST,
    LISTENER,
    MARKER_SENDER,
    POSTGRES,
    REDIS,
    STORAGE,
    FreePorts,
    Member,
    ports_of,
)
from oncelog_server.cluster.security import CLIENT_LISTENER
from oncelog_server.cluster.state_file import ClusterState

PROXY_LOG: Final = "proxy.log"
_REDIS_CLIENTS: Final = tuple(one.role for one in (STORAGE, COORDINATOR, MARKER_SENDER, GATEWAY))
_POSTGRES_SOCKET: Final = ".s.PGSQL.5432"


class ProxyProcess:
    """The proxy between the cluster's processes, as a child process. Any thread may send it a request; one
    request is answered at a time."""

    def __init__(self, log: Path) -> None:
        self._process = start_part("oncelog_robustness.chaos.proxy", log=log)
        self._log = log
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def control(self, do: str, **facts: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            try:
                print(json.dumps({"do": do, **facts}), file=self._process.stdin, flush=True)
                line = self._process.stdout.readline()
            except OSError as error:
                raise OncelogError(f"the proxy is gone: {error}; see {self._log}") from error
        if not line:
            raise OncelogError(f"the proxy has ended; see {self._log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OncelogError(f"the proxy cannot {do}: {answer['error']}")
        return answer

    def open(self, frontends: Sequence[Frontend], names: Mapping[str, str]) -> None:
        self.control(
            "open", frontends=[asdict(frontend) for frontend in frontends], names=dict(names)
        )

    def put(self, fault: str, rules: Iterable[Rule]) -> None:
        self.control("put", fault=fault, rules=[asdict(rule) for rule in rules])

    def lift(self, fault: str) -> None:
        self.control("lift", fault=fault)

    def reset(self, party: str) -> int:
        return int(self.control("reset", party=party)["broken"])

    def close(self) -> None:
        assert self._process.stdout is not None
        end_part(self._process)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClusterNetwork:
    """Puts a cluster behind the proxy: every connection between processes, databases and clients then goes
    through it."""

    def __init__(self, folder: Path, proxy: ProxyProcess) -> None:
        self._folder = folder
        self._proxy = proxy
        self._ports = FreePorts()
        self.bootstrap = ""
        """The bootstrap address for clients: the proxy's frontends of the listeners."""

    def take_in(self, state: ClusterState) -> None:
        """Open an address of the proxy for each connection of a planned cluster, and set each process's environment so
        that it connects to these addresses. `Cluster` calls this as its `on_plan`."""
        # The cluster's own ports are free until its processes run.
        self._ports.keep(ports_of(state.members))
        frontends: list[Frontend] = []
        kafka: list[str] = []
        for member in state.members:
            environment = state.environments.setdefault(member.name, {})
            environment.update(self._calls(member, frontends))
            environment.update(self._databases(member, frontends))
            if member.role == LISTENER.role:
                frontend = Frontend(CLIENTS, self._address(), member.name, member.address)
                frontends.append(frontend)
                kafka.append(frontend.listen)
                host, _, port = frontend.listen.rpartition(":")
                environment["ONCELOG_LISTENER_ADVERTISED_HOST"] = host
                environment["ONCELOG_LISTENER_ADVERTISED_PORT"] = port
                if state.is_secure:
                    environment["ONCELOG_LISTENER_ADVERTISED_LISTENERS"] = (
                        f"{CLIENT_LISTENER}://{frontend.listen}"
                    )
            if member.role == GATEWAY.role:
                frontends.append(Frontend(CLIENTS, self._address(), member.name, member.address))
        names = {member.rpc_address: member.name for member in state.members}
        self._proxy.open(frontends, names)
        self.bootstrap = ",".join(kafka)

    def _address(self) -> str:
        return f"{HOST}:{self._ports.next_port()}"

    def _calls(self, member: Member, frontends: list[Frontend]) -> dict[str, str]:
        frontend = Frontend(member.name, self._address())
        frontends.append(frontend)
        # gRPC would leave the proxy out for hosts that the environment excepts for the web.
        return {"ONCELOG_NODE_HTTP_PROXY": frontend.listen, "no_grpc_proxy": "none.invalid"}

    def _socket(self, member: Member, name: str) -> str:
        """Return the path of a Unix socket, called `name`, on which the proxy listens for this member. Only this user
        can enter its folder. A socket's path has 107 bytes at most."""
        folder = self._folder / "front" / member.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        return str(folder / name)

    def _databases(self, member: Member, frontends: list[Frontend]) -> dict[str, str]:
        if member.role == CONTROLLER.role:
            listen = self._socket(member, _POSTGRES_SOCKET)
            target = self._folder / POSTGRES / _POSTGRES_SOCKET
            frontends.append(Frontend(member.name, listen, POSTGRES, str(target)))
            url = f"postgresql+psycopg://postgres:@/postgres?host={Path(listen).parent}"
            return {"ONCELOG_CONTROLLER_DATABASE_URL": url}
        if member.role in _REDIS_CLIENTS:
            listen = self._socket(member, "redis.sock")
            frontends.append(Frontend(member.name, listen, REDIS, str(redis_socket(self._folder))))
            variable = f"ONCELOG_{member.role.upper().replace('-', '_')}_REDIS_URL"
            return {variable: f"unix://{listen}"}
        return {}
