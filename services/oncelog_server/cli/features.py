"""`oncelog features`: the finalized levels of protocol features."""

from typing import Annotated, Any

import typer

from oncelog_server.cli.lazy import HelpfulGroup
from oncelog_server.cli.options import AsOutput, Gateway, Output

app = typer.Typer(
    add_completion=False,
    help="Show and change the levels of protocol features: transaction.version, group.version.",
    cls=HelpfulGroup,
    no_args_is_help=True,
)


@app.command("list")
def list_features(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the finalized level of each feature."""
    from oncelog_server.cli.rest import Rest

    _show(Rest(gateway).get("/v1/features"), output)


@app.command("set")
def set_feature(
    feature: Annotated[str, typer.Argument(help="for example transaction.version")],
    level: Annotated[int, typer.Argument(min=0, max=32_767, help="the new level")],
    allow_downgrade: Annotated[
        bool, typer.Option("--allow-downgrade", help="allow a level below the current one")
    ] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="only check")] = False,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Finalize a level. An open transaction ends with the protocol that it began with."""
    from urllib.parse import quote

    from oncelog_server.cli.rest import Rest

    body = {"level": level, "allow_downgrade": allow_downgrade, "validate_only": validate_only}
    _show(Rest(gateway).put(f"/v1/features/{quote(feature, safe='')}", body), output)


def _show(found: Any, output: Output | None) -> None:
    from oncelog_server.cli.tables import show_json, show_table

    if output == Output.JSON:
        show_json(found)
        return
    show_table(
        ["feature", ">level"],
        [(one["feature"], one["level"]) for one in found["features"]],
        empty="No feature is finalized",
    )
