"""The contracts of older versions, read from `tests/golden`, which keeps those of every release.
Contracts are the protobuf messages, fields and methods, and the record fields, that a version knows.

    older_contracts("last")                             # of the newest version that is kept
    older_contracts("this", without=("RequestOrigin",))  # today's, less a message

With `without`, a new field or method can be tried before its release: the older version is then today's without it.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from oncelog.api.v1 import (
    controller_pb2,
    coordinator_pb2,
    groups_pb2,
    marker_sender_pb2,
    peer_pb2,
    process_pb2,
    storage_pb2,
    types_pb2,
)
from oncelog.errors import OncelogError
from oncelog_robustness.scenario_checks import listed, nearest
from oncelog_robustness.simulator.contracts import PACKAGE, Contracts
from oncelog_robustness.simulator.record_tags import KAFKAS_TAGS, TODAYS_TAGS, tags_of

KEPT: Final = Path(__file__).parents[2] / "tests" / "golden"
TODAY: Final = "this"
LAST: Final = "last"
RECORD: Final = "__transaction_state"
_CONTRACTS: Final = "contracts.binpb"
_RECORDS: Final = "records.json"
_MODULES: Final[tuple[Any, ...]] = (
    types_pb2,
    storage_pb2,
    controller_pb2,
    coordinator_pb2,
    groups_pb2,
    marker_sender_pb2,
    peer_pb2,
    process_pb2,
)


def older_contracts(version: str, without: Sequence[str] = ()) -> Contracts:
    """Return the contracts of a version: `this` (today's), `last`, one that is kept, or a folder with its
    files. The messages, fields and methods in `without` are left out. Raises OncelogError for an unknown
    name."""
    if version == TODAY:
        files, tags = _todays_files(), TODAYS_TAGS
    else:
        folder = _folder(version)
        version = folder.name
        files, tags = _kept_files(folder), KAFKAS_TAGS | _kept_tags(folder)
    for name in without:
        if name.startswith(f"{RECORD}:"):
            tags = _less_tag(tags, name)
        else:
            leave_out(files, name)
    less = f" without {listed(without)}" if without else ""
    return Contracts(version + less, files, tags)


# ------------------------------------------------------------------------------------------------- what is kept


def _folder(version: str) -> Path:
    known = sorted(
        (path.name for path in KEPT.glob("*") if (path / _CONTRACTS).is_file()), key=_as_numbers
    )
    if version == LAST and known:
        return KEPT / known[-1]
    for folder in (KEPT / version, Path(version)):
        if (folder / _CONTRACTS).is_file():
            return folder
    kept = f"{KEPT} keeps {listed(known)}" if known else f"{KEPT}, of the repository, keeps none"
    raise OncelogError(
        f"there is no older version {version!r}: {kept}; or give 'this', or a folder with {_CONTRACTS}"
    )


def _as_numbers(version: str) -> tuple[list[int], str]:
    return [int(part) for part in version.split(".") if part.isdecimal()], version


def _todays_files() -> FileDescriptorSet:
    files = FileDescriptorSet()
    for module in _MODULES:
        module.DESCRIPTOR.CopyToProto(files.file.add())
    return files


def _kept_files(folder: Path) -> FileDescriptorSet:
    path = folder / _CONTRACTS
    try:
        return FileDescriptorSet.FromString(path.read_bytes())
    except OSError as error:
        raise OncelogError(f"cannot read {path}: {error.strerror}") from error
    except DecodeError as error:
        raise OncelogError(f"{path} is no set of descriptors, as make golden writes it") from error


def _kept_tags(folder: Path) -> frozenset[int]:
    """Return the numbers of the tagged fields that occur in the version's sample transaction records; without
    samples, all of today's."""
    path = folder / _RECORDS
    if not path.is_file():
        return TODAYS_TAGS
    records = json.loads(path.read_text())
    return frozenset(
        tag
        for one in records
        if one["kind"] == "transaction" and one["value"] is not None
        for tag in tags_of(bytes.fromhex(one["value"]))
    )


def _less_tag(tags: frozenset[int], name: str) -> frozenset[int]:
    known = {f"{RECORD}:{tag}": tag for tag in sorted(tags)}
    if name not in known:
        raise OncelogError(f"there is no tagged field {name}; there are: {listed(tuple(known))}")
    return tags - {known[name]}


# ------------------------------------------------------------------------------------------------- what is left out


def leave_out(files: FileDescriptorSet, name: str) -> None:
    """Remove a field (`RequestOrigin.request`), a method (`Storage.Fetch`), or a message from the schemas. A
    message takes with it the fields of its type and the methods that take or answer it. Raises OncelogError
    for a name that is not there."""
    owner, _, last = name.rpartition(".")
    messages = dict(_messages(files))
    services = {service.name: service for file in files.file for service in file.service}
    if owner in services and last in (methods := [one.name for one in services[owner].method]):
        del services[owner].method[methods.index(last)]
    elif owner in messages and last in (fields := [one.name for one in messages[owner].field]):
        _remove_field(messages[owner], fields.index(last))
    elif name in messages:
        full_name = f".{PACKAGE}.{name}"
        for message in messages.values():
            for field in [one for one in message.field if one.type_name == full_name]:
                _remove_field(message, list(message.field).index(field))
        for service in services.values():
            for method in list(service.method):
                if full_name in (method.input_type, method.output_type):
                    service.method.remove(method)
    else:
        known = [*messages, *services]
        known += [f"{at}.{one.name}" for at, message in messages.items() for one in message.field]
        known += [f"{at}.{one.name}" for at, service in services.items() for one in service.method]
        hint = nearest(name, known) or "proto/ has their names; "
        raise OncelogError(
            f"the contracts have no message, field or method {name!r}; {hint}"
            f"one is written Message, Message.field or Service.Method, a tagged field {RECORD}:100"
        )


def _messages(files: FileDescriptorSet) -> Iterator[tuple[str, DescriptorProto]]:
    """Yield every message of the schemas, nested ones too, with its name below the package."""
    waiting = [(one.name, one) for file in files.file for one in file.message_type]
    while waiting:
        name, message = waiting.pop()
        yield name, message
        waiting += [(f"{name}.{one.name}", one) for one in message.nested_type]


def _remove_field(message: DescriptorProto, index: int) -> None:
    """Remove a field from a message, and its oneof if no other field is in that, as for an `optional`
    field."""
    field = message.field[index]
    at = field.oneof_index if field.HasField("oneof_index") else None
    del message.field[index]
    if at is None or any(
        one.HasField("oneof_index") and one.oneof_index == at for one in message.field
    ):
        return
    del message.oneof_decl[at]
    for one in message.field:
        if one.HasField("oneof_index") and one.oneof_index > at:
            one.oneof_index -= 1
