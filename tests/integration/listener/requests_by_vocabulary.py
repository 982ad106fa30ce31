"""Requests of every API and version out of a vocabulary: what a field of that name holds, wherever it stands.

A new API needs no new code: only words for its fields. A word may be for one API alone: "Fetch.name" is tried first,
then "name".
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from typing import Any, get_args, get_origin

from oncelog.protocol.messages import schema_of
from oncelog.protocol.shape import without_none
from oncelog.protocol.versions import Api

Words = Mapping[str, Any]

_ZEROS: Mapping[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": None,
    "timedelta_i32": timedelta(),
    "timedelta_i64": timedelta(),
}


def request_of(api: Api, version: int, words: Words, *, is_empty: bool = False) -> Any:
    """The request of this version in these words. `is_empty` leaves every list empty, and null where it may be."""
    return _filled(schema_of(api.key, version).request, api.name, words, is_empty)


def _filled(entity: Any, api: str, words: Words, is_empty: bool) -> Any:
    values = {
        field.name: _value(field, api, words, is_empty) for field in fields(entity) if field.init
    }
    return entity(**values)


def _value(field: Any, api: str, words: Words, is_empty: bool) -> Any:
    word = words.get(f"{api}.{field.name}", words.get(field.name, MISSING))
    kind, is_nullable = without_none(field.type)
    is_list = get_origin(kind) is tuple
    if is_list and is_empty:
        return None if is_nullable else ()
    if is_list and is_dataclass(get_args(kind)[0]):
        # Structures are always filled from the vocabulary; a word for a list of them is the empty list or null.
        return word if word in ((), None) else (_filled(get_args(kind)[0], api, words, is_empty),)
    if word is not MISSING and (word is not None or is_nullable):
        return word
    if is_list:
        return ()
    if is_nullable:
        return None
    if is_dataclass(kind):
        return _filled(kind, api, words, is_empty)
    if field.default is not MISSING:
        return field.default
    return _ZEROS.get(field.metadata["kafka_type"], 0)
