"""`oncelog pki`: a development CA, and certificates for the roles of a cluster and for its clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelog_server.cli.options import AsOutput, Output

if TYPE_CHECKING:
    from oncelog.security.pki import Identity

DAYS_MAX = 3650


def pki(
    folder: Annotated[Path, typer.Argument(help="where the files are, or will be")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="H",
            help="a further name or address of the machines of the cluster; repeatable",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="U", help="a certificate for this client too; repeatable"),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=DAYS_MAX, help="how long the certificates are valid")
    ] = 365,
    force: Annotated[
        bool, typer.Option("--force", help="renew certificates that exist; the CA stays")
    ] = False,
    output: AsOutput = None,
) -> None:
    """Make certificates for every role of a cluster, and the CA that signs them.

    For development and tests. In a folder that has certificates, `--user` alone adds those of clients.
    """
    from oncelog_server.cli.tables import say, show_json, show_table

    made = _made(folder, host or (), user or (), days=days, force=force)
    if output == Output.JSON:
        show_json(
            [
                {
                    "name": one.name,
                    "certificate": str(one.certificate),
                    "key": str(one.key),
                    "ends": one.ends.isoformat(timespec="seconds"),
                }
                for one in made
            ]
        )
        return
    show_table(
        ["for", "certificate", "key", "valid until"],
        [(one.name, one.certificate.name, one.key.name, f"{one.ends:%Y-%m-%d}") for one in made],
        empty="",
    )
    say(f"in {folder}, signed by ca.pem; who has ca.key can make such certificates")


def _made(
    folder: Path, hosts: Sequence[str], users: Sequence[str], *, days: int, force: bool
) -> "list[Identity]":
    from oncelog.security.pki import ROLES, make_client_certificate, make_development_pki

    has_roles = any((folder / f"{role}.pem").exists() for role in ROLES)
    only_users = users and not hosts and has_roles and not force
    made = [] if only_users else make_development_pki(folder, hosts, days=days, force=force)
    for user in dict.fromkeys(users):
        made.append(make_client_certificate(folder, user, days=days, force=force))
    return made
