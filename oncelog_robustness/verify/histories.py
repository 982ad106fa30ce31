"""Files with the history of a run (each operation of its clients): writing them compressed, and reading ours or
Jepsen's."""

import contextlib
import gzip
import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.lab import HISTORY, TOLD
from oncelog_robustness.history import Isolation
from oncelog_robustness.verify.edn import EdnError
from oncelog_robustness.verify.jepsen import Given, read_jepsen

KEPT: Final = f"{HISTORY}.gz"
_GZIP: Final = b"\x1f\x8b"
_BLOCK_BYTES: Final = 1 << 20
_LINE_BYTES_MAX: Final = 1 << 20


def keep_history(folder: Path) -> Path:
    """Compress the history file of a run, remove the uncompressed one, and return the new path."""
    plain, kept = folder / HISTORY, folder / KEPT
    with plain.open("rb") as source, gzip.open(kept, "wb", compresslevel=6) as target:
        while block := source.read(1 << 20):
            target.write(block)
    plain.unlink()
    with contextlib.suppress(OSError):
        (folder / TOLD).rmdir()
    return kept


@contextlib.contextmanager
def opened_history(path: Path) -> Iterator[Path]:
    """Yield the path of the history as plain text: `path` itself, or a copy that is removed afterwards.
    Raises OncelogError that names the file."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
        if not is_packed:
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="oncelog-history-") as folder:
            plain = Path(folder) / path.stem
            with gzip.open(path) as source, plain.open("wb") as target:
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
            yield plain
    except (OSError, EOFError, zlib.error) as error:
        raise OncelogError(f"cannot read --history {path}: {error}") from error


def is_ours(plain: Path) -> bool:
    """True if the file is a history in our own format: its first line is a JSON object."""
    with plain.open("rb") as file:
        first = file.readline(_LINE_BYTES_MAX)
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False


def read_foreign(plain: Path, isolation: Isolation) -> Given:
    """Return the history in a file of Jepsen's format. Its consumers are taken to read at `isolation`. Raises EdnError
    with the line."""
    try:
        text = plain.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise EdnError(f"it is no text: {error}") from error
    return read_jepsen(text, isolation)
