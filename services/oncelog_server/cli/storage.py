"""`oncelog storage` checks and repairs the data folder of a node that is stopped."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Yes, confirmed
from oncelog_server.cli.tables import printed_as_json, say, show_table, warn

if TYPE_CHECKING:
    from oncelog_storage.repair import Damage, Repair

app = command_group("Check and repair the data folder of a stopped node.")


@app.callback()
def storage() -> None:
    """Check and repair the data folder of a stopped node."""


@app.command("repair")
def repair(
    folder: Annotated[
        Path,
        typer.Argument(
            help="what `oncelog up --data` was given, or ONCELOG_STORAGE_DATA_DIR", metavar="FOLDER"
        ),
    ],
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="do it; without this option, only show the loss")
    ] = False,
    yes: Yes = False,
    output: AsOutput = None,
) -> None:
    """Show the damaged partitions. With --accept-loss, end each log before its damage.

    The bytes behind the damage go into files that end with `.cut`. In a cluster a damaged replica copies its data from
    the leader by itself. Use this command only where no other replica is intact.
    """
    from oncelog_storage.repair import Repair

    opened = Repair(folder)
    try:
        found = opened.examine()
        if not printed_as_json(
            {"folder": str(opened.path), "damaged": [_as_json(one) for one in found]}, output
        ):
            show_table(
                ["partition", ">kept", ">readable behind", "why"],
                [_row(one) for one in found],
                empty=f"{counted(opened.partition_count, 'partition')} in {opened.path}: none is damaged",
            )
        for name in opened.damaged_checkpoints:
            warn(f"{opened.path / name} is damaged; restore it from a backup or delete it")
        if not found:
            return
        if not accept_loss:
            warn("nothing was changed; add --accept-loss to give up what is not kept")
            raise typer.Exit(1)
        _accept(opened, found, yes=yes)
        say(f"{counted(len(found), 'partition')} repaired; start the node")
    finally:
        opened.close()


@app.command("accept-loss")
def accept_loss(
    folder: Annotated[
        Path,
        typer.Argument(
            help="what `oncelog up --data` was given, or ONCELOG_STORAGE_DATA_DIR", metavar="FOLDER"
        ),
    ],
    yes: Yes = False,
) -> None:
    """Let a node start with a lost or older folder, when no other replica is in sync.

    Acknowledged records that are not in the folder are lost. Where another replica is in sync, the node copies the
    missing records by itself.
    """
    from oncelog_storage.folder_history import FolderHistory, node_folder

    path = node_folder(folder)
    confirmed(f"Give up acknowledged records that are not in {path}?", yes=yes)
    FolderHistory(path).accept_loss()
    say(f"the node of {path} may start with what is in it")


def _accept(opened: "Repair", found: "list[Damage]", *, yes: bool) -> None:
    if opened.damaged_checkpoints:
        raise OncelogError("nothing was changed: restore or delete the damaged file first")
    confirmed(f"Give up what {counted(len(found), 'partition')} cannot keep?", yes=yes)
    for damage in found:
        opened.accept(damage)


def _kept(damage: "Damage") -> str:
    if damage.kept_end <= damage.log_start_offset:
        return "nothing"
    return f"{damage.log_start_offset} to {damage.kept_end - 1}"


def _row(damage: "Damage") -> tuple[object, ...]:
    return damage.partition, _kept(damage), damage.found.record_count, damage.reason


def _as_json(damage: "Damage") -> dict[str, str | int]:
    return {
        "topic": damage.partition.topic,
        "partition": damage.partition.partition,
        "reason": damage.reason,
        "log_start_offset": damage.log_start_offset,
        "kept_end_offset": damage.kept_end,
        "readable_records_behind": damage.found.record_count,
        "files_behind": damage.found.file_count,
    }
