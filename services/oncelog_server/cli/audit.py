"""`oncelog audit`: who changed what through the gateway."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from oncelog_server.cli.options import AsOutput, Gateway
from oncelog_server.cli.rest import Rest
from oncelog_server.cli.tables import printed_as_json, show_rows, warn


def audit(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="newest acts that are shown")] = 50,
    action: Annotated[
        str, typer.Option(metavar="NAME", help="only these, such as terminate_transaction")
    ] = "",
    outcome: Annotated[
        str, typer.Option(metavar="done|dry_run|refused|unknown|under_way", help="only these")
    ] = "",
    caller: Annotated[str, typer.Option(metavar="NAME", help="only of this one: token:ci")] = "",
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """List who tried to change what through the gateway, the newest first."""
    filters = {"limit": limit, "action": action, "outcome": outcome, "caller": caller}
    page = Rest(gateway).get("/v1/audit", {name: one for name, one in filters.items() if one})
    acts = page["acts"]
    if not printed_as_json(acts, output):
        show_rows(
            {
                "time (UTC)": lambda one: (
                    f"{datetime.fromtimestamp(one['time_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S}"
                ),
                "who": lambda one: f"{one['user'] or one['caller']} at {one['remote_address']}",
                "act": "action",
                "target": lambda one: json.dumps(one["target"], ensure_ascii=False),
                "outcome": lambda one: (
                    one["outcome"] + (f": {one['detail']}" if one["detail"] else "")
                ),
                "reason": lambda one: one["reason"] or "",
            },
            acts,
            empty="Nobody has changed anything",
        )
    if page["total"] > len(acts):
        warn(f"{page['total'] - len(acts)} older ones are not shown: --limit")
