"""A cluster of processes on this machine as an object: start it, break it, find it again, end it.

The cluster's folder has its state: the state file says what runs, the logs what happened, and the data what lasts. A
`Cluster` object only reads and changes that, so a test and two shells see the same cluster. `locks` keeps their changes
apart. Every method blocks, because its users are tests and commands.
"""

import contextlib
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from oncelog.errors import OncelogError
from oncelog.rpc.sessions import PeerTls
from oncelog_server.cluster.databases import (
    kill_tree,
    redis_command,
    redis_url,
    refuse_if_not_installed,
    start_postgres_server,
    start_redis_server,
    stop_postgres_server,
)
from oncelog_server.cluster.environments import environment_of, gateway_url
from oncelog_server.cluster.locks import one_process, state_file, whole_cluster
from oncelog_server.cluster.os_process import (
    POLL_S,
    ProcessRef,
    end_process,
    start_process,
)
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    GATEWAY,
    LISTENER,
    MARKER_SENDER,
    POSTGRES,
    REDIS,
    STORAGE,
    ClusterShape,
    FreePorts,
    Member,
    RolePlan,
    plan_members,
    plan_more,
    replan_ports,
)
from oncelog_server.cluster.probe import HealthProbe
from oncelog_server.cluster.security import ClusterSecurity
from oncelog_server.cluster.state_file import ClusterState, read_state
from oncelog_server.cluster.tail import tail_of
from oncelog_server.cluster.view import await_whole
from oncelog_server.data_folder import make_private

START_TIMEOUT_S: Final = 90.0
STOP_TIMEOUT_S: Final = 12.0
"""Seconds to wait for a process to end: longer than a storage node takes to write checkpoints."""
DRAIN_TIMEOUT_S: Final = 40.0
"""Seconds for a drain and the stop that follows."""
STARTS_AT_ONCE: Final = 4
"""Processes started at once. Starting Python costs most of a second of a core; more would only make all late."""

_ENDED: Final = ("dead", "stopped")
_STOP_ORDER: Final[tuple[tuple[RolePlan, ...], ...]] = (
    (GATEWAY, LISTENER),
    (MARKER_SENDER, COORDINATOR),
    (STORAGE,),
    (CONTROLLER,),
)
"""The order of stopping: roles that clients call, then roles that write, then roles that they write to."""

Progress = Callable[[str, str], None]
"""Called for each process with its name, and `starting`, `ready`, `stopping` or `stopped`."""


class ClusterFailed(OncelogError):
    """A process of the cluster did not start, or ended; the text has the end of its log."""


class Cluster:
    """A local cluster in a folder. Use it as a context manager, or `start` and `stop` it, or `open` an existing one."""

    def __init__(
        self,
        folder: Path,
        shape: ClusterShape | None = None,
        *,
        port: int = 0,
        gateway_port: int = 0,
        is_secure: bool = False,
        environment: Mapping[str, str] | None = None,
        on_progress: Progress | None = None,
        on_plan: Callable[[ClusterState], None] | None = None,
    ) -> None:
        """Start nothing yet. Port 0 takes free ports; `environment` is added to that of every process. A secured
        cluster (`security.py`) stays secured at later starts.

        `on_plan` is called with names and ports before a start, and may set variables of single processes.
        """
        self.folder = folder.absolute()
        self._shape = shape or ClusterShape()
        self._ports = (port, gateway_port)
        self._is_secure = is_secure
        self._environment = dict(environment or {})
        self._on_progress = on_progress or (lambda name, state: None)
        self._on_plan = on_plan or (lambda state: None)
        self._state: ClusterState | None = None

    @classmethod
    def open(cls, folder: Path, on_progress: Progress | None = None) -> Self:
        """Return the cluster of this folder, running or not. Raises OncelogError when there never was one."""
        state = read_state(folder)
        if state is None:
            raise OncelogError(
                f"no cluster was started in {folder}; `oncelog cluster up --folder {folder}` starts one"
            )
        cluster = cls(folder, on_progress=on_progress)
        cluster._state = state
        return cluster

    def reload(self) -> None:
        """Read the state file again, because other commands may have changed the cluster."""
        with state_file(self.folder):
            self._state = read_state(self.folder)

    # --------------------------------------------------------------------------------------------- what there is

    @property
    def state(self) -> ClusterState:
        assert self._state is not None, "start() or open() comes first"
        return self._state

    @property
    def members(self) -> tuple[Member, ...]:
        return self.state.members

    def of_role(self, role: RolePlan) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.role == role.role)

    @property
    def bootstrap(self) -> str:
        """Addresses of every listener, for `bootstrap.servers`."""
        return ",".join(member.address for member in self.of_role(LISTENER))

    @property
    def gateway(self) -> str:
        return gateway_url(self.of_role(GATEWAY)[0], self.state, self.folder)

    @property
    def security(self) -> ClusterSecurity | None:
        """The cluster's certificates and users; None: not secured, so every user of this machine may do everything."""
        return ClusterSecurity(self.folder) if self.state.is_secure else None

    @property
    def tls(self) -> PeerTls | None:
        """Certificates for calls to the cluster's processes; None: the cluster is not secured."""
        return None if self.security is None else self.security.tls()

    @property
    def redis_url(self) -> str:
        """Address of the Redis of the live event feed. Only the user who started the cluster gets in."""
        return redis_url(self.folder)

    def member(self, name: str) -> Member:
        """Return the member (a process of the plan) with this name. Raises OncelogError that lists the names."""
        for member in self.members:
            if member.name == name:
                return member
        names = ", ".join([*(member.name for member in self.members), POSTGRES, REDIS])
        raise OncelogError(f"this cluster has no {name}; it has {names}")

    def process(self, name: str) -> ProcessRef | None:
        """Return the process of a member or database; None: it was never started, or was stopped in order."""
        if name not in (POSTGRES, REDIS):
            self.member(name)
        return self.state.running.get(name)

    def log_of(self, name: str) -> Path:
        if name == POSTGRES:
            return self.folder / POSTGRES / "log"
        return self.folder / "logs" / f"{name}.log"

    def state_of(self, name: str) -> str:
        """Return the state of a process: `running`, `paused`, `dead`, or `stopped` if it was ended in order."""
        process = self.process(name)
        state = "stopped" if process is None else process.state
        if state in ("stopped", "dead"):
            # Another command may have started it since this view was read.
            with state_file(self.folder):
                self._see_running()
            process = self.process(name)
            state = "stopped" if process is None else process.state
        return state

    @property
    def is_running(self) -> bool:
        """True if any process of the cluster lives."""
        return self._state is not None and any(
            process.is_alive for process in self._state.running.values()
        )

    # --------------------------------------------------------------------------------------------- all of it

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start everything and wait until all are ready. Raises OncelogError; nothing is left running then."""
        with whole_cluster(self.folder):
            self.reload()
            if self.is_running:
                raise OncelogError(
                    f"a cluster runs already in {self.folder}; `oncelog cluster status "
                    f"--folder {self.folder}` shows it, `down` ends it, another --folder takes another place"
                )
            self._plan()
            try:
                self._start_databases()
                self._start_members(self.members, timeout_s)
                self._await_whole(timeout_s)
                if self.security is not None:
                    self.security.admit_admin([one.rpc_address for one in self.of_role(CONTROLLER)])
            except BaseException:
                self._stop_everything()
                raise

    def stop(self) -> None:
        """End every process in order, or kill it if that takes too long. Nothing is moved off the nodes first."""
        with whole_cluster(self.folder):
            self.reload()
            self._stop_everything()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kill_all(self) -> None:
        """Send SIGKILL to every oncelog process at once; Postgres and Redis live on."""
        found = [self.state.running[one.name] for one in self.members if self.process(one.name)]
        for process in found:
            process.signal(signal.SIGKILL)
        for process in found:
            process.wait(STOP_TIMEOUT_S)

    def start_dead(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start every oncelog process that has died or was stopped, and wait until they are ready."""
        dead = [one.name for one in self.members if self.state_of(one.name) in _ENDED]
        with self._working_on(*dead):
            still = [self.member(name) for name in dead if self.state_of(name) in _ENDED]
            self._start_members(still, timeout_s)
        self._await_whole(timeout_s)

    # --------------------------------------------------------------------------------------------- one of it

    def kill(self, name: str) -> None:
        """Send SIGKILL to a process, which ends as in a crash."""
        process = self._running(name)
        if name == POSTGRES:
            kill_tree(process)
        else:
            process.signal(signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)

    def pause(self, name: str) -> None:
        """Send SIGSTOP to a process: it exists, keeps its connections, and does nothing."""
        self._running(name).signal_tree(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._running(name).signal_tree(signal.SIGCONT)

    def terminate(self, name: str, timeout_s: float = DRAIN_TIMEOUT_S) -> bool:
        """Send SIGTERM to a process, which drains and stops. Returns False when it had to be killed."""
        with self._working_on(name):
            return self._terminate(name, timeout_s)

    def start_one(self, name: str, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start a process again that was killed or terminated, with its data and ports, and wait until it is ready."""
        with self._working_on(name):
            self._start_one(name, timeout_s)

    def restart(self, name: str) -> None:
        """Drain and stop a process if it runs, then start it. Raises OncelogError when the whole cluster is down."""
        with self._working_on(name):
            refuse_if_not_installed(name)
            if not self.is_running:
                raise OncelogError(
                    f"the cluster in {self.folder} is down, and {name} alone cannot serve: "
                    f"`oncelog cluster up --folder {self.folder}` starts it"
                )
            if self.state_of(name) not in _ENDED:
                self._terminate(name, DRAIN_TIMEOUT_S)
            self._start_one(name, START_TIMEOUT_S)

    def grow(
        self, role: RolePlan, count: int, timeout_s: float = START_TIMEOUT_S
    ) -> tuple[Member, ...]:
        """Start `count` more processes of a role, which join the cluster, and wait until they are ready."""
        with whole_cluster(self.folder):
            self.reload()
            added = plan_more(self.members, role, count)
            with self._changed() as state:
                state.members += added
            self._start_members(added, timeout_s)
        return added

    def shrink(self, name: str) -> None:
        """Drain and stop a process for good: the cluster has one member less. Its data stays in the folder."""
        with whole_cluster(self.folder):
            self.reload()
            if self.state_of(name) not in _ENDED:
                self._terminate(name, DRAIN_TIMEOUT_S)
            with self._changed() as state:
                state.members = tuple(one for one in state.members if one.name != name)

    # --------------------------------------------------------------------------------------------- how

    @contextmanager
    def _working_on(self, *names: str) -> Iterator[None]:
        """Lock these processes, and the whole cluster against a start or stop. The state is read anew."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(whole_cluster(self.folder, is_shared=True))
            for name in sorted(names):
                stack.enter_context(one_process(self.folder, name))
            self.reload()
            yield

    @contextmanager
    def _changed(self) -> Iterator[ClusterState]:
        """Yield the state for the block to change, then write the state file. Nobody else writes it meanwhile."""
        with state_file(self.folder):
            self._see_running()
            yield self.state
            # Nobody has put another view in its place: that too takes the lock.
            self.state.write(self.folder)

    def _see_running(self) -> None:
        """Read from the state file which processes run now: other commands start and stop processes too."""
        found = read_state(self.folder)
        if found is not None:
            self.state.running, self.state.postgres_url = found.running, found.postgres_url

    def _terminate(self, name: str, timeout_s: float) -> bool:
        process = self._running(name)
        if name == POSTGRES:
            stop_postgres_server(process)
            ended = True
        else:
            ended = end_process(process, signal.SIGTERM, timeout_s)
        self._forget(name)
        return ended

    def _start_one(self, name: str, timeout_s: float) -> None:
        if self.state_of(name) not in _ENDED:
            raise OncelogError(f"{name} runs already")
        refuse_if_not_installed(name)
        if name == POSTGRES:
            self._start_postgres()
        elif name == REDIS:
            self._start_redis()
        else:
            self._start_members([self.member(name)], timeout_s)

    def _plan(self) -> None:
        """Write the plan of a start into the state file: the members of the last start, or new ones, with
        their ports.
        """
        make_private(self.folder / "logs")
        port, gateway_port = self._ports
        ports = FreePorts()
        if self._state is None:
            members = plan_members(self._shape, ports, port=port, gateway_port=gateway_port)
            self._state = ClusterState(members)
        else:
            self._state.members = replan_ports(
                self._state.members, ports, port=port, gateway_port=gateway_port
            )
        self._state.environment.update(self._environment)
        self._state.running.clear()
        self._state.is_secure = self._state.is_secure or self._is_secure
        if self.security is not None:
            self.security.prepare(self.bootstrap)
        self._on_plan(self._state)
        self._state.write(self.folder)

    def _start_databases(self) -> None:
        self._start_redis()
        self._start_postgres()

    def _start_postgres(self) -> None:
        self._on_progress(POSTGRES, "starting")
        with self._changed() as state:
            state.running[POSTGRES], state.postgres_url = start_postgres_server(
                self.folder / POSTGRES
            )
        self._on_progress(POSTGRES, "ready")

    def _start_redis(self) -> None:
        command = redis_command()
        if command is None:
            return
        self._on_progress(REDIS, "starting")
        with self._changed() as state:
            state.running[REDIS] = start_redis_server(command, self.folder, self.log_of(REDIS))
        self._on_progress(REDIS, "ready")

    def _start_members(self, members: Sequence[Member], timeout_s: float) -> None:
        """Start processes in order, a few at the same time: the next one when one of those is ready."""
        deadline = time.monotonic() + timeout_s
        pending = deque(members)
        starting: dict[str, HealthProbe] = {}
        tls = self.tls
        with contextlib.ExitStack() as stack:
            while pending or starting:
                while pending and len(starting) < STARTS_AT_ONCE:
                    member = pending.popleft()
                    self._launch(member)
                    starting[member.name] = stack.enter_context(
                        HealthProbe(member.rpc_address, tls)
                    )
                for name, probe in list(starting.items()):
                    if probe.is_serving():
                        del starting[name]
                        self._on_progress(name, "ready")
                    elif not self._running(name).is_alive:
                        raise ClusterFailed(self._account_of(name, "ended while it started"))
                if time.monotonic() > deadline:
                    late = next(iter(starting))
                    raise ClusterFailed(
                        self._account_of(late, f"was not ready within {timeout_s:.0f} s")
                    )
                time.sleep(POLL_S)

    def _await_whole(self, timeout_s: float) -> None:
        """Wait until every partition has a leader and every shard a coordinator. Raises ClusterFailed."""
        controllers = [member.rpc_address for member in self.of_role(CONTROLLER)]
        node_ids = [member.node_id for member in self.members if member.role != CONTROLLER.role]
        missing = await_whole(controllers, node_ids, timeout_s, self.tls)
        if missing:
            raise ClusterFailed(
                f"every process is ready, but {missing} after {timeout_s:.0f} s; logs are in {self.folder / 'logs'}"
            )

    def _launch(self, member: Member) -> None:
        self._on_progress(member.name, "starting")
        command = [sys.executable, "-m", member.module]
        with self._changed() as state:
            environment = environment_of(member, state, self.folder)
            state.running[member.name] = start_process(
                command, self.log_of(member.name), environment, self.folder
            )

    def _stop_everything(self) -> None:
        if self._state is None:
            return
        for roles in _STOP_ORDER:
            self._stop_together([member.name for role in roles for member in self.of_role(role)])
        self._stop_together([REDIS])
        postgres = self.state.running.get(POSTGRES)
        if postgres is not None:
            self._on_progress(POSTGRES, "stopping")
            stop_postgres_server(postgres)
            self._forget(POSTGRES)
            self._on_progress(POSTGRES, "stopped")

    def _stop_together(self, names: Sequence[str]) -> None:
        """Send SIGINT to these processes, all at once, and SIGKILL to those that take too long. No process drains."""
        found = {name: self.state.running[name] for name in names if name in self.state.running}
        for name, process in found.items():
            self._on_progress(name, "stopping")
            process.signal(signal.SIGINT)
            process.signal_tree(signal.SIGCONT)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for name, process in found.items():
            if not process.wait(max(deadline - time.monotonic(), 0.0)):
                process.end_tree(STOP_TIMEOUT_S)
            self._forget(name)
            self._on_progress(name, "stopped")

    def _running(self, name: str) -> ProcessRef:
        self.state_of(name)
        process = self.process(name)
        if process is None:
            raise OncelogError(f"{name} does not run; `oncelog cluster restart {name}` starts it")
        return process

    def _forget(self, name: str) -> None:
        with self._changed() as state:
            state.running.pop(name, None)

    def _account_of(self, name: str, what: str) -> str:
        log = self.log_of(name)
        return f"{name} {what}; the end of {log}:\n{tail_of(log)}"
