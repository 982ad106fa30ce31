"""`oncelog records` shows the fate of one record, through the gateway."""

from typing import Annotated

import typer

from oncelog_server.cli.cluster_answers import LsoHolder, RecordStatus
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import (
    INT32_MAX,
    INT64_MAX,
    AsOutput,
    Gateway,
    not_empty,
)
from oncelog_server.cli.rest import Rest, quoted
from oncelog_server.cli.tables import duration, printed_as_json, show_fields

app = command_group("Show the state of a record.")


@app.callback()
def records() -> None:
    """See what became of a record."""


@app.command("status")
def show_status(
    topic: Annotated[str, typer.Argument(callback=not_empty, help="the topic")],
    partition: Annotated[int, typer.Argument(min=0, max=INT32_MAX, help="its partition")],
    offset: Annotated[int, typer.Argument(min=0, max=INT64_MAX, help="its offset")],
    gateway: Gateway = "",
    output: AsOutput = None,
) -> None:
    """Say whether a record is committed, aborted, open, compacted, or not written yet."""
    found: RecordStatus = Rest(gateway).get(
        f"/v1/partitions/{quoted(topic)}/{partition}/records/{offset}"
    )
    if printed_as_json(found, output):
        return
    show_fields(
        [
            ("record", f"{topic}-{partition} at {offset}"),
            ("status", found["status"].replace("_", " ") + _of_marker(found)),
            ("", found["detail"]),
            *_producer(found),
            *_transaction(found["open_transaction"]),
            (
                "partition",
                f"log start {found['log_start_offset']}, last stable offset {found['last_stable_offset']}, "
                f"high watermark {found['high_watermark']}, log end {found['log_end_offset']}",
            ),
        ]
    )


def _of_marker(found: RecordStatus) -> str:
    return f" record: {found['marker']} marker" if found["marker"] else ""


def _producer(found: RecordStatus) -> list[tuple[str, str]]:
    if found["producer_id"] is None:
        return []
    rows = [("producer", f"{found['producer_id']}, epoch {found['producer_epoch']}")]
    if found["transactional_id"] is not None:
        rows.insert(0, ("transactional id", found["transactional_id"]))
    return rows


def _transaction(opened: LsoHolder | None) -> list[tuple[str, str]]:
    if opened is None:
        return []
    state = opened["coordinator_state"] or "no coordinator knows it"
    return [
        (
            "open since",
            f"{duration(opened['age_ms'])}, first record here at {opened['start_offset']}",
        ),
        ("at its coordinator", state + (", hanging" if opened["hanging"] else "")),
        ("what to do", opened["advice"]),
    ]
