"""Change the pure cores a little, one place at a time, and tell which changes no test notices.

    python -m scripts.mutants coordinator [end_txn fencing]

mutmut makes the changes. For each it runs the tests that reach the changed function. When all of them pass, the change
is a *survivor*: a rule without a test, or a change without an effect. mutmut knows one folder of sources. So it works
in a copy where `services/` and `src/` are one.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
COPIES: Final = ROOT / ".cache" / "mutants"
SOURCES: Final = ("services", "src")
BESIDE: Final = ("oncelog_robustness", "tests", "scripts", "bench", "proto", "docs", "examples")


class Room(NamedTuple):
    """A pure core, and the tests that should notice each change in it."""

    package: str
    """Under `src/` of the copy."""
    tests: tuple[str, ...]


ROOMS: Final = {
    "coordinator": Room(
        "oncelog_coordinator/core",
        ("tests/unit/coordinator", "tests/unit/sink", "tests/property/coordinator"),
    ),
    "storage": Room("oncelog_storage/core", ("tests/unit/storage", "tests/property/storage")),
    "controller": Room(
        "oncelog_controller/core", ("tests/unit/controller", "tests/property/controller")
    ),
    "client": Room("oncelog/client/core", ("tests/unit/client", "tests/property/client")),
    "gateway": Room("oncelog_gateway/core", ("tests/unit/gateway", "tests/property/gateway")),
    "listener": Room("oncelog_listener/core", ("tests/unit/listener", "tests/property/listener")),
}


def copied(room_name: str, modules: list[str]) -> Path:
    """Make the copy that mutmut works in, and return its folder. What an earlier run found is kept."""
    room, folder = ROOMS[room_name], COPIES / room_name
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*BESIDE, "src"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / "src", dirs_exist_ok=True)
    for name in BESIDE:
        shutil.copytree(ROOT / name, folder / name)
    files = [f"src/{room.package}/{one}.py" for one in modules] or [f"src/{room.package}/*.py"]
    absent = [one for one in files if not any(folder.glob(one))]
    if absent:
        raise SystemExit(f"there is no {absent[0].removeprefix('src/')} in {room_name}")
    with (ROOT / "pyproject.toml").open("rb") as file:
        pytest_options = tomllib.load(file)["tool"]["pytest"]["ini_options"]
    settings = {
        "source_paths": ["src"],
        "only_mutate": files,
        "also_copy": [one for one in BESIDE if one != "tests"],
        "pytest_add_cli_args": ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"],
        "pytest_add_cli_args_test_selection": list(room.tests),
    }
    (folder / "pyproject.toml").write_text(
        _table("tool.pytest.ini_options", pytest_options) + _table("tool.mutmut", settings)
    )
    return folder


def _table(name: str, values: Mapping[str, object]) -> str:
    """Return the table as TOML: strings, numbers, booleans and lists of strings are as in JSON."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join((f"[{name}]", *lines, "", ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("module", nargs="*", help="of the room; all of them by default")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    folder = copied(arguments.room, arguments.module)
    mutmut = [str(Path(sys.executable).with_name("mutmut"))]
    run = [*mutmut, "run", "--max-children", str(arguments.jobs)]
    code = subprocess.run(run, cwd=folder, check=False).returncode
    subprocess.run([*mutmut, "results"], cwd=folder, check=False)
    print(f"one of them, as a difference: cd {folder} && {mutmut[0]} show NAME")
    return code


if __name__ == "__main__":
    sys.exit(main())
