"""`oncelog tokens`: API tokens for the gateway, each with a role."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from oncelog_server.cli.cluster_answers import CreatedToken, Token
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Gateway, Yes, confirmed, not_empty
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import printed_as_json, say, show_rows, warn

UNITS_MS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}

app = command_group("Create, list and revoke the tokens that REST and the console take.")


class RoleWord(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


def lifetime_ms(text: str) -> int:
    """Return a lifetime such as `30d` in milliseconds. Raises BadParameter for other text."""
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
    body = {"name": name, "role": role.value, "lifetime_ms": lifetime_ms(expires)}
    made: CreatedToken = Rest(gateway).post("/v1/tokens", body)
    if printed_as_json(made, output):
        return
    typer.echo(made["token"])
    warn(
        f"token {name}, {role.value}, until {_time(made['expires_time_ms'])}; it is not shown again"
    )


@app.command("list")
def list_tokens(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the tokens, and when each was used last."""
    rows: list[Token] = Rest(gateway).get("/v1/tokens", {"limit": 10_000})["tokens"]
    if printed_as_json(rows, output):
        return
    show_rows(
        {
            "token": "name",
            "role": "role",
            "created by": "created_by",
            "created": lambda one: _time(one["created_time_ms"]),
            "expires": _end,
            "last used": _last_use,
        },
        rows,
        empty="No tokens yet; create one with: oncelog tokens create NAME --role viewer",
    )


@app.command("revoke")
def revoke_token(name: Name, yes: Yes = False, gateway: Gateway = "") -> None:
    """Revoke a token. Every gateway refuses it within a second; its sessions and streams end."""
    rest = Rest(gateway)
    confirmed(f"Revoke token {name}?", yes=yes)
    rest.delete(f"/v1/tokens/{quoted(name)}")
    say(f"token {name} is revoked")


def _end(token: Token) -> str:
    return _time(token["expires_time_ms"]) + (", over" if token["is_expired"] else "")


def _last_use(token: Token) -> str:
    return "never" if token["last_used_time_ms"] is None else _time(token["last_used_time_ms"])


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
