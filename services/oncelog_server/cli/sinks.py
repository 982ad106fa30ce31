"""`oncelog sinks`: what Spark writes through, and what each sink has committed, through the gateway."""

import time
from typing import Annotated, Any, Final

import typer

from oncelog_server.cli.lazy import HelpfulGroup
from oncelog_server.cli.options import AsOutput, Gateway, Output, Yes, confirmed, not_empty

app = typer.Typer(
    add_completion=False,
    help="Show Spark's sinks and their committed batches; delete unused sinks.",
    cls=HelpfulGroup,
    no_args_is_help=True,
)
PAGE: Final = 10_000

SinkName = Annotated[
    str, typer.Argument(callback=not_empty, help="the transactionalId, or a name that `list` shows")
]


@app.command("list")
def list_sinks(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the sinks of every coordinator."""
    from oncelog_server.cli.rest import Rest
    from oncelog_server.cli.tables import number, show_json, show_table, warn

    rest = Rest(gateway)
    page = rest.get("/v1/sinks", {"limit": PAGE})
    rows = page["sinks"]
    while page["next_cursor"] is not None:
        page = rest.get("/v1/sinks", {"limit": PAGE, "cursor": page["next_cursor"]})
        rows += page["sinks"]
    if output == Output.JSON:
        show_json(rows)
    else:
        show_table(
            ["sink", "kind", ">last batch", ">last used", "state"],
            [
                (
                    row["sink"],
                    row["kind"],
                    number(row["last_committed_batch_id"]),
                    _ago(row["last_used_time_ms"]),
                    "writing" if row["attempt_count"] else "idle",
                )
                for row in rows
            ],
            empty="No sinks yet",
        )
    for failure in page["incomplete"]:
        warn(f"not complete: {failure['kafka_error_name']}, {failure['detail']}")
    if page["incomplete"]:
        raise typer.Exit(1)


@app.command("describe")
def describe_sink(sink: SinkName, gateway: Gateway = "", output: AsOutput = None) -> None:
    """Show one sink: its query, its open attempts and its last committed batches."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import number, show_fields, show_json, show_table

    found = Rest(gateway).get(f"/v1/sinks/{quoted(sink)}")
    if output == Output.JSON:
        show_json(found)
        return
    show_fields(
        [
            ("sink", found["sink"]),
            ("query", found["query_id"] or "–"),
            ("last batch", number(found["last_committed_batch_id"])),
        ]
    )
    show_table(
        ["attempt", ">batch", "state", ">opened", ">times out", ">tasks", ">sealed"],
        [_attempt_row(one) for one in found["attempts"]],
        empty="no attempt is open",
    )
    show_table(
        [">batch", ">rows", "checksum", ">tasks", ">committed"],
        [
            (
                one["batch_id"],
                one["row_count"],
                one["row_checksum"],
                one["branch_count"],
                _ago(one["decided_time_ms"]),
            )
            for one in found["decisions"]
        ],
        empty="no batch is committed",
    )


@app.command("delete")
def delete_sinks(
    sinks: Annotated[list[str], typer.Argument(help="names that `list` shows")],
    yes: Yes = False,
    gateway: Gateway = "",
) -> None:
    """Delete sinks. Afterwards a batch that Spark runs again is written again."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import say

    names = ", ".join(sinks)
    confirmed(
        f"Forget what {names} committed? A batch that Spark runs again is written again.", yes=yes
    )
    rest = Rest(gateway)
    for sink in sinks:
        rest.delete(f"/v1/sinks/{quoted(sink)}")
        say(f"sink {sink} is deleted")


def _attempt_row(attempt: dict[str, Any]) -> tuple[object, ...]:
    branches = attempt["branches"]
    return (
        attempt["nonce"][:8],
        attempt["batch_id"],
        attempt["state"],
        _ago(attempt["opened_time_ms"]),
        _until(attempt["deadline_ms"]),
        len(branches),
        sum(one["sealed"] for one in branches),
    )


def _until(time_ms: int) -> str:
    from oncelog_server.cli.tables import duration

    left_ms = time_ms - int(time.time() * 1000)
    return f"in {duration(left_ms)}" if left_ms > 0 else "–"


def _ago(time_ms: int | None) -> str:
    from oncelog_server.cli.tables import duration

    if time_ms is None or time_ms < 0:
        return "–"
    return f"{duration(max(0, int(time.time() * 1000) - time_ms))} ago"
