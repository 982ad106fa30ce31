"""The containers of a cluster of chaos: they are started, killed, frozen, replaced, cut off, and removed."""

import contextlib
import fcntl
import json
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO, Final, Self
from urllib.request import ProxyHandler, build_opener

from oncelog.errors import OncelogError
from oncelog.rpc.probe import check
from oncelog_robustness.chaos.containers.engine import Engine
from oncelog_robustness.chaos.containers.plan import (
    HTTP_PORT,
    KAFKA_PORT,
    RPC_PORT,
    Container,
    Images,
    given_subnet,
    plan_containers,
)
from oncelog_robustness.chaos.contract import OnProgress
from oncelog_server.cluster.plan import GATEWAY, LISTENER, POSTGRES, REDIS

LABEL: Final = "oncelog.fleet"
PREFIX: Final = "oncelog-fleet"
LOCK: Final = Path(tempfile.gettempdir()) / "oncelog-fleet.lock"
READY_S: Final = 300.0
PROBE_S: Final = 2.0
CONNECT_S: Final = 1.0
DRAIN_S: Final = 45
"""Seconds that a container gets to stop, as in docker/compose.yaml: 20 at most for the drain, 10 for checkpoints."""
ANSWER_S: Final = 15.0
LAST_LINES: Final = 30
_LOOK_S: Final = 0.1
_AT_ONCE: Final = 4
_NO_PROXY: Final = build_opener(ProxyHandler({}))


class Fleet:
    """The containers of one cluster; use it with `with`, which removes them all.
    A machine can have one fleet at a time."""

    def __init__(
        self,
        engine: Engine,
        images: Images,
        *,
        on_progress: OnProgress | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Plan the containers, without starting any. `environment` holds further settings for every process
        of oncelog."""
        self.engine = engine
        self.images = images
        self.on_progress = on_progress or (lambda *_: None)
        self._environment = dict(environment or {})
        self._subnet = given_subnet()
        passwords = {one: secrets.token_hex(16) for one in (POSTGRES, REDIS)}
        self.containers = plan_containers(self._subnet, images, passwords)
        self._by_name = {one.name: one for one in self.containers}
        self._lock: IO[str] | None = None

    # ---------------------------------------------------------------------------------------------- all of them

    def start(self) -> None:
        """Start all containers and return when they are ready. Raises OncelogError if an image is missing or a
        container does not become ready; what was started is then removed."""
        self._take_lock()
        try:
            missing = [one for one in self.images.needed if not self.engine.has_image(one)]
            if missing:
                raise OncelogError(
                    f"{self.engine.command} has no image {', '.join(missing)}; make images builds oncelog's, and "
                    f"{self.engine.command} pull fetches the others"
                )
            self.remove()
            options = ["--disable-dns"] if self.engine.is_podman else []
            self.engine.do(
                *("network", "create", "--label", f"{LABEL}=yes", "--subnet", self._subnet),
                *options,
                PREFIX,
            )
            self._each(self.create, self.containers)
            self.await_ready([one.name for one in self.containers])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        try:
            self.remove()
        finally:
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def remove(self) -> None:
        """Remove every container, volume and network of any fleet, also those that a killed run left."""
        engine, label = self.engine, f"label={LABEL}"
        if found := engine.do("ps", "-aq", "--filter", label).split():
            # Some versions cannot kill a paused container. If this fails, it does not matter.
            engine.run_command("unpause", *found)
            engine.do("rm", "-f", "-v", *found)
        if found := engine.do("volume", "ls", "-q", "--filter", label).split():
            engine.do("volume", "rm", "-f", *found)
        if engine.do("network", "ls", "-q", "--filter", label).split():
            engine.do("network", "rm", PREFIX)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _take_lock(self) -> None:
        lock = LOCK.open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise OncelogError(
                f"another cluster of containers runs on this machine (it holds {LOCK}); wait for its end"
            ) from error
        self._lock = lock

    def _each(self, work: Callable[[Container], None], containers: Iterable[Container]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for done in [threads.submit(work, one) for one in containers]:
                done.result()

    # ---------------------------------------------------------------------------------------------- one of them

    def container(self, name: str) -> Container:
        return self._by_name[name]

    def of_role(self, role: str) -> list[Container]:
        return [one for one in self.containers if one.role == role]

    def on_machine(self, machine: int) -> list[Container]:
        return [one for one in self.containers if one.machine == machine]

    def others(self, containers: Sequence[Container]) -> list[str]:
        """Return the addresses of all containers but these, and of this machine, from which clients
        connect."""
        others = [one.address for one in self.containers if one not in containers]
        return [str(next(IPv4Network(self._subnet).hosts())), *others]

    def create(self, one: Container) -> None:
        """Create the container and start it."""
        self.on_progress(one.name, "starting")
        environment = {**one.environment, **(self._environment if one.machine else {})}
        arguments = [
            *("run", "--detach", "--name", full_name(one.name), "--label", f"{LABEL}=yes"),
            *("--network", PREFIX, "--ip", one.address, "--hostname", one.name),
            *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--user", one.user, "--stop-timeout", str(DRAIN_S), "--pull", "never"),
        ]
        if self.engine.is_podman:
            # podman draws a new MAC address at each start, and peers would use the old one for a while.
            arguments += ["--mac-address", mac_of(one.address), "--no-healthcheck"]
        for folder in one.tmpfs:
            arguments += ["--tmpfs", folder]
        if one.volume:
            volume = full_name(one.name)
            if self.engine.run_command("volume", "inspect", volume).code:
                self.engine.do("volume", "create", "--label", f"{LABEL}=yes", volume)
            arguments += ["--volume", f"{volume}:{one.volume}"]
        # The value is left out, because everybody on the machine sees the arguments of a command.
        for name in environment:
            arguments += ["--env", name]
        image = one.image or self.images.of_role(one.role)
        self.engine.do(*arguments, image, *one.command, environment=environment)

    def kill(self, name: str) -> None:
        self.engine.do("kill", "--signal", "KILL", full_name(name))

    def start_one(self, name: str) -> None:
        self.engine.do("start", full_name(name))

    def pause(self, name: str) -> None:
        self.engine.do("pause", full_name(name))

    def resume(self, name: str) -> None:
        self.engine.do("unpause", full_name(name))

    def terminate(self, name: str) -> int:
        """Stop the container by SIGTERM, and by SIGKILL when the time of a drain is over; return its exit
        code."""
        self.engine.do("stop", "--time", str(DRAIN_S), full_name(name), timeout_s=2 * DRAIN_S)
        found = self.engine.look([full_name(name)])
        return int(found[0]["State"]["ExitCode"]) if found else -1

    def replace(self, name: str) -> int:
        """Drain the container and put another in its place, with its address and data; return
        the exit code of the first."""
        code = self.terminate(name)
        self.engine.do("rm", full_name(name))
        self.create(self._by_name[name])
        return code

    def states(self) -> dict[str, str]:
        """Return the state of each container by its name: `running`, `paused`, `exited`, or
        another word of the engine."""
        found = self.engine.look([full_name(one.name) for one in self.containers])
        return {
            one["Name"].removeprefix("/").removeprefix(f"{PREFIX}-"): str(one["State"]["Status"])
            for one in found
        }

    def last_words(self, name: str) -> str:
        said = self.engine.run_command("logs", "--tail", str(LAST_LINES), full_name(name))
        return said.text.strip()

    # ---------------------------------------------------------------------------------------------- asked from outside

    def is_ready(self, one: Container) -> bool:
        if RPC_PORT in one.ports:
            return check(one.rpc_address, "", PROBE_S)[0]
        with contextlib.suppress(OSError):
            socket.create_connection((one.address, one.ports[0]), CONNECT_S).close()
            return True
        return False

    def await_ready(self, names: Sequence[str], timeout_s: float = READY_S) -> None:
        """Wait until these containers are ready.
        Raises OncelogError with the last log lines of the first that does not become so."""
        deadline = time.monotonic() + timeout_s
        for name in names:
            while not self.is_ready(self._by_name[name]):
                if time.monotonic() > deadline:
                    state = self.states().get(name, "gone")
                    words = self.last_words(name)
                    raise OncelogError(
                        f"{name} ({state}) at {self._by_name[name].address} is not ready after {timeout_s:.0f} s. "
                        f"Containers have to be reachable by their own addresses, which Docker Desktop and rootless "
                        f"podman do not offer. Its last words:\n{words}"
                    )
                time.sleep(_LOOK_S)
            self.on_progress(name, "ready")

    @property
    def bootstrap(self) -> str:
        listeners = self.of_role(LISTENER.role)
        return ",".join(f"{one.address}:{KAFKA_PORT}" for one in listeners)

    @property
    def gateway(self) -> str:
        return f"http://{self.of_role(GATEWAY.role)[0].address}:{HTTP_PORT}"

    def ask_gateway(self, path: str) -> object:
        """Return the gateway's response to a GET of `path`. Raises OncelogError when the gateway does not answer."""
        try:
            with _NO_PROXY.open(self.gateway + path, timeout=ANSWER_S) as answer:
                return json.load(answer)
        except (OSError, ValueError) as error:
            raise OncelogError(f"{self.gateway}{path}: {error}") from error

    # ---------------------------------------------------------------------------------------------- its network

    def in_network_of(self, name: str, script: str) -> None:
        """Run shell commands in a helper container that shares this container's network and may change it,
        such as by iptables."""
        self.engine.do(
            *("run", "--rm", "--label", f"{LABEL}=yes", "--pull", "never"),
            *("--network", f"container:{full_name(name)}", "--user", "0", "--entrypoint", "sh"),
            *("--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW"),
            self.images.tools,
            *("-c", script),
        )


def full_name(name: str) -> str:
    return f"{PREFIX}-{name}"


def mac_of(address: str) -> str:
    """Return a locally administered MAC address that is derived from the IP address."""
    return ":".join(("02", "4f", *(f"{int(part):02x}" for part in address.split("."))))
