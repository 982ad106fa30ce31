"""Sets that keep the order of adding, for a library that iterates over its sets.

aiokafka fetches topics, adds partitions and picks brokers in the order of a set, and that order differs between two
processes: by the hash of strings, and by addresses in memory. In the simulator its modules get this set instead.
"""

import importlib
from collections.abc import Iterable, Iterator, MutableSet
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MODULES: Final = (
    "aiokafka.client",
    "aiokafka.cluster",
    "aiokafka.consumer.consumer",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "aiokafka.consumer.subscription_state",
    "aiokafka.coordinator.assignors.roundrobin",
    "aiokafka.producer.message_accumulator",
    "aiokafka.producer.sender",
    "aiokafka.producer.transaction_manager",
)


class OrderedSet(MutableSet[T]):
    """A `set` that keeps the order of adding; it also stands for a `frozenset`, whose users do not change it."""

    def __init__(self, elements: Iterable[T] = ()) -> None:
        self._elements = dict.fromkeys(elements)

    def __contains__(self, element: object) -> bool:
        return element in self._elements

    def __iter__(self) -> Iterator[T]:
        # A set that changes under an iteration says so; so does a dict.
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __repr__(self) -> str:
        return f"OrderedSet({list(self._elements)})"

    def add(self, value: T) -> None:
        self._elements[value] = None

    def discard(self, value: T) -> None:
        self._elements.pop(value, None)

    def pop(self) -> T:
        return self._elements.popitem()[0]

    def clear(self) -> None:
        self._elements.clear()

    def copy(self) -> "OrderedSet[T]":
        return OrderedSet(self)

    def update(self, *others: Iterable[T]) -> None:
        for other in others:
            self._elements.update(dict.fromkeys(other))

    def union(self, *others: Iterable[T]) -> "OrderedSet[T]":
        found = self.copy()
        found.update(*others)
        return found

    def intersection(self, *others: Iterable[Any]) -> "OrderedSet[T]":
        kept = [set(other) for other in others]
        return OrderedSet(one for one in self if all(one in other for other in kept))

    def difference(self, *others: Iterable[Any]) -> "OrderedSet[T]":
        gone = [set(other) for other in others]
        return OrderedSet(one for one in self if not any(one in other for other in gone))

    def issubset(self, other: Iterable[Any]) -> bool:
        return self <= OrderedSet(other)

    def issuperset(self, other: Iterable[Any]) -> bool:
        return self >= OrderedSet(other)


def install_ordered_sets() -> None:
    """Make `set` and `frozenset` mean the ordered set in aiokafka's modules, from now on."""
    for name in _MODULES:
        module: Any = importlib.import_module(name)
        # A global of the module comes before the builtin.
        module.set = module.frozenset = OrderedSet
