"""Messages that the library kio lacks or has wrong. Their classes are kio's, with the fields that differ.

A field is replaced by any number of others, in its place. `AT_THE_END` adds fields behind all. When a newer kio has a
version, its entry here can be removed (`tests/unit/protocol/test_version_table.py` says when).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.static.primitive import TZAware, i16, i32

from oncelog.protocol.shape import structure_of
from oncelog.protocol.versions import (
    API_VERSIONS,
    DELETE_GROUPS,
    DESCRIBE_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
)

if TYPE_CHECKING:
    from kio.static.protocol import Entity, Payload

EntityT = TypeVar("EntityT", bound="Entity")

AT_THE_END: Final = ""

Spec = tuple[str, Any, Any]
"""(name, type, dataclasses' field), as `make_dataclass` takes it."""
Changes = Mapping[str, Sequence[Spec]]
"""A field of the older version → the fields that replace it."""


class Newer(NamedTuple):
    """The fields that differ in a newer version of an API, by the name of the structure in request and response."""

    request: Mapping[str, Changes]
    response: Mapping[str, Changes]


def _text(name: str, *, nullable_default: bool = False) -> Spec:
    metadata = {"kafka_type": "string"}
    if nullable_default:
        return name, str | None, field(metadata=metadata, default=None)
    return name, str, field(metadata=metadata)


_TOPIC_ID: Final[Changes] = {
    "name": [("topic_id", UUID | None, field(metadata={"kafka_type": "uuid"}))]
}

NEWER: Final[Mapping[tuple[int, int], Newer]] = {
    # A client names the cluster and the node that it means to reach (KIP-1242).
    (API_VERSIONS, 5): Newer(
        {
            "ApiVersionsRequest": {
                AT_THE_END: [
                    _text("cluster_id", nullable_default=True),
                    ("node_id", i32, field(metadata={"kafka_type": "int32"}, default=i32(-1))),
                ]
            }
        },
        {},
    ),
    # Topics are named by id (KIP-1319).
    (TXN_OFFSET_COMMIT, 6): Newer(
        {"TxnOffsetCommitRequestTopic": _TOPIC_ID}, {"TxnOffsetCommitResponseTopic": _TOPIC_ID}
    ),
    # A message says why a group was not deleted (KIP-1331).
    (DELETE_GROUPS, 3): Newer(
        {},
        {
            "DeletableGroupResult": {
                AT_THE_END: [_text("error_message", nullable_default=True)],
            }
        },
    ),
}


CORRECTED: Final[Mapping[int, Mapping[str, Changes]]] = {
    # A transactional id without a transaction has the start -1: kio's class reads no time before 1970.
    DESCRIBE_TRANSACTIONS: {
        "TransactionState": {
            "transaction_start_time": [
                (
                    "transaction_start_time",
                    TZAware | None,
                    field(metadata={"kafka_type": "datetime_i64"}),
                )
            ]
        }
    }
}
"""Corrections of responses, in every version, where kio's class does not read what brokers send."""


@cache
def request_class(api_key: int, version: int) -> type[Payload]:
    """Return the class of an API's request in this version: that of the library kio, or ours where kio has none. Raises
    kio's UnknownAPIKey or UnknownEntity."""
    newer = NEWER.get((api_key, version))
    if newer is None:
        return load_request_schema(api_key, version)
    return _changed(load_request_schema(api_key, version - 1), version, newer.request)


@cache
def response_class(api_key: int, version: int) -> type[Payload]:
    """Return the class of an API's response in this version: that of the library kio, or ours where kio has none.
    Raises as `request_class` does."""
    newer = NEWER.get((api_key, version))
    if newer is None:
        corrected = CORRECTED.get(api_key, {})
        return _changed(load_response_schema(api_key, version), version, corrected)
    return _changed(load_response_schema(api_key, version - 1), version, newer.response)


def _changed(entity: type[EntityT], version: int, changes: Mapping[str, Changes]) -> type[EntityT]:
    if not changes:
        return entity
    of_entity = changes.get(entity.__name__, {})
    specs: list[Spec] = []
    for one in fields(entity):
        specs += of_entity.get(one.name, [_same(one, version, changes)])
    specs += of_entity.get(AT_THE_END, ())
    names = ("__type__", "__flexible__", "__api_key__", "__header_schema__")
    made: type[EntityT] = make_dataclass(
        entity.__name__,
        specs,
        frozen=True,
        slots=True,
        kw_only=True,
        namespace={name: getattr(entity, name) for name in names}
        | {"__version__": i16(version), "__module__": __name__},
    )
    return made


def _same(one: Field[Any], version: int, changes: Mapping[str, Changes]) -> Spec:
    kind = one.type
    structure = structure_of(kind)
    if structure is not None:
        assert not is_dataclass(one.default), one
        newer = _changed(structure, version, changes)
        kind = GenericAlias(tuple, (newer, ...)) if get_origin(kind) is tuple else newer
    if one.default is MISSING:
        return one.name, kind, field(metadata=one.metadata)
    return one.name, kind, field(metadata=one.metadata, default=one.default)
