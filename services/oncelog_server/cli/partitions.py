"""`oncelog partitions`: why a read_committed consumer waits."""

from typing import Annotated, Any

import typer

from oncelog_server.cli.options import AsOutput, Gateway, Output

app = typer.Typer(add_completion=False)


@app.command()
def partitions(
    topic: Annotated[
        str | None, typer.Argument(help="without it: every partition that is held back")
    ] = None,
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Offsets of each partition, and the transaction that holds its last stable offset."""
    from oncelog_server.cli.rest import Rest, quoted
    from oncelog_server.cli.tables import number, say, show_json, show_table

    rest = Rest(gateway)
    if topic is None:
        found = rest.get("/v1/partitions", {"min_lso_lag": 1})["partitions"]
    else:
        found = rest.get(f"/v1/topics/{quoted(topic)}/partitions")["partitions"]
    if output == Output.JSON:
        show_json(found)
        return
    show_table(
        ["partition", ">leader", ">LSO", ">HW", ">lag", "held by"],
        [
            (
                f"{row['topic']}-{row['partition']}",
                number(row["leader"]),
                number(row["last_stable_offset"]),
                number(row["high_watermark"]),
                number(row["lso_lag"]),
                held_by(row),
            )
            for row in found
        ],
        empty="No partition is held back",
    )
    for row in found:
        if row["lso_holder"]:
            say(f"{row['topic']}-{row['partition']}: {row['lso_holder']['advice']}")


def held_by(row: dict[str, Any]) -> str | None:
    """Whose transaction it is, in what state, and for how long."""
    from oncelog_server.cli.tables import duration

    if row["failure"]:
        return f"{row['failure']['kafka_error_name']}: {row['failure']['detail']}"
    holder = row["lso_holder"]
    if not holder:
        return None
    name = holder["transactional_id"] or f"producer {holder['producer_id']}"
    if holder["hanging"]:
        return f"{name}, hanging, silent for {duration(holder['idle_ms'])}"
    return f"{name}, {holder['coordinator_state'] or 'unknown'}, {duration(holder['age_ms'])} old"
