"""Finds what is wrong with nodes, partitions and shards for the overview: no leader or owner, no answer, fenced, or out
of sync.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from oncelog.wording import counted
from oncelog_gateway.core.held_back import LONG_MS
from oncelog_gateway.core.trouble import (
    NOT_KNOWN,
    ROWS_MAX,
    Check,
    Since,
    Trouble,
    names,
    node_words,
    page,
    repair_words,
)

STORAGE_ERROR: Final = "KAFKA_STORAGE_ERROR"
MARKERS_WAIT_MS: Final = LONG_MS
"""Age at which a waiting marker is a trouble. A marker takes milliseconds; one that waits for so long waits for a
node.
"""
_NODES: Final = "oncelog nodes list"
_PARTITIONS: Final = "oncelog partitions"
_MARKERS: Final = "oncelog transactions markers"


class Seen(NamedTuple):
    """A node, partition or shard with something wrong, and since when, as the console's list of troubles shows it."""

    name: str
    since: Since = NOT_KNOWN
    nodes: tuple[int, ...] = ()
    """For a partition: the nodes at fault, such as the leader that does not answer or the replicas out of sync."""
    what: str = ""


class Queue(NamedTuple):
    """The markers of decided transactions that the marker sender has yet to deliver to one node: how many, and how old
    the oldest is.
    """

    node: int | None
    """Node id of the partitions' leader; None: the partitions have no leader."""
    marker_count: int
    oldest_ms: int


def leaderless(found: Sequence[Seen]) -> Iterator[Trouble]:
    if found:
        nodes = _missing(found)
        yield Trouble(
            "leaders",
            "bad",
            _partitions(found),
            f"{_has(found)} no leader: nobody can read or write there",
            _longest(found),
            f"Start {node_words(nodes)} again: the replicas are there."
            if nodes
            else "Start the nodes that have the replicas.",
            _NODES,
            "/nodes",
        )


def unanswered(found: Sequence[Seen]) -> Iterator[Trouble]:
    offline = [one for one in found if one.what == STORAGE_ERROR]
    silent = [one for one in found if one.what != STORAGE_ERROR]
    if offline:
        words = repair_words(_missing(offline))
        yield Trouble(
            "partitions",
            "bad",
            _partitions(offline),
            f"{_is(offline)} offline: files are damaged or missing",
            NOT_KNOWN,
            f"{words[0].upper()}{words[1:]}.",
            _PARTITIONS,
            _partition_page(offline),
        )
    if silent:
        yield Trouble(
            "partitions",
            "warn",
            _partitions(silent),
            f"{_has(silent)} no answer of {'its' if len(silent) == 1 else 'their'} leader ({silent[0].what}): "
            f"what holds {'it' if len(silent) == 1 else 'them'} back is not known",
            NOT_KNOWN,
            f"See whether {node_words(_missing(silent))} live{'s' if len(_missing(silent)) == 1 else ''}.",
            _NODES,
            "/nodes",
        )


def behind(found: Sequence[Seen]) -> Iterator[Trouble]:
    if found:
        nodes = _missing(found)
        yield Trouble(
            "partitions",
            "warn",
            _partitions(found),
            f"{_has(found)} a replica out of sync, on {node_words(nodes)}",
            _longest(found),
            f"See whether {node_words(nodes)} live{'s' if len(nodes) == 1 else ''}: "
            "replicas that live catch up by themselves.",
            _PARTITIONS,
            _partition_page(found),
        )


def unowned(found: Sequence[Seen]) -> Iterator[Trouble]:
    for one in found:
        yield Trouble(
            "coordinators",
            "bad",
            one.name,
            "have no coordinator: their clients wait",
            one.since,
            "Start a coordinator.",
            _NODES,
            "/nodes",
        )


def fenced(found: Sequence[Seen]) -> Iterator[Trouble]:
    for one in found[:ROWS_MAX]:
        yield Trouble(
            "nodes",
            "warn",
            one.name,
            f"({one.what}) is out of service: dead, frozen or cut off",
            one.since,
            "Start its process again, or forget the node.",
            _NODES,
            "/nodes",
        )
    if len(found) > ROWS_MAX:
        yield Trouble(
            "nodes",
            "warn",
            counted(len(found) - ROWS_MAX, "node"),
            "more out of service",
            _longest(found[ROWS_MAX:]),
            "Start their processes again.",
            _NODES,
            "/nodes",
        )


def queues(queues: Sequence[Queue]) -> Iterator[Trouble]:
    stuck = [one for one in queues if one.oldest_ms >= MARKERS_WAIT_MS]
    # Several marker senders may wait for one node.
    by_node: dict[int | None, list[Queue]] = {}
    for one in sorted(stuck, key=lambda one: -one.oldest_ms):
        by_node.setdefault(one.node, []).append(one)
    for node, same in list(by_node.items())[:ROWS_MAX]:
        count = sum(one.marker_count for one in same)
        waits = "waits" if count == 1 else "wait"
        yield Trouble(
            "markers",
            "warn",
            counted(count, "marker"),
            f"{waits} for {'a leader' if node is None else f'node {node}'}: "
            "decided transactions are not complete, and their producers wait too",
            Since(same[0].oldest_ms),
            "Start the nodes that have the replicas."
            if node is None
            else f"See whether node {node} lives.",
            _MARKERS,
            "/nodes",
        )


def silent(silent: Mapping[Check, Sequence[str]]) -> Iterator[Trouble]:
    what: Mapping[Check, str] = {
        "transactions": "whether a transaction hangs or is late is not known",
        "groups": "whether a group is blocked is not known",
        "markers": "whether markers wait is not known",
    }
    seen: set[str] = set()
    for check, failures in silent.items():
        fresh = [one for one in dict.fromkeys(failures) if one not in seen]
        seen.update(fresh)
        if fresh:
            more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
            yield Trouble(
                check,
                "warn",
                f"{fresh[0]}{more}:",
                what.get(check, "that is not known"),
                NOT_KNOWN,
                "See whether the node lives, then look again. End nothing meanwhile.",
                _NODES,
                "/nodes",
            )


def _partitions(found: Sequence[Seen]) -> str:
    return names(one.name for one in found)


def _missing(found: Sequence[Seen]) -> list[int]:
    """Return the nodes that are at fault for these partitions (`Seen.nodes`), first those with most partitions."""
    counts = Counter(node for one in found for node in one.nodes)
    return [node for node, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _longest(found: Sequence[Seen]) -> Since:
    known = [one.since for one in found if one.since.age_ms is not None]
    return max(known, key=lambda one: one.age_ms or 0, default=NOT_KNOWN)


def _partition_page(found: Sequence[Seen]) -> str:
    if len(found) > 1:
        return "/partitions"
    topic, _, partition = found[0].name.rpartition("-")
    return page("/partition", topic=topic, partition=partition)


def _has(found: Sequence[Seen]) -> str:
    return "has" if len(found) == 1 else "have"


def _is(found: Sequence[Seen]) -> str:
    return "is" if len(found) == 1 else "are"
