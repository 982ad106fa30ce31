"""The folder into which a chaos run writes everything."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError

OF_A_RUN: Final = ("cluster", "history.jsonl", "history.jsonl.gz")


@contextlib.contextmanager
def folder_of_run(folder: Path, *, is_new: bool = False) -> Iterator[Path]:
    """Make the folder of a run and yield it. Remove it at the end if it is empty and was made for this run: here, or by
    the caller, who then sets `is_new`.

    Raises OncelogError for a folder that cannot be made, or that holds an earlier run. The earlier run's values would
    be taken for those of this run.
    """
    try:
        is_ours = is_new or not folder.exists()
        if any((folder / one).exists() for one in OF_A_RUN):
            raise OncelogError(
                f"{folder} holds an earlier run; take another --folder, or remove it"
            )
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OncelogError(
            f"cannot make {folder}: {error.strerror}; give another --folder"
        ) from error
    try:
        yield folder
    finally:
        if is_ours:
            with contextlib.suppress(OSError):
                folder.rmdir()
