"""`oncelog backup` and `oncelog restore`: write a stopped log of one machine into one file, and put it back."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path,
    typer.Argument(help="what --data of `oncelog up`, or --folder of `oncelog cluster`, was given"),
]
File = Annotated[Path, typer.Argument(help="the backup, a .tar.gz file")]


def backup(folder: Folder, file: File) -> None:
    """Write metadata and logs of a stopped log or cluster on this machine into one file."""
    from oncelog_server.backup import back_up

    made = back_up(folder, file)
    size_mb = made.size_bytes / 1e6
    print(f"{file}: {made.file_count} files, {size_mb:.1f} MB unpacked, of an oncelog {made.kind}")


def restore(file: File, folder: Folder) -> None:
    """Restore a backup into a folder that is empty or does not exist.

    Records written after the backup are lost. Restart the producers and consumers that ran then.
    """
    from oncelog_server.backup import CLUSTER
    from oncelog_server.backup import restore as put_back

    found = put_back(file, folder)
    start = (
        f"oncelog cluster up --folder {folder}"
        if found.kind == CLUSTER
        else f"oncelog up --data {folder}"
    )
    print(f"restored the state of {found.made_at} into {folder}; `{start}` starts it")
