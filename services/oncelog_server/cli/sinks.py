"""`oncelog sinks`: the Spark sinks and what each has committed, through the gateway."""

import time
from typing import Annotated, Final

import typer

from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Gateway, Yes, confirmed, not_empty
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import (
    duration,
    printed_as_json,
    say,
    show_fields,
    show_rows,
    warn_of_incomplete,
)
from oncelog_server.cli.transaction_answers import Sink, SinkPage

app = command_group("Show Spark's sinks and their committed batches; delete unused sinks.")
PAGE: Final = 10_000

SinkName = Annotated[
    str, typer.Argument(callback=not_empty, help="the transactionalId, or a name that `list` shows")
]


@app.command("list")
def list_sinks(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the sinks of every coordinator."""
    rest = Rest(gateway)
    page: SinkPage = rest.get("/v1/sinks", {"limit": PAGE})
    rows = page["sinks"]
    while page["next_cursor"] is not None:
        page = rest.get("/v1/sinks", {"limit": PAGE, "cursor": page["next_cursor"]})
        rows += page["sinks"]
    if not printed_as_json(rows, output):
        show_rows(
            {
                "sink": "sink",
                "kind": "kind",
                ">last batch": "last_committed_batch_id",
                ">last used": lambda row: _ago(row["last_used_time_ms"]),
                "state": lambda row: "writing" if row["attempt_count"] else "idle",
            },
            rows,
            empty="No sinks yet",
        )
    warn_of_incomplete(page["incomplete"])


@app.command("describe")
def describe_sink(sink: SinkName, gateway: Gateway = "", output: AsOutput = None) -> None:
    """Show one sink: its query, its open attempts and its last committed batches."""
    found: Sink = Rest(gateway).get(f"/v1/sinks/{quoted(sink)}")
    if printed_as_json(found, output):
        return
    show_fields(
        [
            ("sink", found["sink"]),
            ("query", found["query_id"] or "–"),
            ("last batch", found["last_committed_batch_id"]),
        ]
    )
    show_rows(
        {
            "attempt": lambda one: one["nonce"][:8],
            ">batch": "batch_id",
            "state": "state",
            ">opened": lambda one: _ago(one["opened_time_ms"]),
            ">times out": lambda one: _until(one["deadline_ms"]),
            ">tasks": lambda one: len(one["branches"]),
            ">sealed": lambda one: sum(branch["sealed"] for branch in one["branches"]),
        },
        found["attempts"],
        empty="no attempt is open",
    )
    show_rows(
        {
            ">batch": "batch_id",
            ">rows": "row_count",
            "checksum": "row_checksum",
            ">tasks": "branch_count",
            ">committed": lambda one: _ago(one["decided_time_ms"]),
        },
        found["decisions"],
        empty="no batch is committed",
    )


@app.command("delete")
def delete_sinks(
    sinks: Annotated[list[str], typer.Argument(help="names that `list` shows")],
    yes: Yes = False,
    gateway: Gateway = "",
) -> None:
    """Delete sinks. Afterwards a batch that Spark runs again is written again."""
    names = ", ".join(sinks)
    confirmed(
        f"Forget what {names} committed? A batch that Spark runs again is written again.", yes=yes
    )
    rest = Rest(gateway)
    for sink in sinks:
        rest.delete(f"/v1/sinks/{quoted(sink)}")
        say(f"sink {sink} is deleted")


def _until(time_ms: int) -> str:
    left_ms = time_ms - int(time.time() * 1000)
    return f"in {duration(left_ms)}" if left_ms > 0 else "–"


def _ago(time_ms: int | None) -> str:
    if time_ms is None or time_ms < 0:
        return "–"
    return f"{duration(max(0, int(time.time() * 1000) - time_ms))} ago"
