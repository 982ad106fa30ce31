"""Checks of the names and values in a scenario file, with errors in words.

A wrong name would have no effect: the run would inject no fault, and then report that nothing is broken.

Heavy imports are made late, inside functions. A planted bug edits a module while it is imported, so the module may
not be imported before.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, SettingsError

from oncelog_robustness.fault_plan import FaultKind

_SHOWN_CHARACTERS: Final = 80
_ERRORS_SHOWN_MAX: Final = 3
"""The most errors that are shown for one file; after mending them its author runs the check again."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
"""The names that a topic may have: a workload's name begins the names of its topics."""


def listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def nearest(name: str, known: Sequence[str], likeness: float = 0.6) -> str:
    """Return the hint `did you mean storage? ` with the known name that is most like `name`. The text is empty if none
    is alike: `likeness`, from 0 to 1, is the least similarity that counts."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return f"did you mean {near[0]}? " if near else ""


def unknown(what: str, name: object, known: Sequence[str]) -> str:
    return (
        f"there is no {what} {shown(name)}; {nearest(str(name), known)}there are: {listed(known)}"
    )


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def text_of_errors(error: ValidationError, keys_at: Mapping[tuple[str, ...], Sequence[str]]) -> str:
    """Return the errors that pydantic found in a file, in one line. `keys_at` has the known keys of each table of
    the file; `*` in a table's path stands for any name."""
    return joined([_text_of(dict(one), keys_at) for one in error.errors(include_url=False)])


def joined(wrong: Sequence[str]) -> str:
    more = len(wrong) - _ERRORS_SHOWN_MAX
    return "; ".join(wrong[:_ERRORS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def _text_of(one: Mapping[str, Any], keys_at: Mapping[tuple[str, ...], Sequence[str]]) -> str:
    loc = [str(part) for part in one["loc"]]
    where = ".".join(loc)
    if one["type"] == "missing":
        return f"{where} is missing"
    if one["type"] == "extra_forbidden":
        *table, key = loc
        known = next((keys for at, keys in keys_at.items() if _is_at(table, at)), ())
        return (f"{'.'.join(table)}: " if table else "") + unknown("key", key, known)
    if loc and loc[-1] == "[key]":
        return f"{'.'.join(loc[:-2])}: ".removeprefix(": ") + unknown(
            "fault", loc[-2], [kind.value for kind in FaultKind]
        )
    return f"{where} = {shown(one['input'])}: {one['msg']}"


def _is_at(table: Sequence[str], at: Sequence[str]) -> bool:
    return len(table) == len(at) and all(
        wanted in ("*", name) for name, wanted in zip(table, at, strict=True)
    )


def wrong_workloads(
    workloads: Sequence[Mapping[str, Any]], kinds: Mapping[str, type[BaseModel]]
) -> Iterator[str]:
    """Yield an error text for each mistake in a scenario's workloads. `kinds` has the parameters of each kind of
    workload that exists."""
    for number, workload in enumerate(workloads, start=1):
        rest = dict(workload)
        if "kind" not in rest:
            yield f"workload {number}: kind is missing; there are: {listed(tuple(kinds))}"
            continue
        kind = rest.pop("kind")
        parameters = kinds.get(kind) if isinstance(kind, str) else None
        if parameters is None:
            yield f"workload {number}: {unknown('workload', kind, tuple(kinds))}"
            continue
        where = f"workload {number} ({kind})"
        name = rest.pop("name", kind)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{where}: name = {shown(name)} is no text of 1 to 100 letters, digits, '.', '_' and '-'"
        try:
            # Strictly: a file can tell a number from a text and from true.
            parameters.model_validate(rest, strict=True)
        except ValidationError as error:
            yield f"{where}: {text_of_errors(error, {(): ('kind', 'name', *parameters.model_fields)})}"


def wrong_settings(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield an error text for each setting in a scenario that no process reads, and for each value that no process
    would accept."""
    if not settings:
        return
    readers = _settings_classes()
    known = [_variable(kind, name) for kind in readers for name in kind.model_fields]
    for name in settings:
        if name not in known:
            # All these names begin alike.
            hint = nearest(name, known, 0.8) or "python -m oncelog_storage --help lists a role's"
            yield f"settings: no process has a setting {shown(name)}; {hint.rstrip()}"
    for kind in readers:
        given = {
            name: settings[_variable(kind, name)]
            for name in kind.model_fields
            if _variable(kind, name) in settings
        }
        yield from _wrong_values(kind, given)


def _wrong_values(kind: type[BaseSettings], given: Mapping[str, str]) -> Iterator[str]:
    if not given:
        return
    try:
        kind(**given)  # type: ignore[arg-type]
    except SettingsError as error:
        yield f"settings: {error}"
    except ValidationError as error:
        for one in error.errors(include_url=False):
            name = str(one["loc"][0]) if one["loc"] else ""
            # Whatever else it misses is told to the process when it is started.
            if name in given:
                yield f"settings.{_variable(kind, name)} = {shown(given[name])}: {one['msg']}"


def _variable(kind: type[BaseSettings], name: str) -> str:
    return f"{kind.model_config.get('env_prefix', '')}{name}".upper()


def _settings_classes() -> tuple[type[BaseSettings], ...]:
    from oncelog.process.run import ProcessSettings
    from oncelog.rpc.node_settings import NodeSettings
    from oncelog_controller.settings import ControllerSettings
    from oncelog_coordinator.settings import CoordinatorSettings
    from oncelog_gateway.settings import GatewaySettings
    from oncelog_listener.settings import ListenerSettings
    from oncelog_marker_sender.settings import MarkerSenderSettings
    from oncelog_storage.settings import StorageSettings

    return (
        NodeSettings,
        ProcessSettings,
        ControllerSettings,
        StorageSettings,
        CoordinatorSettings,
        MarkerSenderSettings,
        ListenerSettings,
        GatewaySettings,
    )
