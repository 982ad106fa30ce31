"""`oncelog transactions prepared` and `complete`: lists two-phase transactions, which an application decides together
with another system (KIP-939), and ends them by hand.
"""

from typing import Annotated, Final

import typer

from oncelog_server.cli.options import AsOutput, Execute, Gateway, not_empty
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import (
    duration,
    of_partition,
    printed_as_json,
    say,
    show_rows,
    warn_of_incomplete,
)
from oncelog_server.cli.transaction_answers import (
    CompleteResult,
    PreparedPage,
    PreparedTransaction,
    Transaction,
)

ROWS_MAX: Final = 10_000
"""Maximum number of rows in one answer of the gateway."""
PARTITIONS_SHOWN: Final = 3
"""Number of partitions that one row shows; `describe` shows all."""


def list_prepared(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List open two-phase transactions, the oldest first. No time-out ends them."""
    found: PreparedPage = Rest(gateway).get("/v1/prepared-transactions", {"limit": ROWS_MAX})
    rows = found["transactions"]
    if not printed_as_json(rows, output):
        show_rows(
            {
                "transactional id": "transactional_id",
                "prepared": "prepared",
                ">age": lambda row: duration(row["age_ms"]),
                "may end it": owner_of,
                ">held back": "held_back",
                "in": _places,
            },
            rows,
            empty="No two-phase transaction is open",
        )
        if rows:
            say("whether to commit or to abort one: oncelog transactions explain ID")
    warn_of_incomplete(found["incomplete"])


def complete(
    transactional_id: Annotated[
        str, typer.Argument(callback=not_empty, help="the transactional.id")
    ],
    prepared: Annotated[
        str,
        typer.Option(
            help="the transaction, as its application's database holds it, such as 42:7; "
            "`prepared` shows it",
            metavar="ID:EPOCH",
        ),
    ],
    is_commit: Annotated[
        bool | None,
        typer.Option("--commit/--abort", help="what to decide", show_default=False),
    ] = None,
    execute: Execute = False,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Commit or abort a two-phase transaction whose application does not decide it, by its coordinator."""
    if is_commit is None:
        raise typer.BadParameter(
            "give --commit if the application's database holds this text, else --abort",
            param_hint="--commit / --abort",
        )
    answer: CompleteResult = Rest(gateway).post(
        f"/v1/transactions/{quoted(transactional_id)}/complete",
        {
            "prepared": prepared,
            "outcome": "commit" if is_commit else "abort",
            "dry_run": not execute,
        },
    )
    if printed_as_json(answer, output):
        return
    say(answer["detail"])
    say(f"audit {answer['audit_id']}" if execute else "nothing was ended; add --execute to do it")


def two_phase_fields(found: Transaction) -> list[tuple[str, object]]:
    """Return the names and values that a two-phase transaction has besides those of others, for a command to show.
    Empty for any other transaction.
    """
    if found.get("prepared") is None:
        return []
    return [("prepared as", found["prepared"]), ("may end it", owner_of(found))]


def owner_of(row: Transaction) -> str:
    if not row["is_kept"]:
        return "its producer"
    return f"{row['owner_producer_id']}:{row['owner_producer_epoch']}, kept"


def timeout_of(row: Transaction) -> str:
    return "none, two-phase" if row["is_two_phase"] else duration(row["timeout_ms"])


def _places(row: PreparedTransaction) -> str:
    names = [of_partition(one) for one in row["partitions"]]
    more = len(names) - PARTITIONS_SHOWN
    return ", ".join(names[:PARTITIONS_SHOWN]) + (f" and {more} more" if more > 0 else "")
