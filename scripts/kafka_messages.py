"""Writes the types of Kafka's messages, as mypy sees them: `make kafka-types`.

A message has a class per version in kio. Code is written once for all versions, so here a structure has the fields of
all served versions (ADR 0055). The two files are read by mypy and editors only; no process loads them.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode

from oncelog.protocol.messages import structures
from oncelog.protocol.newer_messages import request_class, response_class
from oncelog.protocol.versions import APIS, Api

if TYPE_CHECKING:
    from kio.static.protocol import Payload

ROOT: Final = Path(__file__).resolve().parents[1]
MESSAGES: Final = ROOT / "src/oncelog/protocol/kafka_messages.pyi"
CALLS: Final = ROOT / "services/oncelog_listener/kafka_calls.pyi"

_PLAIN: Final = (bool, int, str, bytes, float, timedelta, datetime, UUID)
"""The types that kio's own are made of, the narrower first."""
_FILLED_IN: Final = "throttle_time"

_MESSAGES_HEAD: Final = '''\
"""Kafka's messages for mypy and editors, written by `make kafka-types` from kio {kio} and `newer_messages`.

Nothing of this exists when a process runs: import it under TYPE_CHECKING. A structure has the fields of all served
versions. A comment says which versions have a field, where it is not in all. A field with `= ...` may be left out.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeAlias
from uuid import UUID

from typing_extensions import TypeVar

RequestTypesT_co = TypeVar("RequestTypesT_co", covariant=True)
RequestT_co = TypeVar("RequestT_co", covariant=True)
ResponseTypesT_co = TypeVar("ResponseTypesT_co", covariant=True)
ResponseT_co = TypeVar("ResponseT_co", covariant=True)

class ApiKey(int, Generic[RequestTypesT_co, RequestT_co, ResponseTypesT_co, ResponseT_co]):
    """The number of an API, and the types of its messages. When a process runs it is an int."""

class Types:
    """The constructors of a message and of the structures in it. Each drops fields that its version does not have."""

    version: int
'''

_CALLS_HEAD: Final = '''\
"""The calls of the listener's handlers for mypy and editors, written by `make kafka-types`: import it under
TYPE_CHECKING."""

from typing import TypeAlias

from oncelog.protocol import kafka_messages as kafka
from oncelog_listener.call import Call

'''


class _Found(NamedTuple):
    """A field of a structure in one version."""

    version: int
    written: str
    has_default: bool


_Load = Callable[[int, int], "type[Payload]"]
_Structures = dict[str, dict[str, list[_Found]]]
"""Structure → field → the field in each version that has it."""


def messages_text() -> str:
    """Return the text of kafka_messages.pyi."""
    from kio import __version__

    apis = [_api_text(api) for api in APIS.values()]
    return "\n".join([_MESSAGES_HEAD.format(kio=__version__), *apis])


def calls_text() -> str:
    """Return the text of kafka_calls.pyi."""
    return _CALLS_HEAD + "".join(
        f"{api.name}Call: TypeAlias = Call[kafka.{api.name}Request, kafka.{api.name}ResponseTypes]\n"
        for api in APIS.values()
    )


def _api_text(api: Api) -> str:
    lines: list[str] = []
    for kind, load in (("Request", request_class), ("Response", response_class)):
        name = f"{api.name}{kind}"
        lines += [f"class {name}Types(Types):", *_structures_text(api, name, load), ""]
        lines += [f"{name}: TypeAlias = {name}Types.{name}", ""]
    parts = ("RequestTypes", "Request", "ResponseTypes", "Response")
    types = ", ".join(f"{api.name}{part}" for part in parts)
    return "\n".join([*lines, f"{api.name}Key: TypeAlias = ApiKey[{types}]", ""])


def _structures_text(api: Api, name: str, load: _Load) -> Iterator[str]:
    served = range(api.served_min, api.max_version + 1)
    found: _Structures = {}
    of_structure: dict[str, list[int]] = {}
    for version in served:
        for structure in dict.fromkeys(structures(load(api.key, version))):
            of_structure.setdefault(structure.__name__, []).append(version)
            known = found.setdefault(structure.__name__, {})
            for one in fields(structure):
                has_default = one.default is not MISSING or one.name == _FILLED_IN
                written = _written(one.type, f"{name}Types")
                known.setdefault(one.name, []).append(_Found(version, written, has_default))
    is_request = load is request_class
    assert name in found, name
    for structure_name, of_field in found.items():
        if structure_name != next(iter(found)):
            yield ""
        yield "    @dataclass(frozen=True, slots=True, kw_only=True)"
        yield f"    class {structure_name}:{_comment(of_structure[structure_name], list(served))}"
        for field_name, versions in of_field.items():
            yield f"        {_field_text(field_name, versions, of_structure[structure_name], is_request)}"
        if not of_field:
            yield "        pass"


def _field_text(name: str, found: list[_Found], of_structure: list[int], is_request: bool) -> str:
    """Return a field's line. Who makes a request knows its version, so a field that not all have may be left out."""
    kinds = dict.fromkeys(part for one in found for part in one.written.split(" | "))
    kinds.pop("None", None)
    is_nullable = any(one.written.endswith(" | None") for one in found)
    written = " | ".join([*kinds, *(["None"] if is_nullable else [])])
    is_left_out = is_request and len(found) < len(of_structure)
    default = " = ..." if is_left_out or all(one.has_default for one in found) else ""
    return f"{name}: {written}{default}{_comment([one.version for one in found], of_structure)}"


def _comment(versions: list[int], all_versions: list[int]) -> str:
    if versions == all_versions:
        return ""
    first, last = versions[0], versions[-1]
    if last == all_versions[-1]:
        return f"  # from version {first}"
    if first == all_versions[0]:
        return f"  # to version {last}"
    return f"  # versions {first} to {last}" if first < last else f"  # version {first}"


def _written(kind: Any, namespace: str) -> str:
    """Return the type as plain Python's: `i16` is an int, an error code is its number."""
    if get_origin(kind) in (UnionType, Union):
        rest = [one for one in get_args(kind) if one is not NoneType]
        assert len(rest) == 1, kind
        return f"{_written(rest[0], namespace)} | None"
    if get_origin(kind) is tuple:
        element, more = get_args(kind)
        assert more is ..., kind
        return f"tuple[{_written(element, namespace)}, ...]"
    if isinstance(kind, type) and is_dataclass(kind):
        return f"{namespace}.{kind.__name__}"
    if kind is ErrorCode:
        return "int"
    return next(plain.__name__ for plain in _PLAIN if issubclass(kind, plain))


if __name__ == "__main__":
    MESSAGES.write_text(messages_text())
    CALLS.write_text(calls_text())
