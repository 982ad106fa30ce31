"""`oncelog features`: the finalized levels of protocol features."""

from typing import Annotated

import typer

from oncelog_server.cli.cluster_answers import FeatureList
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Gateway, Output
from oncelog_server.cli.rest import Rest
from oncelog_server.cli.tables import printed_as_json, show_rows

app = command_group(
    "Show and change the levels of protocol features: transaction.version, group.version."
)


@app.command("list")
def list_features(gateway: Gateway = "", output: AsOutput = None) -> None:
    """List the finalized level of each feature."""
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

    body = {"level": level, "allow_downgrade": allow_downgrade, "validate_only": validate_only}
    _show(Rest(gateway).put(f"/v1/features/{quote(feature, safe='')}", body), output)


def _show(found: FeatureList, output: Output | None) -> None:
    if printed_as_json(found, output):
        return
    columns = {"feature": "feature", ">level": "level"}
    show_rows(columns, found["features"], empty="No feature is finalized")
