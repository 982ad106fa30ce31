"""`oncelog partitions`: shows why a read_committed consumer waits, which nodes have the replicas, and
reassigns them.
"""

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode

import typer
from typer.core import TyperGroup

from oncelog.errors import OncelogError
from oncelog_gateway.core.held_back import LONG_MS
from oncelog_server.cli.cluster_answers import (
    PartitionStatus,
    Reassignment,
    ReassignmentPage,
    ReassignResult,
    TopicPage,
)
from oncelog_server.cli.offline import is_offline, way_out
from oncelog_server.cli.options import AsOutput, Gateway
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import (
    duration,
    listed,
    of_partition,
    printed_as_json,
    say,
    show_rows,
    warn_of_incomplete,
)

if TYPE_CHECKING:
    from typer._click.core import Context  # Typer gives it no public name.

DEFAULT_COMMAND: Final = "show"
PAGE: Final = 10_000
NAMES_MAX: Final = 5


class ShowByDefault(TyperGroup):
    """A command with subcommands, of which `show` may be left out: `oncelog partitions orders` means `oncelog
    partitions show orders`.
    """

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    add_completion=False,
    cls=ShowByDefault,
    help="Show partitions and what holds them back (`show` is the default), move replicas. A topic that is "
    "named like a command: `oncelog partitions show NAME`.",
)


@app.command(DEFAULT_COMMAND)
def partitions(
    topic: Annotated[
        str | None,
        typer.Argument(help="without it: every partition that is held back or under-replicated"),
    ] = None,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Show each partition's offsets, in-sync replicas, and the transaction that holds its last stable offset."""
    rest = Rest(gateway)
    if topic is None:
        found: list[PartitionStatus] = rest.get(
            "/v1/partitions", {"troubled": "true", "limit": PAGE}
        )["partitions"]
    else:
        found = rest.get(f"/v1/topics/{quoted(topic)}/partitions", {"limit": PAGE})["partitions"]
    if printed_as_json(found, output):
        return
    show_rows(
        {
            "partition": of_partition,
            ">leader": "leader",
            "in sync": in_sync,
            ">LSO": "last_stable_offset",
            ">HW": "high_watermark",
            ">lag": "lso_lag",
            "held by": held_by,
        },
        found,
        empty="No partition is held back, and every replica is in sync",
    )
    if offline := [row for row in found if is_offline(row)]:
        names = [of_partition(row) for row in offline]
        say(f"{shortened(names)} {'is' if len(names) == 1 else 'are'} offline; {way_out(offline)}")
    for advice, names in _advice(found).items():
        say(f"{shortened(names)}: {advice}")


def _advice(rows: list[PartitionStatus]) -> dict[str, list[str]]:
    """Return each sentence of advice about an open transaction, with the partitions that the transaction holds back."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["lso_holder"]:
            found.setdefault(row["lso_holder"]["advice"], []).append(of_partition(row))
    return found


def shortened(names: list[str]) -> str:
    """Return the first few names as text, and how many more there are."""
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


@app.command("reassign")
def reassign(
    target: Annotated[
        str,
        typer.Argument(metavar="TOPIC[-P]", help="a partition, or every partition of a topic"),
    ],
    replicas: Annotated[
        str,
        typer.Option(
            metavar="ID,ID,…",
            help="node ids of all replicas, the preferred leader first; "
            "for a whole topic each partition begins one node further",
        ),
    ] = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="stop adding replicas, and remove none")
    ] = False,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Change a partition's replicas. New replicas copy it before old ones are removed."""
    if cancel == bool(replicas):
        raise typer.BadParameter("give either --replicas or --cancel")
    node_ids = _node_ids(replicas)
    rest = Rest(gateway)
    topic, partition = _target(rest, target)
    if cancel:
        query = "" if partition is None else f"?{urlencode({'partition': partition})}"
        result: ReassignResult = rest.delete(f"/v1/reassignments/{quoted(topic)}{query}")
    else:
        body = {"topic": topic, "partition": partition, "replicas": node_ids}
        result = rest.post("/v1/reassignments", body)
    if not printed_as_json(result, output):
        _show_replicas(result["partitions"], empty="nothing was changed")
        if any(one["adding_replicas"] for one in result["partitions"]):
            say("`oncelog partitions reassignments` shows what is still being copied")
    warn_of_incomplete(result["failures"], "refused")


@app.command("reassignments")
def reassignments(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the partitions whose replicas are moving."""
    page: ReassignmentPage = Rest(gateway).get("/v1/reassignments", {"limit": PAGE})
    rows = page["reassignments"]
    if printed_as_json(rows, output):
        return
    _show_replicas(rows, empty="No reassignment is under way")
    if page["total"] > len(rows):
        say(f"{len(rows)} of {page['total']}")


def _show_replicas(rows: list[Reassignment], *, empty: str) -> None:
    show_rows(
        {
            "partition": of_partition,
            ">leader": "leader",
            "replicas": lambda one: listed(one["replicas"]),
            "in sync": lambda one: listed(one["isr"]),
            "adding": lambda one: listed(one["adding_replicas"]),
            "removing": lambda one: listed(one["removing_replicas"]),
        },
        rows,
        empty=empty,
    )


def _target(rest: "Rest", target: str) -> tuple[str, int | None]:
    """Return the topic and the partition that were meant; None as partition: all of the topic. A topic of that very
    name comes first, as topics may be named like partitions (`orders-0`).
    """
    page: TopicPage = rest.get("/v1/topics", {"limit": PAGE})
    names = {one["name"] for one in page["topics"]}
    if target in names:
        return target, None
    topic, _, number = target.rpartition("-")
    if topic in names and number.isascii() and number.isdigit():
        return topic, int(number)
    raise OncelogError(
        f"{target!r} is neither a topic nor a partition of one; see `oncelog topics list`"
    )


def _node_ids(replicas: str) -> list[int]:
    if not replicas:
        return []
    parts = [part.strip() for part in replicas.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise typer.BadParameter(f"--replicas {replicas!r} is not a list of node ids like 11,12,13")
    return [int(part) for part in parts]


def in_sync(row: PartitionStatus) -> str:
    """Return in words how many replicas of a partition are in sync, and which are not."""
    replicas, isr = row["replicas"], row["isr"]
    missing = [str(one) for one in replicas if one not in isr]
    text = f"{len(isr)} of {len(replicas)}"
    return f"{text}, not {', '.join(missing)}" if missing else text


def held_by(row: PartitionStatus) -> str | None:
    """Return in words which open transaction holds back the partition, with its state and age; None: there is none. If
    the leader does not answer, its failure is returned.
    """
    if row["failure"]:
        return f"{row['failure']['kafka_error_name']}: {row['failure']['detail']}"
    holder = row["lso_holder"]
    if not holder:
        return None
    name = holder["transactional_id"] or f"producer {holder['producer_id']}"
    if holder["hanging"]:
        return f"{name}, hanging, silent for {duration(holder['idle_ms'])}"
    is_silent = (holder["idle_ms"] or 0) >= LONG_MS
    silent = f", silent for {duration(holder['idle_ms'])}" if is_silent else ""
    state = holder["coordinator_state"] or "unknown"
    return f"{name}, {state}, {duration(holder['age_ms'])} old{silent}"
