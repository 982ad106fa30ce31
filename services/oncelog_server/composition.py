"""`oncelog up`: all roles in one process. They are the same roles as in a cluster, but they call each other directly
instead of by gRPC.

The order of the starts matters only here. The controller comes first. Then this node registers, which fences whatever
an earlier process left behind, and follows the metadata. Then come storage, marker sender and coordinator, and at last
the listener. The gateway comes after it, and nobody waits for that. Stopping goes the other way round.
"""

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.process.published_configs import published
from oncelog.process.role_metrics import PROCESS, PROCESS_LABELS, RoleMetric
from oncelog.process.sources import Sources
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.process_servicer import ProcessServicer
from oncelog.rpc.role import Role
from oncelog.runtime import Clock, SystemClock
from oncelog.telemetry.history import History, LocalFeed
from oncelog_server.coordinator_slot import CoordinatorSlot
from oncelog_server.data_folder import DataFolder
from oncelog_server.settings import EmbeddedSettings

if TYPE_CHECKING:
    from oncelog_controller.wiring import ControllerRole
    from oncelog_listener.role import ListenerRole
    from oncelog_marker_sender.wiring import MarkerSenderRole
    from oncelog_storage.folder_history import FolderHistory
    from oncelog_storage.wiring import StorageRole

NODE_ID = 1
_ROLES: Final = [name for name, number in pb.Role.items() if number]
STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses at which a running `oncelog up` serves Kafka clients and REST."""

    bootstrap: str
    gateway: str
    data: Path
    pid: int


@dataclass(frozen=True, slots=True)
class EmbeddedLog(Addresses):
    """A running `oncelog up`: its addresses, its roles, and the failure that may end it."""

    roles: "Roles"
    failure: Callable[[], Coroutine[object, object, BaseException]]
    """Waits until the process cannot go on, and returns the error that is the reason."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The running roles of one process, except the gateway. `metrics` yields the metrics of all of them, for one
    `/metrics`.
    """

    controller: "ControllerRole"
    storage: "StorageRole"
    coordinator: CoordinatorSlot
    marker_sender: "MarkerSenderRole"
    listener: "ListenerRole"
    marker_directory: LocalDirectory
    """The directory in which the marker sender finds the roles that write its markers."""

    def metrics(self) -> "Iterator[RoleMetric]":
        # Imported late: an `oncelog up` that nobody scrapes starts without them.
        from oncelog.telemetry.trace_metrics import trace_metrics
        from oncelog_controller.role_metrics import controller_metrics
        from oncelog_coordinator.role_metrics import coordinator_metrics
        from oncelog_listener.role_metrics import listener_metrics
        from oncelog_marker_sender.role_metrics import marker_sender_metrics
        from oncelog_storage.role_metrics import storage_metrics

        node = (str(NODE_ID), version("oncelog"))
        processes: dict[tuple[str, ...], float] = {
            ("oncelog_server", role.removeprefix("ROLE_").lower(), *node): 1.0 for role in _ROLES
        }
        yield RoleMetric(PROCESS, "1", processes, PROCESS_LABELS)
        yield from trace_metrics()
        yield from controller_metrics(self.controller)
        yield from storage_metrics(self.storage)
        yield from coordinator_metrics(self.coordinator.role)
        yield from marker_sender_metrics(self.marker_sender)
        yield from listener_metrics(self.listener.counters)


async def run_embedded(
    settings: EmbeddedSettings,
    sources: Sources,
    *,
    on_ready: Callable[[Addresses], None],
    until: Callable[[EmbeddedLog], Coroutine[object, object, None]],
    clock: Clock | None = None,
) -> None:
    """Run every role in this process until `until` returns; their settings are read from `sources`. `on_ready` is
    called once clients may connect. Storage and coordinator read the time from `clock`; without it, from the system.

    Raises OncelogError, one line with the way out, when a role cannot start, or cannot go on.
    """
    with DataFolder(settings.data, is_ephemeral=settings.ephemeral) as folder:
        async with embedded_roles(settings, folder.path, sources, clock) as log:
            on_ready(log)
            await _until_failed(until, log)


async def _until_failed(
    until: Callable[[EmbeddedLog], Coroutine[object, object, None]], log: EmbeddedLog
) -> None:
    """Wait until `until` returns. Raises the failure of a role if the log ends before that."""
    stopped = asyncio.create_task(until(log))
    failed = asyncio.create_task(log.failure())
    try:
        await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        if not stopped.done():
            raise failed.result()
        await stopped
    finally:
        stopped.cancel()
        failed.cancel()


@asynccontextmanager
async def embedded_roles(
    settings: EmbeddedSettings, data: Path, sources: Sources, clock: Clock | None = None
) -> AsyncIterator[EmbeddedLog]:
    """Start all roles of one node, and yield them. `data` is a folder that this process has locked. Leaving the block
    stops them.
    """
    async with AsyncExitStack() as stack:
        controller_role = await _controller(stack, settings, data, sources)
        controller = DirectStub(controller_role.servicer)
        follower = MetadataFollower(NODE_ID, controller)
        history = _history(data)
        await _register(controller, settings, _configs(settings, data, sources), history)
        await _follow(stack, follower)
        history.follow(follower)
        stack.callback(history.close)
        events = History()
        directory, marker_directory, log_roles = await _start_log(
            stack, data, sources, follower, controller, events, clock or SystemClock()
        )
        listener = await _start_listener(stack, settings, sources, follower, directory)
        roles = Roles(controller_role, *log_roles, listener, marker_directory)
        gateway = await _start_gateway(
            stack, settings, data, sources, follower, directory, roles, events
        )
        yield EmbeddedLog(
            bootstrap=f"{settings.host}:{listener.port}",
            gateway=gateway,
            data=data,
            pid=os.getpid(),
            roles=roles,
            failure=controller_role.failure,
        )


async def _start(stack: AsyncExitStack, role: Role) -> None:
    await role.start()
    stack.push_async_callback(_stop, role)


async def _stop(role: Role) -> None:
    async with asyncio.timeout(STOP_TIMEOUT_S):
        await role.stop()


async def _controller(
    stack: AsyncExitStack, settings: EmbeddedSettings, data: Path, sources: Sources
) -> "ControllerRole":
    from oncelog_controller.settings import ControllerSettings
    from oncelog_controller.wiring import build_controller

    database_url = f"sqlite:///{data / 'controller.db'}"
    if settings.postgres:
        from oncelog_server.embedded_postgres import start_postgres

        database_url = await start_postgres(stack, data / "postgres")
    controller = build_controller(sources.read(ControllerSettings, database_url=database_url))
    await _start(stack, controller)
    return controller


def _configs(settings: EmbeddedSettings, data: Path, sources: Sources) -> dict[str, str]:
    """Return the settings of storage, coordinator and listener under Kafka's names, as a client reads them with
    DescribeConfigs.
    """
    from oncelog_coordinator.settings import CoordinatorSettings
    from oncelog_listener.settings import ListenerSettings
    from oncelog_storage.settings import StorageSettings

    return {
        **published("storage", sources.read(StorageSettings, data_dir=data / "logs")),
        **published("coordinator", sources.read(CoordinatorSettings)),
        **published("listener", sources.read(ListenerSettings, port=settings.port)),
    }


def _history(data: Path) -> "FolderHistory":
    from oncelog_storage.folder_history import FolderHistory

    return FolderHistory(data / "logs")


async def _register(
    controller: DirectStub,
    settings: EmbeddedSettings,
    configs: dict[str, str],
    history: "FolderHistory",
) -> None:
    incarnation_id = uuid.uuid4().hex
    history.begin(incarnation_id)
    node = pb.Node(
        node_id=NODE_ID,
        roles=_ROLES,
        kafka_host=settings.advertised_host or settings.host,
        kafka_port=settings.advertised_port or settings.port,
        configs=configs,
    )
    answer = await controller.RegisterNode(
        pb.RegisterNodeRequest(node=node, incarnation_id=incarnation_id, folder=history.message())
    )
    if answer.status.error_code != ErrorCode.NONE:
        name = error_code_of(answer.status.error_code).name
        raise OncelogError(
            f"the controller refuses this node: {name} {answer.status.error_message}"
        )
    history.registered()


async def _follow(stack: AsyncExitStack, follower: MetadataFollower) -> None:
    task = asyncio.create_task(follower.run(), name="metadata follower")

    async def cancel() -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(cancel)
    await follower.wait_until(0)


async def _start_log(
    stack: AsyncExitStack,
    data: Path,
    sources: Sources,
    follower: MetadataFollower,
    controller: DirectStub,
    events: History,
    clock: Clock,
) -> tuple[
    LocalDirectory, LocalDirectory, tuple["StorageRole", CoordinatorSlot, "MarkerSenderRole"]
]:
    from oncelog_coordinator.settings import CoordinatorSettings
    from oncelog_coordinator.wiring import build_coordinator
    from oncelog_marker_sender.settings import MarkerSenderSettings
    from oncelog_marker_sender.wiring import build_marker_sender
    from oncelog_storage.settings import StorageSettings
    from oncelog_storage.wiring import build_storage

    storage_stub, marker_sender_stub = DirectStub(), DirectStub()
    coordinator_stub, group_coordinator_stub = DirectStub(), DirectStub()
    process_stub = DirectStub()
    directory, marker_directory = (
        LocalDirectory(
            storage=storage_stub,
            marker_sender=marker_sender_stub,
            coordinator=coordinator_stub,
            group_coordinator=group_coordinator_stub,
            controller=controller,
            process=process_stub,
        )
        for _ in range(2)
    )
    storage = build_storage(
        sources.read(StorageSettings, data_dir=data / "logs"),
        NODE_ID,
        follower,
        directory,
        clock,
        feed=LocalFeed(events, "storage", NODE_ID),
    )
    marker_sender = build_marker_sender(
        sources.read(MarkerSenderSettings),
        follower,
        marker_directory,
        feed=LocalFeed(events, "marker-sender", NODE_ID),
    )
    coordinator_settings = sources.read(CoordinatorSettings)
    coordinator = CoordinatorSlot(
        lambda: build_coordinator(
            coordinator_settings,
            NODE_ID,
            follower,
            directory,
            clock,
            LocalFeed(events, "coordinator", NODE_ID),
        ),
        coordinator_stub,
        group_coordinator_stub,
    )
    storage_stub.bind(storage.servicer)
    marker_sender_stub.bind(marker_sender.servicer)
    process_stub.bind(_process(storage, coordinator, marker_sender))
    for role in (storage, marker_sender, coordinator):
        await _start(stack, role)
    return directory, marker_directory, (storage, coordinator, marker_sender)


def _process(
    storage: "StorageRole", coordinator: CoordinatorSlot, marker_sender: "MarkerSenderRole"
) -> ProcessServicer:
    from oncelog_coordinator import process_counts as of_coordinator
    from oncelog_marker_sender import process_counts as of_marker_sender
    from oncelog_storage import process_counts as of_storage

    def tell(answer: DescribeProcessResponse) -> None:
        of_storage.tell_counts(storage, answer)
        of_coordinator.tell_counts(coordinator.role, answer)
        of_marker_sender.tell_counts(marker_sender, answer)

    return ProcessServicer(NODE_ID, tell)


async def _start_listener(
    stack: AsyncExitStack,
    settings: EmbeddedSettings,
    sources: Sources,
    follower: MetadataFollower,
    directory: LocalDirectory,
) -> "ListenerRole":
    from oncelog_listener.settings import ListenerSettings
    from oncelog_listener.wiring import build_listener

    listener_settings = sources.read(
        ListenerSettings,
        host=settings.host,
        port=settings.port,
        advertised_host=settings.advertised_host,
        advertised_port=settings.advertised_port,
    )
    listener = build_listener(listener_settings, NODE_ID, follower, directory)
    try:
        await _start(stack, listener)
    except OncelogError as error:
        raise OncelogError(f"{error}{_gateway_port_too(settings)}") from error
    return listener


def _gateway_port_too(settings: EmbeddedSettings) -> str:
    """Return a warning for the error that Kafka's port is in use: the gateway's port is in use too. So a user who
    chooses another Kafka port does not fail again. Empty if the port is free.
    """
    try:
        with socket.create_connection((settings.host, settings.gateway_port), 1.0):
            pass
    except OSError:
        return ""
    return f"; the gateway's port {settings.gateway_port} is in use too: --gateway-port or ONCELOG_GATEWAY_PORT"


async def _start_gateway(
    stack: AsyncExitStack,
    settings: EmbeddedSettings,
    data: Path,
    sources: Sources,
    follower: MetadataFollower,
    directory: LocalDirectory,
    roles: Roles,
    events: History,
) -> str:
    """Start the gateway and return its address."""
    from oncelog_gateway.settings import GatewaySettings
    from oncelog_gateway.wiring import build_gateway

    gateway_settings = sources.read(
        GatewaySettings,
        host=settings.host,
        port=settings.gateway_port,
        audit_path=data / "audit.jsonl",
    )
    if settings.advertised_host is not None:
        # Clients that reach Kafka by this name reach REST by it.
        names = f"{gateway_settings.allowed_hosts},{settings.advertised_host}"
        gateway_settings = gateway_settings.model_copy(update={"allowed_hosts": names})
    gateway = build_gateway(
        gateway_settings,
        follower,
        directory,
        read_metrics=roles.metrics,
        history=events,
        waits_for_client=True,
    )
    await _start(stack, gateway)
    scheme = "http" if gateway_settings.tls_certificate_file is None else "https"
    return f"{scheme}://{settings.host}:{gateway.port}"
