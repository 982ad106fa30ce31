"""Settings by Kafka's names: `linger.ms` in a mapping, `linger_ms` as a keyword. Both mean one setting.

A value may be given as text, as a properties file has it.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final, TypeVar

from oncelog.client.core.login import NAMES as LOGIN_NAMES
from oncelog.client.core.login import ClientLogin, login_of
from oncelog.client.errors import ConfigError
from oncelog.errors import OncelogError

_LOGIN_PREFIXES: Final = ("security.", "sasl.", "ssl.")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

SettingsT = TypeVar("SettingsT")


def kafka_name(keyword: str) -> str:
    return keyword.replace("_", ".")


def split_login(config: Mapping[str, object]) -> tuple[dict[str, object], ClientLogin | None]:
    """Split a mapping of settings in two: return the other settings, and the login; None if it has none. Raises
    ConfigError."""
    rest = {name: value for name, value in config.items() if not name.startswith(_LOGIN_PREFIXES)}
    given = {name: str(value) for name, value in config.items() if name not in rest}
    if not given:
        return rest, None
    try:
        return rest, login_of(given)
    except OncelogError as error:
        raise ConfigError(str(error)) from error


def merged(
    keywords: Mapping[str, object], config: Mapping[str, object], known: Iterable[str]
) -> dict[str, object]:
    """Join keywords and `config`, and return keyword → value. Raises ConfigError for a name that is unknown, or is
    given twice."""
    names = tuple(known)
    found = {name: value for name, value in keywords.items() if value is not None}
    for name in found:
        if name not in names:
            raise _unknown(name, names)
    for name, value in config.items():
        keyword = name.replace(".", "_").replace("-", "_")
        if keyword not in names:
            raise _unknown(name, map(kafka_name, names))
        if keyword in found and found[keyword] != value:
            raise ConfigError(
                f"{keyword}={found[keyword]!r} and {name}={value!r} are both given: give one of them"
            )
        if value is not None:
            found[keyword] = value
    return found


def settings_of(kind: type[SettingsT], given: Mapping[str, object]) -> SettingsT:
    """Return a settings dataclass with the given values. Raises ConfigError for a value of another type, or below 0."""
    by_name = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    values = {name: _value(name, by_name[name].type, value) for name, value in given.items()}
    return kind(**values)


def _value(name: str, kind: object, value: object) -> object:
    wanted = str(getattr(kind, "__name__", kind))
    if wanted == "bool":
        return _truth(name, value)
    if wanted in ("int", "float", "int | None"):
        return _number(name, value, whole=wanted != "float")
    if wanted in ("str", "str | None"):
        if not isinstance(value, str):
            raise ConfigError(f"{kafka_name(name)} is {value!r}: give text")
        return value
    return value


def _truth(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ConfigError(f"{kafka_name(name)} is {value!r}: give true or false")


def _number(name: str, value: object, whole: bool) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if number != number or number in (float("inf"), float("-inf")):
            raise ValueError
        if whole and number != int(number):
            raise ValueError
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise ConfigError(f"{kafka_name(name)} is {value!r}: give {kind}") from None
    if number < 0:
        raise ConfigError(f"{kafka_name(name)} is {value}: give 0 or more")
    return int(number) if whole else number


def _unknown(name: str, names: Iterable[str]) -> ConfigError:
    known = sorted({*names, *(LOGIN_NAMES if "." in name else ())})
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    way_out = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return ConfigError(f"{name} is no setting of this client: {way_out}")
