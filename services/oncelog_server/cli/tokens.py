"""`oncelog tokens`: who may ask the gateway for what."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from oncelog_server.cli.lazy import HelpfulGroup
from oncelog_server.cli.options import AsOutput, Gateway, Output, Yes, confirmed, not_empty

UNITS_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}

app = typer.Typer(
    add_completion=False,
    help="Create, list and revoke the tokens that REST and the console take.",
    cls=HelpfulGroup,
    no_args_is_help=True,
)


class RoleWord(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


def lifetime_ms(text: str) -> int:
    """Raises BadParameter for what is none."""
    found = re.fullmatch(r"([0-9]{1,9})([mhd])", text)
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{text!r} is no lifetime; give one like 30d, 12h or 15m")
    return int(found[1]) * UNITS_MS[found[2]]


Name = Annotated[str, typer.Argument(callback=not_empty, help="of the token")]


@app.command("create")
def create_token(
    name: Name,
    role: Annotated[
        RoleWord, typer.Option(help="viewer: read; operator: also act; admin: also delete")
    ],
    expires: Annotated[str, typer.Option(metavar="30d|12h|15m", help="lifetime")] = "30d",
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Create a token and print it, this once: only its SHA-256 is kept."""
    from oncelog_server.cli.rest import Rest
    from oncelog_server.cli.tables import show_json, warn

    body = {"name": name, "role": role.value, "lifetime_ms": lifetime_ms(expires)}
    made = Rest(gateway).post("/v1/tokens", body)
    if output == Output.JSON:
        show_json(made)
        return
    typer.echo(made["token"])
    warn(
        f"token {name}, {role.value}, until {_time(made['expires_time_ms'])}; it is not shown again"
    )


@app.command("list")
def list_tokens(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the tokens, and when each was used last."""
    from oncelog_server.cli.rest import Rest
    from oncelog_server.cli.tables import show_json, show_table

    rows = Rest(gateway).get("/v1/tokens", {"limit": 10_000})["tokens"]
    if output == Output.JSON:
        show_json(rows)
        return
    show_table(
        ["token", "role", "created by", "created", "expires", "last used"],
        [_row(one) for one in rows],
        empty="No tokens yet; create one with: oncelog tokens create NAME --role viewer",
    )


@app.command("revoke")
def revoke_token(name: Name, yes: Yes = False, gateway: Gateway = "") -> None:
    """Revoke a token. Every gateway refuses it within a second; its sessions and streams end."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import say

    rest = Rest(gateway)
    confirmed(f"Revoke token {name}?", yes=yes)
    rest.delete(f"/v1/tokens/{quoted(name)}")
    say(f"token {name} is revoked")


def _row(token: dict[str, Any]) -> tuple[str, ...]:
    expires = _time(token["expires_time_ms"])
    return (
        token["name"],
        token["role"],
        token["created_by"],
        _time(token["created_time_ms"]),
        f"{expires}, over" if token["is_expired"] else expires,
        "never" if token["last_used_time_ms"] is None else _time(token["last_used_time_ms"]),
    )


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
