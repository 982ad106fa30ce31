"""`oncelog health`: asks once whether anything is wrong, and exits with a code for scripts."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.cluster_answers import ClusterHealth, ClusterTrouble
from oncelog_server.cli.kafka_clients import admin
from oncelog_server.cli.options import AsOutput, Bootstrap, Gateway
from oncelog_server.cli.rest import Rest
from oncelog_server.cli.tables import duration, printed_as_json, show_table

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a running oncelog, such as whether clients can connect, with its answer."""

    name: str
    ok: bool
    detail: str


@app.command()
def health(bootstrap: Bootstrap = "", gateway: Gateway = "", output: AsOutput = None) -> None:
    """Say what is wrong, since when and what to do, or that all is well. Exit code 0: all is well. 1: it is not."""
    checks = checks_of(Rest(gateway), bootstrap)
    is_well = all(one.ok for one in checks)
    if not printed_as_json({"healthy": is_well, "checks": [asdict(one) for one in checks]}, output):
        show_table(
            ["check", "state", "what"],
            [(one.name, "ok" if one.ok else "not ok", one.detail) for one in checks],
            empty="",
        )
    if not is_well:
        raise typer.Exit(1)


def checks_of(rest: Rest, bootstrap: str) -> list[Check]:
    """Return the checks of `oncelog health`: whether clients can connect, and what the gateway says of everything else
    (`GET /v1/cluster/health`).
    """
    return [_checked("kafka clients", lambda: _clients(bootstrap)), *_of_cluster(rest)]


def _checked(name: str, ask: Callable[[], tuple[bool, str]]) -> Check:
    try:
        ok, detail = ask()
    except OncelogError as error:
        return Check(name, False, str(error))
    return Check(name, ok, detail)


def _clients(bootstrap: str) -> tuple[bool, str]:
    with admin(bootstrap) as client:
        found = client.list_topics()
    return True, f"{counted(len(found), 'topic')} at {bootstrap}"


def _of_cluster(rest: Rest) -> list[Check]:
    try:
        found: ClusterHealth = rest.get("/v1/cluster/health")
    except OncelogError as error:
        return [Check("gateway", False, f"{error}; then: oncelog health --gateway URL")]
    troubles: dict[str, list[ClusterTrouble]] = {}
    for one in found["troubles"]:
        troubles.setdefault(one["check"], []).append(one)
    return [
        *(Check(name, False, "; ".join(map(_sentence, rows))) for name, rows in troubles.items()),
        *(Check(name, True, text) for name, text in found["looked_at"].items()),
    ]


def _sentence(one: ClusterTrouble) -> str:
    at_least = "at least " if one["is_at_least"] else ""
    since = "" if one["age_ms"] is None else f" (for {at_least}{duration(one['age_ms'])})"
    return f"{one['subject']} {one['what']}{since}. {one['to_do']} {one['command']}"
