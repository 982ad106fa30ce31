"""Remembers since when a node is fenced, a partition lacks a leader or a replica, or a shard lacks a coordinator.

The metadata image (this process's copy of the cluster's metadata) says how things are, but not since when. So this
module notes the time of each change, and asks no other role. What was wrong in the first image has lasted at least
since then.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from oncelog.ids import Millis, Partition
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower, MetadataImage
from oncelog.runtime.clock import Clock
from oncelog_gateway.core.node_troubles import Seen
from oncelog_gateway.core.trouble import Since
from oncelog_gateway.core.wording import ranges
from oncelog_gateway.nodes import role_names

Kind = Literal["fenced", "leaderless", "behind", "unowned"]


class Shard(NamedTuple):
    kind: int
    number: int


Key = tuple[Kind, int | Partition | Shard]
_SHARDS: Final = ((TRANSACTION, "transaction"), (GROUP, "group"))


class _Noted(NamedTuple):
    at_ms: Millis
    is_exact: bool


class ImageWatch:
    def __init__(self, metadata: MetadataFollower, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._noted: dict[Key, _Noted] = {}
        if metadata.image.metadata_offset >= 0:
            self._note(MetadataImage(), metadata.image)
        metadata.on_change(self._note)

    def fenced(self) -> list[Seen]:
        image = self._metadata.image
        return [
            Seen(f"node {one}", self._since(("fenced", one)), what=", ".join(role_names(node)))
            for one, node in sorted(image.nodes.items())
            if node.fenced
        ]

    def leaderless(self) -> list[Seen]:
        return [
            Seen(str(key), self._since(("leaderless", key)), self._replicas(key))
            for key in self._partitions("leaderless")
        ]

    def behind(self) -> list[Seen]:
        """Return the partitions with a replica out of sync. Those without a leader are left out, because `leaderless`
        has them.
        """
        return [
            Seen(str(key), self._since(("behind", key)), self._out_of_sync(key))
            for key in self._partitions("behind")
            if ("leaderless", key) not in self._noted
        ]

    def unowned(self) -> list[Seen]:
        found: dict[int, list[int]] = {}
        longest: dict[int, Since] = {}
        for key in self._noted:
            of, shard = key
            if of == "unowned" and isinstance(shard, Shard):
                found.setdefault(shard.kind, []).append(shard.number)
                since = self._since(key)
                longest[shard.kind] = max(since, longest.get(shard.kind, since))
        return [
            Seen(f"{name} shards {ranges(found[kind])}", longest[kind])
            for kind, name in _SHARDS
            if kind in found
        ]

    def _partitions(self, kind: Kind) -> list[Partition]:
        return sorted(one for of, one in self._noted if of == kind and isinstance(one, Partition))

    def _replicas(self, key: Partition) -> tuple[int, ...]:
        found = self._metadata.image.partition(key)
        return () if found is None else tuple(found.replicas)

    def _out_of_sync(self, key: Partition) -> tuple[int, ...]:
        found = self._metadata.image.partition(key)
        return () if found is None else tuple(one for one in found.replicas if one not in found.isr)

    def _since(self, key: Key) -> Since:
        noted = self._noted[key]
        return Since(max(self._clock.now() - noted.at_ms, 0), not noted.is_exact)

    def _note(self, old: MetadataImage, new: MetadataImage) -> None:
        # Of topics only those that changed: there may be thousands.
        changed = {
            name for name, topic in new.topics.items() if old.topics.get(name) is not topic
        } | (old.topics.keys() - new.topics.keys() if new.topics is not old.topics else set())
        kept = {
            key: noted
            for key, noted in self._noted.items()
            if isinstance(key[1], Partition) and key[1].topic not in changed
        }
        noted = _Noted(self._clock.now(), old.metadata_offset >= 0)
        for key in _wrong(new, changed):
            kept[key] = self._noted.get(key, noted)
        self._noted = kept


def _wrong(image: MetadataImage, topics: set[str]) -> Iterator[Key]:
    """Yield a key for each thing that is wrong in the image: with any node or shard, and with the partitions of these
    topics.
    """
    for node_id, node in image.nodes.items():
        if node.fenced:
            yield "fenced", node_id
    for shard_key, shard in image.shards.items():
        if shard.coordinator < 0:
            yield "unowned", Shard(*shard_key)
    for name in topics:
        topic = image.topics.get(name)
        for one in () if topic is None else topic.partitions:
            if one.leader < 0:
                yield "leaderless", Partition(name, one.partition)
            if len(one.isr) < len(one.replicas):
                yield "behind", Partition(name, one.partition)
