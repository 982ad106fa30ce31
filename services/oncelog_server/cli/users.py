"""`oncelog users`: lists, adds and deletes users that log in with SCRAM, through Kafka's own protocol, and prints lines
for a file of PLAIN users.
"""

from enum import StrEnum
from typing import Annotated, Final

import typer

from oncelog.errors import OncelogError
from oncelog.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from oncelog.security.scram import ITERATIONS_MAX, ITERATIONS_MIN
from oncelog_server.cli.kafka_clients import admin, told
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Bootstrap, Yes, confirmed, not_empty
from oncelog_server.cli.passwords import PasswordFile, read_password
from oncelog_server.cli.tables import printed_as_json, say, show_rows

SEE_ALL: Final = "`oncelog users list` shows all"

app = command_group(
    "List, add and delete the users of SCRAM; write lines for a file of PLAIN users."
)


class Mechanism(StrEnum):
    SCRAM_SHA_256 = SCRAM_SHA_256
    SCRAM_SHA_512 = SCRAM_SHA_512


Name = Annotated[str, typer.Argument(callback=not_empty, help="the user, without User:")]
Mechanisms = Annotated[
    list[Mechanism] | None,
    typer.Option("--mechanism", help="repeatable; default: both", case_sensitive=False),
]


@app.command("list")
def list_users(bootstrap: Bootstrap = "", output: AsOutput = None) -> None:
    """List the users of SCRAM, their mechanisms and the iterations of each."""
    with admin(bootstrap) as client, told("the users were not listed"):
        found = client.describe_user_scram_credentials()
    rows = [
        {"user": user, "mechanism": info.mechanism, "iterations": info.iterations}
        for user in sorted(found)
        for info in found[user]
    ]
    if printed_as_json(rows, output):
        return
    show_rows(
        {"user": "user", "mechanism": "mechanism", ">iterations": "iterations"},
        rows,
        empty="No users of SCRAM yet; add one with: oncelog users add NAME",
    )


@app.command("add")
def add_user(
    name: Name,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int, typer.Option(min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="rounds of the hash")
    ] = ITERATIONS_MIN,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = "",
) -> None:
    """Add a user of SCRAM, or change the password. Sessions that are open go on."""
    from oncelog.client.core.scram_users import UserScramCredentialUpsertion

    chosen = list(dict.fromkeys(mechanism or Mechanism))
    password = read_password(name, password_file)
    wanted = [UserScramCredentialUpsertion(name, one, password, iterations) for one in chosen]
    with admin(bootstrap) as client, told("the password was not set"):
        client.alter_user_scram_credentials(wanted).check()
    say(f"user {name} can log in with {' and '.join(chosen)}")


@app.command("delete")
def delete_user(
    name: Name,
    mechanism: Mechanisms = None,
    yes: Yes = False,
    bootstrap: Bootstrap = "",
) -> None:
    """Delete a user of SCRAM, or one mechanism of the user. ACLs stay; open sessions go on."""
    from oncelog.client.core.scram_users import UserScramCredentialDeletion

    with admin(bootstrap) as client:
        with told("was not deleted", SEE_ALL, item=f"user {name!r}"):
            found = client.describe_user_scram_credentials([name])[name]
        known = {one.mechanism for one in found}
        chosen = [one for one in Mechanism if one in (mechanism or known)]
        if missing := [one for one in chosen if one not in known]:
            raise OncelogError(f"user {name!r} has no credential of {missing[0]}; {SEE_ALL}")
        confirmed(f"Delete {' and '.join(chosen)} of user {name}?", yes=yes)
        with told("not deleted"):
            client.alter_user_scram_credentials(
                UserScramCredentialDeletion(name, one) for one in chosen
            ).check()
    say(f"user {name} can log in no more with {' or '.join(chosen)}")


@app.command("plain")
def plain_line(name: Name, password_file: PasswordFile = None) -> None:
    """Print the line of a user for the file of PLAIN users; it holds a hash of the password.

    A listener reads the file that ONCELOG_LISTENER_SASL_PLAIN_USERS_FILE names, again when it changes.
    """
    from oncelog.security.plain import hash_password

    if ":" in name or "\0" in name or name.startswith("#") or name.splitlines() != [name]:
        raise OncelogError(f"{name!r} cannot stand in the file: no colon, line end or # in front")
    password = read_password(name, password_file)
    if "\0" in password:
        raise OncelogError(f"the password of {name} holds a NUL, which PLAIN cannot carry")
    typer.echo(f"{name}:{hash_password(password)}")
