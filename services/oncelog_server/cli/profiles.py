"""`oncelog profiles`: names for the logs that a user works with, each with its addresses.

They are in `~/.config/oncelog/config.toml` (or where ONCELOG_PROFILES says), for this user alone. A login stands in a
file of its own, which a profile names (`config`). The first of these gives an address: the option, `--profile`, the
address's variable, the profile of ONCELOG_PROFILE, the file's current profile, the default.
"""

from pathlib import Path
from typing import Annotated

import typer

from oncelog_server.cli.addresses import checked_bootstrap, checked_gateway
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, not_empty
from oncelog_server.cli.profile_file import KEYS, Profiles, profiles_path
from oncelog_server.cli.tables import printed_as_json, say, show_table

app = command_group("Keep the addresses of the logs that you work with, by name.")
Name = Annotated[str, typer.Argument(callback=not_empty, help="the profile")]


@app.command("list")
def list_profiles(output: AsOutput = None) -> None:
    """List the profiles. Commands use the current one unless --profile names another."""
    found = Profiles.read()
    rows = [
        {"name": name, "current": name == found.current, **values}
        for name, values in sorted(found.by_name.items())
    ]
    if printed_as_json(rows, output):
        return
    show_table(
        ["profile", "current", "bootstrap", "gateway", "config", "token file"],
        [
            (
                row["name"],
                "*" if row["current"] else "",
                *(row.get(key) for key in KEYS),
            )
            for row in rows
        ],
        empty=f"No profiles in {profiles_path()}; make one with: oncelog profiles set NAME --bootstrap HOST:PORT",
    )


@app.command("set")
def set_profile(
    name: Name,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="its Kafka address")
    ] = None,
    gateway: Annotated[str | None, typer.Option(metavar="URL", help="its REST address")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="how to log in: a client.properties of Kafka"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="file with the token for that address")
    ] = None,
) -> None:
    """Create or change a profile. The first profile becomes the current one."""
    if bootstrap is None and gateway is None and config is None and token_file is None:
        raise typer.BadParameter("give --bootstrap, --gateway, --config, --token-file or several")
    if config is not None:
        from oncelog_server.cli.client_config import read_client_config

        read_client_config(str(config))
    given = {
        "bootstrap": bootstrap and checked_bootstrap(bootstrap),
        "gateway": gateway and checked_gateway(gateway),
        "config": config and str(config.expanduser().absolute()),
        "token_file": token_file and str(token_file.expanduser().absolute()),
    }
    found = Profiles.read()
    values = found.by_name.setdefault(name, {})
    values.update({key: one for key, one in given.items() if one})
    found.current = found.current or name
    found.write()
    say(f"profile {name} is written to {profiles_path()}")


@app.command("use")
def use_profile(name: Name) -> None:
    """Make a profile the current one."""
    found = Profiles.read()
    found.named(name)
    found.current = name
    found.write()
    say(f"{name} is the current profile")


@app.command("delete")
def delete_profile(name: Name) -> None:
    """Delete a profile. The log does not change."""
    found = Profiles.read()
    found.named(name)
    del found.by_name[name]
    found.current = None if found.current == name else found.current
    found.write()
    say(f"profile {name} is deleted")
