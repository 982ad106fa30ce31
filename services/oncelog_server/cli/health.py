"""`oncelog health`: one look at all of it, with an exit code for scripts."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.kafka_clients import admin
from oncelog_server.cli.offline import is_offline, way_out
from oncelog_server.cli.options import AsOutput, Bootstrap, Gateway
from oncelog_server.cli.rest import Rest
from oncelog_server.cli.tables import printed_as_json, show_table

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a running oncelog."""

    name: str
    ok: bool
    detail: str


@app.command()
def health(bootstrap: Bootstrap = "", gateway: Gateway = "", output: AsOutput = None) -> None:
    """Check listeners, nodes, shards, partitions and transactions. Exit code 0: all is well. 1: something is not."""
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
    return [
        _checked("kafka clients", lambda: _clients(bootstrap)),
        *_nodes_and_shards(rest),
        _checked("partitions", lambda: _partitions(rest)),
        _checked("transactions", lambda: _transactions(rest)),
    ]


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


def _nodes_and_shards(rest: "Rest") -> list[Check]:
    try:
        found = rest.get("/v1/cluster")
    except OncelogError as error:
        return [Check("gateway", False, f"{error}; then: oncelog health --gateway URL")]
    fenced = [str(one["node_id"]) for one in found["nodes"] if one["fenced"]]
    unowned, leaderless = found["unowned_shard_count"], found["leaderless_partition_count"]
    return [
        Check(
            "nodes",
            not fenced,
            f"out of service: {', '.join(fenced)}; see: oncelog nodes list"
            if fenced
            else counted(len(found["nodes"]), "node"),
        ),
        Check(
            "coordinators",
            not unowned,
            f"{counted(unowned, 'shard')} without a coordinator; see: oncelog nodes list"
            if unowned
            else "every shard has one",
        ),
        Check(
            "leaders",
            not leaderless,
            f"{counted(leaderless, 'partition')} without a leader; see: oncelog partitions"
            if leaderless
            else "every partition has one",
        ),
    ]


def _partitions(rest: "Rest") -> tuple[bool, str]:
    """An open transaction holds readers back, and is no trouble; a replica out of sync or a silent leader is."""
    rows: list[dict[str, Any]] = rest.get("/v1/partitions", {"troubled": "true"})["partitions"]
    offline = [row for row in rows if is_offline(row)]
    silent = [row for row in rows if row["failure"] and not is_offline(row)]
    behind = [row for row in rows if not row["failure"] and row["under_replicated"]]
    parts = [
        f"{counted(len(found), 'partition')} {what}, {found[0]['topic']}-{found[0]['partition']} first"
        for found, what in (
            (offline, "offline"),
            (silent, "without an answer"),
            (behind, "under-replicated"),
        )
        if found
    ]
    if parts:
        way = f"; {way_out(offline)}" if offline else ""
        return False, f"{'; '.join(parts)}; see: oncelog partitions{way}"
    return True, "every replica is in sync"


def _transactions(rest: "Rest") -> tuple[bool, str]:
    found = rest.get("/v1/hanging-transactions")
    if found["hanging"]:
        return False, (
            f"{counted(len(found['hanging']), 'hanging transaction')}; see: oncelog transactions find-hanging"
        )
    if found["incomplete"]:
        failure = found["incomplete"][0]
        return False, (
            f"not complete: {failure['kafka_error_name']}, {failure['detail']}; "
            "see: oncelog transactions find-hanging, oncelog partitions"
        )
    return True, f"{counted(found['open_transactions'], 'open transaction')}, none hangs"
