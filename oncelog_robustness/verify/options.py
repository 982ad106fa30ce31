"""The options of verify, all taken as text, so that an error is one line that names the wrong value."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from oncelog.errors import OncelogError
from oncelog_robustness.clients.libraries import LIBRARIES
from oncelog_robustness.history import Isolation

FOR_LEAST_S, FOR_MOST_S = 5.0, 86_400.0
EVERY_LEAST_S, EVERY_MOST_S = 2.0, 3_600.0
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|)")

Bootstrap = Annotated[
    str, typer.Argument(metavar="BOOTSTRAP", help="host:port of any Kafka, several with commas")
]
For = Annotated[
    str,
    typer.Option("--for", metavar="DURATION", help="how long clients work, such as 30s, 2m, 1h"),
]
ClientConfig = Annotated[
    str,
    typer.Option("--config", metavar="FILE", help="how to log in: a client.properties of Kafka"),
]
Fault = Annotated[
    list[str] | None,
    typer.Option(metavar="CMD", help="a command that breaks something; several take turns"),
]
Heal = Annotated[str, typer.Option(metavar="CMD", help="a command that ends what --fault began")]
FaultEvery = Annotated[
    str, typer.Option(metavar="DURATION", help="how often brokers, and our own clients, are struck")
]
PidFile = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="of a broker on this machine, to freeze it; repeatable"),
]
Restart = Annotated[
    str,
    typer.Option(
        metavar="CMD",
        help="starts the broker of VERIFY_PID_FILE again; with it brokers are killed, and restarted in turn, too",
    ),
]
ContainerName = Annotated[
    list[str] | None,
    typer.Option("--container", metavar="NAME", help="of a broker in docker or podman; repeatable"),
]
Pods = Annotated[str, typer.Option(metavar="LABEL", help="of brokers in Kubernetes: app=kafka")]
Namespace = Annotated[str, typer.Option(help="of these pods; default: that of the context")]
Context = Annotated[str, typer.Option(help="of the kubeconfig; default: the current one")]
Library = Annotated[
    list[str] | None,
    typer.Option(help=f"client library: {', '.join(LIBRARIES)}; repeatable; default: every one"),
]
JavaClasspath = Annotated[
    str,
    typer.Option(
        "--java-classpath",
        metavar="JARS",
        help="kafka-clients and what it needs, such as '/opt/kafka/libs/*': Kafka's Java client takes part; "
        "default: libs of KAFKA_HOME",
    ),
]
Folder = Annotated[
    Path | None, typer.Option(help="for the history and the report; default: oncelog-verify-RUN")
]
Seed = Annotated[
    str, typer.Option(metavar="INTEGER", help="of the faults and the workloads; 0 draws one")
]
HistoryFile = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="judge this one instead: of a run (JSON lines), or of Jepsen's Kafka workload (EDN)",
    ),
]
IsolationLevel = Annotated[
    str, typer.Option("--isolation", help="of the consumers in a history of Jepsen")
]
Clean = Annotated[
    str, typer.Option(metavar="RUN", help="remove what a run left that could not remove it itself")
]


def duration_s(option: str, text: str, least: float, most: float) -> float:
    """Return the duration in an option's text, in seconds. Raises OncelogError naming the option and its limits."""
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _UNITS[found[2]] if found else -1.0
    if not least <= seconds <= most:
        raise OncelogError(
            f"{option} {text!r} is no duration from {least:g}s to {most / 3600:g}h, such as 30s, 2m or 1h"
        )
    return seconds


def isolation_of(text: str) -> Isolation:
    if text not in list(Isolation):
        raise OncelogError(f"--isolation {text!r} is neither {' nor '.join(Isolation)}")
    return Isolation(text)


def addresses_of(text: str) -> list[str]:
    """Return the list of `host:port` in an option's text. Raises OncelogError for another form."""
    found = [one.strip() for one in text.split(",")]
    for one in found:
        host, _, port = one.rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= 65_535):
            raise OncelogError(f"BOOTSTRAP {one!r} is no host:port, such as localhost:9092")
    return found
