"""The command line's options of chaos, all taken as text, so that an error is one line that names the wrong
value."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from oncelog.errors import OncelogError
from oncelog_robustness.arguments import SEED_MAX
from oncelog_robustness.chaos.plan import HITS_PER_MINUTE
from oncelog_robustness.clients.libraries import CHOSEN_IN_CHAOS, IN_CHAOS
from oncelog_robustness.fault_plan import FaultKind

MINUTES_LEAST, MINUTES_MOST = 0.1, 1440.0
PACE_LEAST, PACE_MOST = 0.1, 10.0
PACE_DEFAULT: Final = f"{HITS_PER_MINUTE:g}"
RECOVERY_BAR_MOST: Final = 600.0
KEEP_MOST: Final = 86_400.0

Minutes = Annotated[
    str, typer.Option(metavar="FLOAT", help=f"of faults, {MINUTES_LEAST:g} to {MINUTES_MOST:g}")
]
Seed = Annotated[
    str, typer.Option(metavar="INTEGER", help="of the plan and the workloads; 0 draws one")
]
Bootstrap = Annotated[
    str,
    typer.Option(
        help="host:port of any Kafka, several with commas; then only our own clients are broken. "
        "With --kubernetes: where its listeners are"
    ),
]
ClientConfig = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="FILE",
        help="how our clients log in at --bootstrap: a client.properties of Kafka",
    ),
]
Secure = Annotated[
    bool,
    typer.Option("--secure", help="a cluster with certificates between processes, logins and ACLs"),
]
ScenarioName = Annotated[
    str,
    typer.Option(
        help="which workloads: a name, or a .toml file; its storm is not used; "
        "default: default.toml in oncelog_robustness/chaos",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None, typer.Option(help="for logs, data and the report; default: a new one")
]
Library = Annotated[
    list[str] | None,
    typer.Option(
        help=f"client library: {', '.join(CHOSEN_IN_CHAOS)}; repeatable; default: {', '.join(IN_CHAOS)}"
    ),
]
OnKubernetes = Annotated[
    bool, typer.Option("--kubernetes", help="break the pods of a release of the chart")
]
InContainers = Annotated[
    bool,
    typer.Option(
        "--containers", help="start a cluster of containers with docker or podman, and break that"
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="with --containers: no kind of fault but this, such as kill; repeatable"),
]
OnMachines = Annotated[
    bool,
    typer.Option("--machines", help="drain machines too, and take all pods of one away"),
]
Namespace = Annotated[
    str, typer.Option(help="of the release; default: that of the pod or of the context")
]
Release = Annotated[str, typer.Option(help="Helm's name of it")]
Context = Annotated[str, typer.Option(help="of the kubeconfig; default: the current one")]
ToolsImage = Annotated[
    str, typer.Option(help="with iptables, for partitions; default: beside the release's images")
]
Pace = Annotated[
    str, typer.Option(metavar="FLOAT", help=f"faults of each role a minute, up to {PACE_MOST:g}")
]
Keep = Annotated[
    str,
    typer.Option(metavar="SECONDS", help="to stay after the report, so that it can be fetched"),
]
RecoveryBar = Annotated[
    str,
    typer.Option(
        metavar="SECONDS",
        help="a role whose p99 of recoveries from kills is longer is broken as well; 0: not judged",
    ),
]


def number_of(option: str, text: str, least: float, most: float) -> float:
    """Return the option's value as a number. Raises OncelogError that names the wrong value, which typer's
    own message would not do."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise OncelogError(f"{option} {text!r} is no number from {least:g} to {most:g}")
    return number


def kinds_of(wanted: list[str] | None) -> tuple[FaultKind, ...]:
    for name in wanted or ():
        if name not in list(FaultKind):
            raise OncelogError(
                f"--only {name!r} is no kind of fault; there are {', '.join(FaultKind)}"
            )
    return tuple(FaultKind(name) for name in wanted or ())


def seed_of(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed <= SEED_MAX:
        raise OncelogError(
            f"--seed {text!r} is no whole number from 1 to {SEED_MAX}, nor 0, which draws one"
        )
    return seed


def libraries_of(
    wanted: list[str] | None,
    known: Sequence[str] = CHOSEN_IN_CHAOS,
    by_default: Sequence[str] = IN_CHAOS,
) -> tuple[str, ...]:
    """Return the libraries that were named, or else those by default. Raises OncelogError for one that is not among
    the `known` ones."""
    for name in wanted or ():
        if name not in known:
            raise OncelogError(f"no client library {name!r}; there are {', '.join(known)}")
    return tuple(wanted or by_default)
