"""`oncelog cluster`: a whole cluster on this machine, one process per role, to work with and to break."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelog.errors import OncelogError
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Output
from oncelog_server.cli.tables import show_table

if TYPE_CHECKING:
    from oncelog_server.cluster.cluster import Cluster

app = command_group("Start, watch and break a whole cluster on this machine.")

Folder = Annotated[
    Path,
    typer.Option(envvar="ONCELOG_CLUSTER_FOLDER", help="where the cluster's data and logs are"),
]
Name = Annotated[str, typer.Argument(help="a process, as `oncelog cluster status` names it")]
FOLDER_DEFAULT = Path("oncelog-cluster")


@app.command()
def up(
    folder: Folder = FOLDER_DEFAULT,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Kafka port of the first listener; the next has the next (default: 9092)",
        ),
    ] = None,
    gateway_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="REST port (default: 8080)")
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="certificates between processes; clients come over TLS, log in and need ACLs",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="settings in TOML, a table for each role (or ONCELOG_CONFIG)"
        ),
    ] = None,
) -> None:
    """Start the cluster: 12 processes, a Postgres and a Redis. It runs until `oncelog cluster down`.

    --secure makes a CA, certificates and a user admin in the folder, which stays secured from then on. Port 0 takes
    free ports, or those of the last start. Data of an earlier cluster in the folder stays. The settings of
    --config hold until the next `up`. Each process reads the file when it starts.
    """
    _need_the_extra()
    from oncelog.process.sources import Flag
    from oncelog_server.cluster.cluster import Cluster
    from oncelog_server.settings import ClusterSettings, sources_of_cluster

    flags = {
        "ONCELOG_CLUSTER_PORT": Flag("--port", port),
        "ONCELOG_CLUSTER_GATEWAY_PORT": Flag("--gateway-port", gateway_port),
    }
    sources = sources_of_cluster(flags, config)
    settings = sources.read(ClusterSettings)
    with _Progress("starting") as progress:
        cluster = Cluster(
            folder,
            port=settings.port,
            gateway_port=settings.gateway_port,
            is_secure=secure,
            environment={"ONCELOG_CONFIG": "" if sources.path is None else str(sources.path)},
            on_progress=progress,
        )
        cluster.start()
    _show(cluster)
    security = cluster.security
    login = shown = ""
    if security is not None:
        login = f"log in with     {security.client_properties}\n"
        shown = f"                with the token in {security.metrics_token}\n"
    print(
        f"\nKafka clients   {cluster.bootstrap}\n"
        f"{login}"
        f"REST, console   {cluster.gateway}\n"
        f"metrics         {cluster.gateway}/metrics, and of each process: "
        f"oncelog cluster status --metrics{_folder_option(folder)}\n"
        f"{shown}"
        f"data, logs      {cluster.folder}\n"
        f"`oncelog cluster down{_folder_option(folder)}` ends it."
    )


@app.command()
def down(folder: Folder = FOLDER_DEFAULT) -> None:
    """Stop every process of the cluster. The data stays."""
    with _Progress("stopping") as progress:
        cluster = _opened(folder, progress)
        cluster.stop()
    print("the cluster is down")


@app.command()
def status(
    folder: Folder = FOLDER_DEFAULT,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="show the address of each process's /metrics instead")
    ] = False,
    output: AsOutput = None,
) -> None:
    """List the processes, and the partitions and shards of each."""
    cluster = _opened(folder)
    from oncelog_server.cluster.status import cluster_status

    if output is Output.JSON:
        print(json.dumps([asdict(row) for row in cluster_status(cluster)], indent=2))
        return
    if metrics:
        _show_metrics(cluster)
        return
    _show(cluster)


@app.command()
def kill(name: Name, folder: Folder = FOLDER_DEFAULT) -> None:
    """Kill one process with SIGKILL. `restart` starts it again."""
    cluster = _opened(folder)
    was = "was dead already" if cluster.state_of(name) == "dead" else "was killed"
    cluster.kill(name)
    print(f"{name} {was}; `oncelog cluster restart {name}{_folder_option(folder)}` starts it")


@app.command()
def restart(name: Name, folder: Folder = FOLDER_DEFAULT) -> None:
    """Drain and stop one process if it runs, then start it."""
    with _Progress("restarting") as progress:
        _opened(folder, progress).restart(name)
    print(f"{name} is ready")


@app.command()
def logs(
    name: Name,
    folder: Folder = FOLDER_DEFAULT,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, help="number of lines, from the end")
    ] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="print new lines until Ctrl-C")
    ] = False,
) -> None:
    """Print the end of a process's log."""
    cluster = _opened(folder)
    from oncelog_server.cluster.tail import tail_of

    cluster.process(name)
    log = cluster.log_of(name)
    if not log.exists():
        raise OncelogError(f"{name} has written nothing yet: there is no {log}")
    if follow:
        raise typer.Exit(subprocess.call(["tail", "-n", str(lines), "-f", str(log)]))
    print(tail_of(log, lines))


def _need_the_extra() -> None:
    """Exit with a hint if the extra `server` is not installed. A plain install runs `oncelog up` and lacks psutil,
    which the cluster commands need (ADR 0010).
    """
    if importlib.util.find_spec("psutil") is None:
        raise OncelogError(
            "a cluster needs more than a plain install: pip install 'oncelog[server]'"
        )


def _opened(folder: Path, progress: "_Progress | None" = None) -> "Cluster":
    _need_the_extra()
    from oncelog_server.cluster.cluster import Cluster

    return Cluster.open(folder, on_progress=progress)


def _folder_option(folder: Path) -> str:
    return "" if folder == FOLDER_DEFAULT else f" --folder {folder}"


def _show(cluster: "Cluster") -> None:
    from oncelog_server.cluster.status import cluster_status

    rows = cluster_status(cluster)
    show_table(
        ("process", ">node", "address", ">pid", "state", "leads or owns"),
        [(row.name, row.node_id, row.address, row.pid, row.state, row.duty) for row in rows],
        empty="no processes",
    )


def _show_metrics(cluster: "Cluster") -> None:
    """Print the addresses of the processes' metrics as a table. The table of the status has no room left for them in 80
    columns.
    """
    from oncelog_server.cluster.status import cluster_status

    show_table(
        ("process", "metrics"),
        [(row.name, row.metrics_url) for row in cluster_status(cluster) if row.metrics_url],
        empty="no process serves metrics",
    )


class _Progress:
    """Shows which processes are started or stopped: one line that is rewritten on a terminal, elsewhere one line for
    each process.
    """

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._busy: list[str] = []
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, name: str, state: str) -> None:
        if state in ("starting", "stopping"):
            self._busy.append(name)
        elif name in self._busy:
            self._busy.remove(name)
            if not self._is_terminal:
                print(f"{name} {state}", file=sys.stderr, flush=True)
        if self._is_terminal:
            self._write(f"{self._verb} {', '.join(self._busy)}" if self._busy else "")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text[:79]}")
        sys.stderr.flush()

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._write("")
