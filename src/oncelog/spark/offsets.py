"""Offset vectors: their JSON, their limits and the ranges between two of them. Pure.

Spark stores what the source calls an offset as JSON; ours has the shape of Spark's Kafka source,
`{"topic": {"0": 123}}`, where 123 is the next offset to read. Inside it is a plain dict by partition.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog.ids import Partition

EARLIEST: Final = -2
LATEST: Final = -1

OffsetVector = dict[Partition, int]
Offsets = int | OffsetVector
"""EARLIEST or LATEST for every partition, or an offset, EARLIEST or LATEST for each."""


class Timestamps(NamedTuple):
    """A start or an end by time: the first record of a partition at or after its timestamp, in ms."""

    of_all: int | None
    """One timestamp for all partitions; None: `of_partition` has one for each."""
    of_partition: OffsetVector
    or_latest: bool
    """True if a partition without so late a record counts to its end; False: that is an error."""

    def per_partition(self, partitions: Iterable[Partition]) -> OffsetVector:
        if self.of_all is not None:
            return dict.fromkeys(partitions, self.of_all)
        return self.of_partition


OffsetJson = dict[str, dict[str, int]]


class OffsetRange(NamedTuple):
    """Offsets `start <= offset < end` of a partition."""

    partition: Partition
    start: int
    end: int


def to_json(offsets: Mapping[Partition, int]) -> OffsetJson:
    """Return the JSON form, sorted: Spark compares offsets as text."""
    topics: OffsetJson = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return topics


def from_json(topics: Mapping[str, object]) -> OffsetVector:
    """Return the offsets of the JSON form. Raises ValueError where the shape is not `{"topic": {"0": 123}}`."""
    offsets: OffsetVector = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(f"the value of topic {topic!r} is no object")
        for number, offset in partitions.items():
            if not number.isascii() or not number.isdigit():
                raise ValueError(f"{number!r} is no partition of topic {topic!r}")
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
                raise ValueError(f"{offset!r} is no offset of {topic}-{number}")
            offsets[Partition(topic, int(number))] = offset
    return offsets


def parse_offsets(option: str, text: str) -> Offsets:
    """Read `earliest`, `latest` or JSON. Raises OncelogError naming the option."""
    if text.lower() == "earliest":
        return EARLIEST
    if text.lower() == "latest":
        return LATEST
    try:
        offsets = from_json(_parse_object(text))
    except ValueError as error:
        raise OncelogError(
            f"option {option} is {text!r}: {error}. Give earliest, latest or JSON such as "
            '{"orders": {"0": 123, "1": -2}}, where -2 is earliest and -1 latest'
        ) from error
    if not offsets:
        raise OncelogError(f"option {option} is {text!r}: it names no partition")
    return offsets


def parse_timestamps(option: str, text: str) -> OffsetVector:
    """Read JSON `{"topic": {"0": milliseconds}}`. Raises OncelogError naming the option."""
    try:
        timestamps = from_json(_parse_object(text))
        if not timestamps or min(timestamps.values()) < 0:
            raise ValueError("a partition needs a time of 0 or above")
    except ValueError as error:
        raise OncelogError(
            f"option {option} is {text!r}: {error}. Give JSON of milliseconds since 1970, such as "
            '{"orders": {"0": 1700000000000}}'
        ) from error
    return timestamps


def parse_assignment(option: str, text: str) -> tuple[Partition, ...]:
    """Read JSON `{"topic": [0, 1]}`. Raises OncelogError naming the option."""
    assigned: dict[Partition, None] = {}
    try:
        for topic, numbers in _parse_object(text).items():
            if not isinstance(numbers, list):
                raise ValueError(f"the value of topic {topic!r} is no list")
            for number in numbers:
                if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                    raise ValueError(f"{number!r} is no partition of topic {topic!r}")
                assigned[Partition(topic, number)] = None
    except ValueError as error:
        raise OncelogError(
            f'option {option} is {text!r}: {error}. Give JSON such as {{"orders": [0, 1]}}'
        ) from error
    return tuple(assigned)


def limited(start: Mapping[Partition, int], end: OffsetVector, limit: int) -> OffsetVector:
    """Return `end`, pulled back so that at most `limit` offsets lie between `start` and it, shared out evenly among
    partitions.

    Each partition gets the same share, and what a short one leaves goes to the others. So a partition with a long
    backlog cannot starve the rest.
    """
    lags = sorted(
        (end[key] - start.get(key, 0), key) for key in end if end[key] > start.get(key, 0)
    )
    capped = dict(end)
    left = limit
    for index, (lag, partition) in enumerate(lags):
        # From the last to be served down: a remainder goes to the partitions that are furthest behind.
        share = min(lag, left // (len(lags) - index))
        capped[partition] = start.get(partition, 0) + share
        left -= share
    return capped


def ranges_between(
    start: Mapping[Partition, int], end: Mapping[Partition, int]
) -> list[OffsetRange]:
    """Return the offset ranges to read between two vectors, in order of partition. The same arguments give the same
    ranges, because Spark may plan a batch again.

    A partition that is not in `start` is new and is read from its first offset, 0.
    """
    return [
        OffsetRange(partition, start.get(partition, 0), end[partition])
        for partition in sorted(end)
        if end[partition] > start.get(partition, 0)
    ]


def check_covers(option: str, offsets: OffsetVector, partitions: Iterable[Partition]) -> None:
    """Raise OncelogError unless the option names each partition once and no other."""
    existing = set(partitions)
    missing = sorted(existing - offsets.keys())
    unknown = sorted(offsets.keys() - existing)
    if missing or unknown:
        wrong = [f"does not name {_names(missing)}"] if missing else []
        wrong += [f"names {_names(unknown)}, which the query does not read"] if unknown else []
        raise OncelogError(
            f"option {option} {' and '.join(wrong)}: name every partition, with -2 for earliest and -1 for latest"
        )


def _parse_object(text: str) -> dict[str, object]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _names(partitions: list[Partition]) -> str:
    shown = ", ".join(str(partition) for partition in partitions[:5])
    return shown + (f" and {len(partitions) - 5} more" if len(partitions) > 5 else "")
