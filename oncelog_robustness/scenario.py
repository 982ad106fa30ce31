"""A scenario: the cluster, the workloads (clients with a plan) and the storm (random faults) of a run. It is a TOML
file in `scenarios/`. The run's seed draws whatever the file leaves open.

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

import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, model_validator

from oncelog.errors import OncelogError
from oncelog_robustness.fault_plan import WHOLE_ROLE, FaultKind, Storm, storm_targets
from oncelog_robustness.scenario_checks import (
    joined,
    listed,
    shown,
    text_of_errors,
    unknown,
    wrong_settings,
    wrong_workloads,
)

FOLDER: Final = Path(__file__).parent / "scenarios"
STORMS: Final = FOLDER / "storms"

ModelT = TypeVar("ModelT", bound=BaseModel)

ROLES: Final = ("controller", "storage", "coordinator", "marker-sender", "listener")

_Lasts = Annotated[int, Field(ge=0, le=86_400_000)]
_LastEpoch = Annotated[int, Field(ge=4, le=32_767)]
_Intensity = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Shape(BaseModel):
    """The `[shape]` of a scenario: the number of processes of each role in the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    controllers: int = Field(2, ge=1, le=9)
    storage: int = Field(3, ge=1, le=9)
    coordinators: int = Field(2, ge=1, le=9)
    marker_senders: int = Field(2, ge=1, le=9)
    listeners: int = Field(2, ge=1, le=9)

    def names(self) -> tuple[str, ...]:
        """Return the names of all processes, `storage-1` and so on, in the order in which they start."""
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
    """One kind of fault in a storm (the random faults of a scenario): how often it happens, to whom, and how long
    it lasts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per_minute: float = Field(gt=0, le=600)
    targets: tuple[str, ...] = Field(min_length=1)
    """The targets: processes, roles (each of their processes is then a target), or pairs `a+b` of either."""
    lasts_ms: tuple[_Lasts, _Lasts] = (500, 5_000)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _refuse_reversed("lasts_ms", self.lasts_ms)
        return self


def _refuse_reversed(name: str, bounds: tuple[float, float]) -> None:
    """Raise ValueError if the lower bound of the range called `name` is above its upper one. Pydantic reports where in
    the file it is."""
    low, high = bounds
    if low > high:
        raise ValueError(f"{name} = [{low}, {high}] must be [the least, the most]")


class Upgrade(BaseModel):
    """A rolling upgrade during the run: processes begin as an older version, and restart one after another as this
    version while faults happen. The seed may draw a rollback instead, from this version to the older one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    older: str = Field("last", min_length=1, max_length=1_000)
    """The older version: one that `tests/golden` keeps, `last` for the newest of them, `this` for today's,
    or a folder like theirs."""
    without: tuple[str, ...] = ()
    """The parts of the internal interfaces that the older version lacks besides. Each is a message
    (`RequestOrigin`), a field (`RequestOrigin.request`), a method (`Storage.Fetch`), or a tagged field of a
    transaction's record (`__transaction_state:100`)."""


class Scenario(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[^/\x00]+$", max_length=100)
    """The scenario's name, which also names a folder."""
    duration_ms: int = Field(ge=1_000, le=86_400_000)
    """The length of the phase with faults, in milliseconds."""
    heal_timeout_ms: int = Field(90_000, ge=1_000)
    """The time, in milliseconds of the world, within which everything that was begun must end after healing."""
    intensity: tuple[_Intensity, _Intensity] = (0.2, 2.0)
    """The range from which the seed draws how wild a run is: all rates are multiplied by it."""
    extreme_settings: float = Field(0.5, ge=0, le=1)
    """A factor from 0 to 1: the greater, the more settings the seed draws from the edges of what is allowed. 0
    means none."""
    shape: Shape = Shape()
    workloads: tuple[dict[str, Any], ...] = Field(min_length=1)
    """The workloads, each with its `kind` and its parameters (`oncelog_robustness.workloads.catalog`)."""
    storm: dict[FaultKind, Faults] = {}
    """The faults that every seed has. They replace those of the same kinds in a drawn storm."""
    storms: tuple[str, ...] = ()
    """Files in `scenarios/storms`: the seed draws one of them and has its faults as well."""
    settings: dict[str, str] = {}
    """Environment variables of every process of the cluster; they replace what the seed draws."""
    last_epoch: tuple[_LastEpoch, _LastEpoch] | None = None
    """The range from which the seed draws the highest producer epoch, after which a producer gets another id. None:
    32,767, which no run reaches."""
    upgrade: Upgrade | None = None
    """The upgrade during the run; None: every process is of this version."""
    traces: bool = False
    """True if processes record spans, and pass traces to each other (ADR 0028). The spans are not exported."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _refuse_reversed("intensity", self.intensity)
        if self.last_epoch is not None:
            _refuse_reversed("last_epoch", self.last_epoch)
        return self

    def storm_of(self, draw: random.Random) -> tuple[str, Storm]:
        """Draw one of the storms that the scenario names. Return its name, and its faults together with the
        scenario's own. Targets that are roles are replaced by their processes."""
        name = draw.choice(self.storms) if self.storms else self.name
        drawn = _storm_named(name) if self.storms else {}
        storm = drawn | self.storm
        names = self.shape.names()
        targets: dict[FaultKind, tuple[str, ...]] = {}
        for kind, faults in storm.items():
            if kind in WHOLE_ROLE:
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
    """The content of one file in `scenarios/storms`: kinds of faults, each with its rate, targets and lengths."""


def _storm_named(name: str) -> dict[FaultKind, Faults]:
    """Load a storm (kinds of random faults) by its name in `scenarios/storms`. Raises OncelogError that says what
    is wrong with the file, or which storms exist."""
    return _parsed(_path_of(name, STORMS, "storm"), _StormFile).root


def load_scenario(
    name_or_path: str, kinds: Mapping[str, type[BaseModel]] | None = None
) -> Scenario:
    """Load a scenario by its name or path, and check it. Raises OncelogError that says what is wrong with a file,
    or which scenarios and storms exist.

    `kinds` are the workloads that the file may use, each with its class of parameters. None: those of the catalog.
    """
    path = _path_of(name_or_path, FOLDER, "scenario")
    scenario = _parsed(path, Scenario)
    names = scenario.shape.names()
    wrong = [
        *_wrong_targets(scenario.storm, names, "storm."),
        *wrong_workloads(scenario.workloads, _kinds_of_the_catalog() if kinds is None else kinds),
        *wrong_settings(scenario.settings),
    ]
    _refuse(path, wrong)
    for name in scenario.storms:
        try:
            storm_path = _path_of(name, STORMS, "storm")
        except OncelogError as error:
            raise OncelogError(f"{path}: storms: {error}") from error
        _refuse(storm_path, list(_wrong_targets(_storm_named(name), names, "")))
    return scenario


def _kinds_of_the_catalog() -> Mapping[str, type[BaseModel]]:
    # This import is late: it imports clients, and a bug may be planted in those.
    from oncelog_robustness.workloads.catalog import KINDS

    return {name: kind.parameters for name, kind in KINDS.items()}


def _wrong_targets(
    storm: Mapping[FaultKind, Faults], names: Sequence[str], prefix: str
) -> Iterator[str]:
    """Yield an error for each target of a fault that the cluster of the processes `names` does not have. Such a fault
    would do nothing. `prefix` begins the name of the fault's table in the file, as the error has it."""
    for kind, faults in storm.items():
        where = f"{prefix}{kind.value}"
        there = storm_targets(kind, ROLES, names)
        if not there:
            yield f"{where}: no storm has it, for the simulator has no Redis and no machines; make chaos plans its own"
            continue
        wrong = [_wrong_target(target, kind, there) for target in faults.targets]
        found = [text for text in wrong if text is not None]
        yield from (f"{where}.targets: {text}" for text in found)
        is_pair = kind is FaultKind.PARTITION_PAIR
        if is_pair and not found and not any(_spelled_out(one, names) for one in faults.targets):
            yield f"{where}.targets: {listed(faults.targets)} has no two processes in this [shape]"


def _wrong_target(target: str, kind: FaultKind, there: Sequence[str]) -> str | None:
    if kind is not FaultKind.PARTITION_PAIR:
        return None if target in there else unknown("target", target, there)
    halves = target.split("+")
    if len(halves) != 2:
        return f"{shown(target)} is no pair A+B; A and B are of: {listed(there)}"
    for half in halves:
        if half not in there:
            return f"in the pair {shown(target)} {unknown('target', half, there)}"
    if halves[0] == halves[1] and halves[0] not in ROLES:
        return f"the pair {shown(target)} is one process; take two, or a role: {listed(there)}"
    return None


def _refuse(path: Path, wrong: Sequence[str]) -> None:
    if wrong:
        raise OncelogError(f"{path}: {joined(wrong)}")


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
            else "; or the path of a .toml file (oncelog_robustness/planted/scenarios)"
        )
        raise OncelogError(f"there is no {what} {name_or_path!r}; there are: {known}{file}")
    return path


def _parsed(path: Path, model: type[ModelT]) -> ModelT:
    try:
        content = tomllib.loads(path.read_text())
        # As JSON, for there a list is a tuple and a text a fault, even strictly; and strictly true is no number.
        return model.model_validate_json(json.dumps(content, default=str), strict=True)
    except OSError as error:
        raise OncelogError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OncelogError(f"{path} is no TOML: {error}") from error
    except ValidationError as error:
        faults = tuple(Faults.model_fields)
        keys_at = {
            (): tuple(Scenario.model_fields),
            ("shape",): tuple(Shape.model_fields),
            ("upgrade",): tuple(Upgrade.model_fields),
            ("storm", "*"): faults,
            ("*",): faults,
        }
        raise OncelogError(f"{path}: {text_of_errors(error, keys_at)}") from error
