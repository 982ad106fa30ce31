"""A plain install has neither `cryptography` nor `jwt`: every module still imports there."""

import subprocess
import sys
from pathlib import Path

import oncelog.security

MODULES = sorted(
    f"oncelog.security.{path.stem}"
    for path in Path(oncelog.security.__file__).parent.glob("*.py")
    if path.stem != "__init__"
)
PROGRAM = """
import importlib, sys
sys.modules["cryptography"] = sys.modules["jwt"] = None
for name in sys.argv[1:]:
    importlib.import_module(name)
print("imported", len(sys.argv) - 1)
"""


def test_every_module_imports_without_the_extra():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "oncelog.security", *MODULES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"imported {len(MODULES) + 1}\n", done.stderr
