"""History files: a run's history, compressed, and the reading of histories, ours or Jepsen's, to judge them."""

import contextlib
import gzip
import json
import zlib
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.lab import HISTORY, TOLD
from oncelog_robustness.history import History, Isolation
from oncelog_robustness.verify.edn import EdnError
from oncelog_robustness.verify.jepsen import Given, read_jepsen

KEPT: Final = f"{HISTORY}.gz"
_GZIP: Final = b"\x1f\x8b"


def keep_history(folder: Path) -> Path:
    """Compress the history that a run wrote line by line, remove the plain file, and return the path."""
    plain, kept = folder / HISTORY, folder / KEPT
    with plain.open("rb") as source, gzip.open(kept, "wb", compresslevel=6) as target:
        while block := source.read(1 << 20):
            target.write(block)
    plain.unlink()
    with contextlib.suppress(OSError):
        (folder / TOLD).rmdir()
    return kept


def read_history(path: Path, isolation: Isolation) -> Given:
    """Read a history: ours by its first line, else Jepsen's, whose consumers read at `isolation`.

    Raises OncelogError naming the file, and the line where it is neither.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode()
    except (OSError, EOFError, zlib.error) as error:
        raise OncelogError(f"cannot read --history {path}: {error}") from error
    except UnicodeDecodeError as error:
        raise OncelogError(f"--history {path} is no text: {error}") from error
    try:
        if _is_ours(text):
            return Given(History.from_lines(text.splitlines()), ())
        return read_jepsen(text, isolation)
    except (EdnError, ValueError, TypeError, KeyError) as error:
        raise OncelogError(
            f"--history {path} is no history of ours (JSON lines) nor of Jepsen's Kafka workload (EDN): {error}"
        ) from error


def _is_ours(text: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    try:
        return isinstance(json.loads(first), dict)
    except ValueError:
        return False
