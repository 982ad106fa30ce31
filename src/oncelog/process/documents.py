"""The place of a documentation page that a message refers to: a file in a clone, otherwise a web address."""

import importlib.metadata
from pathlib import Path
from typing import Final

_CLONE: Final = Path(__file__).resolve().parents[3]


def page(name: str) -> str:
    """Return `docs/settings.md`, or its address, for `settings.md`."""
    if (_CLONE / "docs" / name).is_file():
        return f"docs/{name}"
    for line in importlib.metadata.metadata("oncelog").get_all("Project-URL") or ():
        label, _, address = line.partition(", ")
        if label == "Documentation":
            return f"{address}/{name}"
    return "--help"
