"""A scenario: which cluster, which workloads, which storm. A TOML file in `scenarios/`; the seed draws the rest.

name = "storm"
duration_ms = 30_000

[shape]
storage = 3

[[workloads]]
kind = "transactions"
writers = 3

[storm.kill]
per_minute = 6
targets = ["storage", "coordinator"]
lasts_ms = [200, 4000]
"""

import random
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from oncelog.errors import OncelogError
from robustness.nemesis import FaultKind, Storm

FOLDER: Final = Path(__file__).parent / "scenarios"
STORMS: Final = FOLDER / "storms"

ModelT = TypeVar("ModelT", bound=BaseModel)

ROLES: Final = ("controller", "storage", "coordinator", "marker-sender", "listener")


class Shape(BaseModel):
    """How many processes of each role."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    controllers: int = Field(2, ge=1, le=9)
    storage: int = Field(3, ge=1, le=9)
    coordinators: int = Field(2, ge=1, le=9)
    marker_senders: int = Field(2, ge=1, le=9)
    listeners: int = Field(2, ge=1, le=9)

    def names(self) -> tuple[str, ...]:
        """`storage-1` and so on, in the order in which they start."""
        counts = (
            self.controllers,
            self.storage,
            self.coordinators,
            self.marker_senders,
            self.listeners,
        )
        return tuple(
            f"{role}-{index + 1}"
            for role, count in zip(ROLES, counts, strict=True)
            for index in range(count)
        )


class Faults(BaseModel):
    """One kind of fault in the storm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per_minute: float = Field(gt=0, le=600)
    targets: tuple[str, ...] = Field(min_length=1)
    """Processes, roles (each of its processes is then a target), or pairs `a+b` of either."""
    lasts_ms: tuple[int, int] = (500, 5_000)


class Scenario(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    duration_ms: int = Field(ge=1_000, le=86_400_000)
    """Of the phase with faults."""
    heal_timeout_ms: int = Field(90_000, ge=1_000)
    """Within this time of the world's clock everything that was begun must end after healing."""
    intensity: tuple[float, float] = (0.2, 2.0)
    """The seed draws how wild a run is: all rates are multiplied by it."""
    extreme_settings: float = Field(0.5, ge=0, le=1)
    """How many settings the seed may draw from the edges of what is allowed: it scales the share; 0 means none."""
    shape: Shape = Shape()
    workloads: tuple[dict[str, Any], ...] = Field(min_length=1)
    """`kind` and the workload's own parameters (`robustness.workloads.catalog`)."""
    storm: dict[FaultKind, Faults] = {}
    """Faults of every seed."""
    storms: tuple[str, ...] = ()
    """Files in `scenarios/storms`: a seed has the faults of one of them as well, which it draws."""
    settings: dict[str, str] = {}
    """Environment variables of every process of the cluster, over what is drawn."""

    def storm_of(self, draw: random.Random) -> tuple[str, Storm]:
        """The name of the storm that was drawn, and all faults with roles spelled out as processes."""
        name = draw.choice(self.storms) if self.storms else self.name
        drawn = _storm_named(name) if self.storms else {}
        storm = drawn | self.storm
        names = self.shape.names()
        targets: dict[FaultKind, tuple[str, ...]] = {}
        for kind, faults in storm.items():
            if kind in (FaultKind.ROLLING_RESTART, FaultKind.KILL_ALL):
                targets[kind] = faults.targets
            else:
                targets[kind] = tuple(
                    one for target in faults.targets for one in _spelled_out(target, names)
                )
        return name, Storm(
            rates={kind: faults.per_minute for kind, faults in storm.items()},
            targets=targets,
            lasts_ms={kind: faults.lasts_ms for kind, faults in storm.items()},
        )


def _spelled_out(target: str, names: Sequence[str]) -> list[str]:
    if "+" in target:
        left, _, right = target.partition("+")
        return [
            f"{one}+{other}"
            for one in _spelled_out(left, names)
            for other in _spelled_out(right, names)
            if one != other
        ]
    if target in ROLES:
        return [name for name in names if name.rpartition("-")[0] == target]
    return [target]


class _StormFile(RootModel[dict[FaultKind, Faults]]):
    """One file of `scenarios/storms`."""


def _storm_named(name: str) -> dict[FaultKind, Faults]:
    """Raises OncelogError naming what is wrong with the file, or which storms there are."""
    return _parsed(_path_of(name, STORMS, "storm"), _StormFile).root


def load_scenario(name_or_path: str) -> Scenario:
    """Raises OncelogError naming what is wrong with a file, or which scenarios and storms there are."""
    scenario = _parsed(_path_of(name_or_path, FOLDER, "scenario"), Scenario)
    for name in scenario.storms:
        _storm_named(name)
    return scenario


def _path_of(name_or_path: str, folder: Path, what: str) -> Path:
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = folder / f"{name_or_path}.toml"
    if not path.is_file():
        files = (*sorted(folder.glob("*.toml")), *sorted(folder.glob("asked/*.toml")))
        known = ", ".join(one.relative_to(folder).with_suffix("").as_posix() for one in files)
        file = (
            ""
            if folder is STORMS
            else "; or the path of a .toml file (robustness/planted/scenarios)"
        )
        raise OncelogError(f"there is no {what} {name_or_path!r}; there are: {known}{file}")
    return path


def _parsed(path: Path, model: type[ModelT]) -> ModelT:
    try:
        return model.model_validate(tomllib.loads(path.read_text()))
    except tomllib.TOMLDecodeError as error:
        raise OncelogError(f"{path}: {error}") from error
    except ValidationError as error:
        found = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
        )
        raise OncelogError(f"{path}: {found}") from error
