"""The cut of a large request into small ones, so that no step of it blocks this process or the role it asks.

```
 request ──▶ merged ──▶ cut ──▶ piece ──▶ its handler ──▶ answer ─┐
              each thing         │  next turn (turns.py)          ├──▶ merged ──▶ response
              stands once        └──▶ piece ──▶ …  ──▶ answer ────┘
```

What a large request names many times is answered once: otherwise the answer could be as many times larger than the
request as the client likes. Where naming a thing twice is refused (`keeps_two`), its handler sees two of them.

A request that may not be done in parts (a commit of offsets, an addition to a transaction) has no row here: its handler
takes turns itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from oncelog.protocol import versions
from oncelog_listener.call import AnyCall, Call, Handler

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NodeT = TypeVar("NodeT", bound="DataclassInstance")
"""A message or a structure in one. A name or a number in an array of those is handled as one, too."""

PIECE_ELEMENTS: Final = 500
"""The most elements of one piece: a role may be asked for so many in one step of some milliseconds."""


_Key = Callable[[object], Hashable]


class Level(NamedTuple):
    """One array of a request at which it may be cut, such as the topics, and the array of the response that answers it.
    `answer_key` is to an element of the response what `key` is to one of the request."""

    requested: str
    answered: str
    key: _Key
    """The function that returns what an element of the request is about, such as its topic name."""
    answer_key: _Key
    keeps_two: bool = False
    """True if elements with one key are refused as duplicates, so two of them are kept, in one piece."""


_name: Final = attrgetter("name")
_topic: Final = attrgetter("topic")
_partition: Final = attrgetter("partition_index")
_index: Final = attrgetter("index")
_group: Final = attrgetter("group_id")
_producer: Final = attrgetter("producer_id")
_MARKER: Final = attrgetter(
    "producer_id", "producer_epoch", "transaction_result", "coordinator_epoch"
)


def _itself(node: object) -> Hashable:
    return node


def _marker(node: object) -> Hashable:
    """Return the key of a marker in WriteTxnMarkers: all its fields but the partitions."""
    return _MARKER(node), getattr(node, "transaction_version", 0)


def _name_or_id(node: object) -> Hashable:
    return getattr(node, "name", None), getattr(node, "topic_id", None)


_TOPICS: Final = Level("topics", "topics", _name, _name)
_PARTITIONS: Final = Level("partitions", "partitions", _partition, _partition)
_INDEXES: Final = Level("partition_indexes", "partitions", _itself, _partition)
_FETCHED: Final = Level("topics", "topics", _name_or_id, _name_or_id)

_LEVELS: Final[Mapping[int, tuple[Level, ...]]] = {
    versions.PRODUCE: (
        Level("topic_data", "responses", _name_or_id, _name_or_id),
        Level("partition_data", "partition_responses", _index, _index, keeps_two=True),
    ),
    versions.LIST_OFFSETS: (_TOPICS, _PARTITIONS._replace(keeps_two=True)),
    versions.OFFSET_FETCH: (Level("groups", "groups", _group, _group), _FETCHED, _INDEXES),
    versions.DESCRIBE_GROUPS: (Level("groups", "groups", _itself, _group),),
    versions.CREATE_TOPICS: (Level("topics", "topics", _name, _name, keeps_two=True),),
    versions.DELETE_TOPICS: (
        Level("topics", "responses", _name_or_id, _name_or_id, keeps_two=True),
    ),
    versions.DELETE_RECORDS: (_TOPICS, _PARTITIONS),
    versions.OFFSET_FOR_LEADER_EPOCH: (
        Level("topics", "topics", _topic, _topic),
        Level("partitions", "partitions", attrgetter("partition"), attrgetter("partition")),
    ),
    versions.WRITE_TXN_MARKERS: (
        Level(
            "markers",
            "markers",
            _marker,
            _producer,
        ),
        _TOPICS,
        _INDEXES,
    ),
    versions.DESCRIBE_LOG_DIRS: (
        Level("topics", "results", _topic, attrgetter("log_dir")),
        Level("partitions", "topics", _itself, _name),
        Level("", "partitions", _itself, _partition),
    ),
    versions.CREATE_PARTITIONS: (Level("topics", "results", _name, _name, keeps_two=True),),
    versions.DELETE_GROUPS: (Level("groups_names", "results", _itself, _group),),
    versions.ELECT_LEADERS: (
        Level("topic_partitions", "replica_election_results", _topic, _topic),
        Level("partitions", "partition_result", _itself, attrgetter("partition_id")),
    ),
    versions.ALTER_PARTITION_REASSIGNMENTS: (
        Level("topics", "responses", _name, _name),
        _PARTITIONS,
    ),
    versions.LIST_PARTITION_REASSIGNMENTS: (_TOPICS, _INDEXES),
    versions.OFFSET_DELETE: (_TOPICS, _PARTITIONS),
    versions.DESCRIBE_PRODUCERS: (_TOPICS, _INDEXES),
    versions.DESCRIBE_TRANSACTIONS: (
        Level("transactional_ids", "transaction_states", _itself, attrgetter("transactional_id")),
    ),
    versions.CONSUMER_GROUP_DESCRIBE: (Level("group_ids", "groups", _itself, _group),),
}

_NAMES_ONLY_UNTIL: Final = 5
_ONE_GROUP_UNTIL: Final = 7


def levels_of(api_key: int, version: int) -> tuple[Level, ...]:
    """Return the arrays at which a request of this API may be cut into pieces, from the outermost inwards; (): it may
    not be cut."""
    levels = _LEVELS.get(api_key, ())
    if api_key == versions.DELETE_TOPICS and version <= _NAMES_ONLY_UNTIL:
        return (Level("topic_names", "responses", _itself, _name, keeps_two=True),)
    if api_key == versions.OFFSET_FETCH and version <= _ONE_GROUP_UNTIL:
        return levels[1:]
    return levels


async def answered_in_pieces(
    call: AnyCall, levels: Sequence[Level], handle: Handler
) -> DataclassInstance | None:
    """Cut a large request, give each piece to the handler, and return the response joined from their answers. Other
    tasks run in between.

    If an answer has an error for the whole request, it is returned, and no further piece is handled. None: no piece has
    an answer.
    """
    requested = [
        (level.requested, level.key, level.keeps_two) for level in levels if level.requested
    ]
    answered = [(level.answered, level.answer_key, False) for level in levels]
    request = await _merged(call, [call.request], requested)
    answers = []
    for piece, _ in _cut(request, requested):
        await call.next_turn()
        answer = await handle(replace(call, request=piece))
        if getattr(answer, "error_code", 0):
            return answer
        if answer is not None:
            answers.append(answer)
    await call.next_turn()
    return await _merged(call, answers, answered) if answers else None


_Array = tuple[str, _Key, bool]
"""An array to merge or cut: (field, function for an element's key, True if two elements of a key are kept)."""


async def _merged(call: Call, nodes: Sequence[NodeT], arrays: Sequence[_Array]) -> NodeT:
    """Return one message with the array elements of all of `nodes`. Elements with equal keys become one; in the
    innermost array the last one counts."""
    if not arrays:
        return nodes[-1]
    (field, key, keeps_two), *inner = arrays
    for node in nodes:
        # An error is told of the whole; an array that is null stands for everything.
        if getattr(node, "error_code", 0) or getattr(node, field) is None:
            return node
    by_key: dict[Hashable, list[DataclassInstance]] = {}
    for node in nodes:
        for element in getattr(node, field):
            by_key.setdefault(key(element), []).append(element)
            if call.is_turn_over():
                await call.next_turn()
    elements: list[DataclassInstance] = []
    for found in by_key.values():
        if keeps_two:
            elements += found[:2]
        elif not inner:
            elements.append(found[-1])
        else:
            elements.append(await _merged(call, found, inner))
        if call.is_turn_over():
            await call.next_turn()
    return replace(nodes[0], **{field: tuple(elements)})


def _cut(node: NodeT, arrays: Sequence[_Array]) -> Iterator[tuple[NodeT, int]]:
    """Yield the message cut into pieces of at most PIECE_ELEMENTS elements, each with its number of elements."""
    elements = getattr(node, arrays[0][0]) if arrays else None
    if not elements:
        yield node, _size(node)
        return
    (field, key, keeps_two), *inner = arrays
    taken: list[DataclassInstance] = []
    size = 1
    for element in elements:
        for piece, piece_size in _cut(element, inner):
            is_second = keeps_two and taken and key(taken[-1]) == key(piece)
            if taken and size + piece_size > PIECE_ELEMENTS and not is_second:
                yield replace(node, **{field: tuple(taken)}), size
                taken, size = [], 1
            taken.append(piece)
            size += piece_size
    yield replace(node, **{field: tuple(taken)}), size


def _size(node: DataclassInstance | str | int) -> int:
    """Return the number of elements in the arrays of this message or structure, plus one for itself."""
    if isinstance(node, str | int):
        return 1
    return 1 + sum(len(getattr(node, name) or ()) for name in _array_names(node.__class__))


@lru_cache(maxsize=512)
def _array_names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if "tuple[" in str(one.type))
