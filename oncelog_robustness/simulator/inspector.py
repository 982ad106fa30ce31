"""The inspector of a simulated cluster: it sees replicas and shards at every step, and replicas' logs at the end.
A shard is a partition of `__transaction_state` or `__consumer_offsets`, owned by one coordinator.

It reads attributes and files, and changes nothing. It hooks into production code where something may have changed
(`seams.replace`), and looks at the replica when the step is over, in the same instant. An invariant that must hold at
every moment is judged there and then, and raises, so that a replay stops where it broke. All other states are kept for
the checkers. Of a time in which a replica only grew, the first and the last state are kept. So is every rise of its
last stable offset: only the logs at the end tell whether it rose too early.

    inspector = Inspector(world, cluster)      before the cluster starts
    inspector.start()
    ...
    await inspector.finish()                   healed, and settled as far as it will
    judge(history, inspector.observations)
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Partition
from oncelog.rpc.metadata import MetadataImage
from oncelog_controller.servicer import ControllerServicer
from oncelog_controller.sql_journal import SqlJournal
from oncelog_coordinator.group_shards import GroupShards
from oncelog_coordinator.shard_terms import ShardTerm, ShardTerms
from oncelog_robustness.checkers.cluster_committed import Committed
from oncelog_robustness.checkers.cluster_leaders import Leaders
from oncelog_robustness.checkers.cluster_offsets_order import disorder
from oncelog_robustness.checkers.cluster_shard_owners import Owners
from oncelog_robustness.log_files import LiveReplica, read_all_states, read_logs
from oncelog_robustness.observations import (
    MetadataWritten,
    Observations,
    ProducerIdsGiven,
    ReplicaLog,
    ReplicaState,
    ShardOwned,
    Synced,
)
from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.process import ProcessState, SimProcess, owner
from oncelog_robustness.simulator.settled import Inspected, newest_image, node_id_of, unsettled
from oncelog_robustness.simulator.world import World
from oncelog_storage.core.checkpoint_files import encode_topic_id
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log_directory import LogDirectory
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.wiring import StorageRole

SWEEP_S: Final = 0.5
"""Seconds between two looks at every replica, whether or not it reported a change."""


class InvariantBroken(AssertionError):
    """An invariant that must hold at every step is broken; the observations show it as well."""


@dataclass(slots=True)
class _Replica:
    """One replica in one process as the inspector last saw it."""

    hosted: HostedPartition
    facts: tuple[object, ...]
    """The facts about the replica that may change, such as its role, epoch and offsets. The next look compares them."""
    emptied_before: int
    """The number of times that the replica was dropped and made again in this process."""
    state: ReplicaState
    index: int = -1
    """The index of `state` in the observations."""
    grew: bool = False
    """True if only offsets grew since the state before, so that a later state may replace this one."""


class Inspector:
    def __init__(self, world: World, cluster: Inspected) -> None:
        self.observations = Observations()
        self.sample_count = 0
        """The number of states that were judged; most of them are not kept."""
        self._world = world
        self._cluster = cluster
        self._replicas: dict[tuple[str, int, str, int], _Replica] = {}
        self._touched: dict[HostedPartition, SimProcess] = {}
        self._leaders = Leaders()
        self._owners = Owners()
        self._committed = Committed()
        self._synced: dict[tuple[int, str, int], tuple[str, int]] = {}
        """The topic's id, and the offset below which the replica is both synced and committed, by node id, topic and
        partition number."""
        self._newest_epochs: dict[tuple[str, int], int] = {}
        """The last leader epoch that any replica was seen in, by topic id and partition number."""
        self._listen()

    def start(self) -> None:
        """Look at every replica now and then (each half second of virtual time), from now on."""
        self._world.loop.call_later(SWEEP_S, self._sweep_on, context=self._world.own_context)

    # -------------------------------------------------------------------------------------------- listening

    def _listen(self) -> None:
        for name in ("_grown", "local_end_moved", "truncated", "high_watermark_moved"):
            self._replace(HostedPartition, name, self._after_change)
        self._replace(HostedPartition, "follow_high_watermark", self._after_change)
        self._replace(ReplicaManager, "_set_leadership", self._after_leadership)
        self._replace(ShardTerms, "_load", self._around_load)
        self._replace(ControllerServicer, "AllocateProducerIds", self._around_allocation)
        self._replace(SqlJournal, "append", self._around_append)
        self._replace(LogDirectory, "open", self._before_open)

    @staticmethod
    def _replace(target: type, name: str, wrapper: Callable[..., Any]) -> None:
        """Replace a method of production code by one that calls `wrapper(original, ...)`."""
        original = getattr(target, name)

        def wrapped(self: Any, *args: Any, **named: Any) -> Any:
            return wrapper(original, self, *args, **named)

        async def wrapped_call(self: Any, *args: Any, **named: Any) -> Any:
            return await wrapper(original, self, *args, **named)

        is_call = inspect.iscoroutinefunction(original)
        seams.replace(target, name, wrapped_call if is_call else wrapped)

    def _after_change(
        self, original: Callable[..., Any], hosted: HostedPartition, *args: Any, **named: Any
    ) -> None:
        original(hosted, *args, **named)
        self._touch(hosted)

    def _after_leadership(
        self,
        original: Callable[..., Any],
        replica_manager: ReplicaManager,
        hosted: HostedPartition,
        image: Any,
    ) -> None:
        original(replica_manager, hosted, image)
        self._touch(hosted)

    async def _around_load(
        self, original: Callable[..., Any], terms: ShardTerms[Any], term: ShardTerm
    ) -> None:
        await original(terms, term)
        process = owner()
        if term.loaded is None or process is None:
            return
        topic = (
            CONSUMER_OFFSETS_TOPIC if isinstance(terms, GroupShards) else TRANSACTION_STATE_TOPIC
        )
        owned = ShardOwned(
            at_ms=self._now_ms(),
            node_id=self._node_id(process),
            node_incarnation=process.incarnation,
            topic=topic,
            shard=term.shard,
            coordinator_epoch=term.coordinator_epoch,
        )
        self.observations.shards.append(owned)
        self._insist(self._owners.rival(owned))

    async def _around_allocation(
        self, original: Callable[..., Any], servicer: Any, request: Any, context: Any
    ) -> Any:
        answer = await original(servicer, request, context)
        process = owner()
        if process is not None and answer.first_producer_id >= 0:
            self.observations.blocks.append(
                ProducerIdsGiven(
                    at_ms=self._now_ms(),
                    controller_id=self._node_id(process),
                    first_producer_id=answer.first_producer_id,
                    count=answer.producer_id_count,
                )
            )
        return answer

    async def _around_append(
        self, original: Callable[..., Any], journal: SqlJournal[Any], records: Sequence[Any]
    ) -> Any:
        first_offset = await original(journal, records)
        process = owner()
        if process is not None and journal._controller_epoch is not None:
            self.observations.metadata.append(
                MetadataWritten(
                    at_ms=self._now_ms(),
                    controller_id=self._node_id(process),
                    controller_epoch=journal._controller_epoch,
                    first_offset=first_offset,
                    count=len(records),
                )
            )
        return first_offset

    def _before_open(
        self, original: Callable[..., Any], directory: LogDirectory, *args: Any
    ) -> None:
        """Record what a storage node's disk has kept, and what it must have kept, when the node starts. After
        that open its logs, by which they are recovered or copied again."""
        process = owner()
        if process is not None:
            self._world.own_context.copy().run(self._hold_to_promises, process, directory)
        original(directory, *args)

    # ---------------------------------------------------------------------------------------------- replicas

    def _touch(self, hosted: HostedPartition) -> None:
        process = owner()
        if process is None:
            return
        if not self._touched:
            self._world.loop.call_soon(self._look_at_touched, context=self._world.own_context)
        self._touched[hosted] = process

    def _look_at_touched(self) -> None:
        touched, self._touched = self._touched, {}
        for hosted, process in touched.items():
            self._look(process, hosted)

    def _sweep_on(self) -> None:
        self._sweep()
        self.start()

    def _sweep(self) -> None:
        for process, role in self._cluster.running("storage"):
            for hosted in role.replicas():
                self._look(process, hosted)

    def _look(self, process: SimProcess, hosted: HostedPartition) -> None:
        # A process that was killed in the middle of a step is no state that anybody will ever see.
        if process.state is ProcessState.DEAD or hosted.offline is not None:
            return
        log, leadership = hosted.log, hosted.leadership
        if leadership.leader_epoch < 0:
            return
        facts = (
            leadership.is_here,
            leadership.leader_epoch,
            log.log_start_offset,
            hosted.high_watermark,
            hosted.last_stable_offset if leadership.is_here else None,
            log.log_end_offset,
            log.start_over_count,
        )
        key = (process.name, process.incarnation, *log.partition)
        known = self._replicas.get(key)
        emptied_before = 0
        if known is not None and known.hosted is hosted:
            if known.facts == facts:
                return
            emptied_before = known.emptied_before
        elif known is not None:
            emptied_before = known.state.start_over_count + 1
        state = ReplicaState(
            at_ms=self._now_ms(),
            node_id=self._node_id(process),
            node_incarnation=process.incarnation,
            topic=log.partition.topic,
            partition=log.partition.partition,
            is_leader=facts[0],
            leader_epoch=facts[1],
            start_offset=facts[2],
            high_watermark=facts[3],
            last_stable_offset=facts[4],
            end_offset=facts[5],
            topic_id=_text_of(log.topic_id),
            start_over_count=emptied_before + log.start_over_count,
        )
        self._promise(process, hosted, known, state)
        self._keep(key, known, _Replica(hosted, facts, emptied_before, state))
        self._judge(self._replicas[key], known)

    def _keep(
        self, key: tuple[str, int, str, int], known: _Replica | None, found: _Replica
    ) -> None:
        kept = self.observations.replicas
        found.grew = (
            known is not None
            and _only_grew(known.state, found.state)
            and not _is_more_stable(known.state, found.state)
        )
        if known is not None and found.grew and known.grew:
            kept[known.index] = found.state
            found.index = known.index
        else:
            found.index = len(kept)
            kept.append(found.state)
        self._replicas[key] = found

    def _judge(self, found: _Replica, known: _Replica | None) -> None:
        self.sample_count += 1
        state = found.state
        self._committed.add(state)
        sentence = disorder(state) or self._leaders.rival(state)
        if sentence is None and (known is None or not _only_grew(known.state, state)):
            sentence = self._committed.lacking(state)
        if sentence is not None:
            # It stays in the observations: the checkers must see it, too.
            found.grew = False
        self._insist(sentence)

    def _insist(self, sentence: str | None) -> None:
        if sentence is not None:
            self._world.trace("invariant-broken", sentence)
            # The world raises this, so that the inspected process cannot catch it.
            self._world.loop.call_soon(_raise, sentence, context=self._world.own_context)

    # ------------------------------------------------------------------------------------------ synced promises

    def _promise(
        self,
        process: SimProcess,
        hosted: HostedPartition,
        known: _Replica | None,
        state: ReplicaState,
    ) -> None:
        if not hosted._flushes_always:
            return
        is_anew = known is None or known.state.start_over_count != state.start_over_count
        if is_anew:
            self._synced.pop((state.node_id, state.topic, state.partition), None)
        self._promised(state.node_id, state, min(hosted.local_end, hosted.high_watermark))
        partition = (state.topic_id, state.partition)
        newest = max(self._newest_epochs.get(partition, 0), state.leader_epoch)
        self._newest_epochs[partition] = newest
        if hosted.replicas is None or state.leader_epoch < newest:
            # A leader that was replaced without knowing it does not know which replicas were moved since.
            return
        # What the leader calls committed is on every in-sync replica, and each syncs before it tells its position.
        for node_id in hosted.replicas.isr:
            if node_id != state.node_id:
                self._promised(node_id, state, hosted.high_watermark)

    def _promised(self, node_id: int, state: ReplicaState, end_offset: int) -> None:
        key = (node_id, state.topic, state.partition)
        topic_id, before = self._synced.get(key, ("", 0))
        is_same = topic_id == state.topic_id
        self._synced[key] = (state.topic_id, max(before, end_offset) if is_same else end_offset)

    def _hold_to_promises(self, process: SimProcess, directory: LogDirectory) -> None:
        promised = {
            (topic, partition): promise
            for (node_id, topic, partition), promise in self._synced.items()
            if node_id == self._node_id(process)
        }
        if not promised or not directory.path.is_dir():
            return
        for log in read_logs(directory.path, self._node_id(process), self._now_ms()):
            topic_id, end_offset = promised.get((log.topic, log.partition), ("", 0))
            if end_offset and topic_id == log.topic_id:
                self._remember_promise(log, end_offset)
                # No more is of interest, and a run may have many restarts.
                self.observations.logs.append(log.end_alone())

    def _remember_promise(self, log: ReplicaLog, end_offset: int) -> None:
        self.observations.synced.append(
            Synced(
                at_ms=self._now_ms(),
                node_id=log.node_id,
                topic=log.topic,
                partition=log.partition,
                end_offset=end_offset,
            )
        )

    # --------------------------------------------------------------------------------------------------- the end

    def unsettled(self) -> str | None:
        """Return in a few words what has not settled yet: an open transaction, a missing process, a replica
        that is behind. None: everything has settled."""
        return unsettled(self._cluster)

    async def finish(self) -> None:
        """Look at every replica for the last time, and add the logs of all replicas to the observations. A
        transaction that is still open by now is stuck."""
        # What is under way in this instant comes first.
        await asyncio.sleep(0)
        self._sweep()
        observations = self.observations
        observations.is_healed = True
        replicas = []
        storage: list[tuple[SimProcess, StorageRole]] = self._cluster.running("storage")
        image = newest_image([role for _, role in storage])
        for process, role in storage:
            data_dir = role.log_directory.path
            live = {
                hosted.partition: _live(hosted, role.log_directory) for hosted in role.replicas()
            }
            topic_ids = {
                tuple(hosted.partition): _text_of(hosted.log.topic_id) for hosted in role.replicas()
            }
            for found in read_logs(data_dir, self._node_id(process), self._now_ms(), live):
                partition = Partition(found.topic, found.partition)
                if partition not in live or _was_moved(image, partition, found.node_id):
                    continue
                # A power cut can take the file that says which topic it is.
                log = replace(found, topic_id=topic_ids[found.topic, found.partition])
                replicas.append((data_dir, log))
                promise = self._synced.get((log.node_id, log.topic, log.partition))
                if promise is not None and promise[0] == log.topic_id:
                    self._remember_promise(log, promise[1])
        observations.logs += [log for _, log in replicas]
        observations.states += read_all_states(replicas)

    def _now_ms(self) -> int:
        return int(self._world.loop.time() * 1000)

    def _node_id(self, process: SimProcess) -> int:
        return node_id_of(self._cluster, process)


def _was_moved(image: MetadataImage, partition: Partition, node_id: int) -> bool:
    """True if this node is no replica of the partition any more, so that its copy waits for removal."""
    found = image.partition(partition)
    return found is not None and node_id not in found.replicas


def _raise(sentence: str) -> None:
    raise InvariantBroken(sentence)


def _only_grew(before: ReplicaState, state: ReplicaState) -> bool:
    return (
        before.is_leader is state.is_leader
        and before.leader_epoch == state.leader_epoch
        and before.start_over_count == state.start_over_count
        and before.high_watermark <= state.high_watermark
        and before.end_offset <= state.end_offset
    )


def _is_more_stable(before: ReplicaState, state: ReplicaState) -> bool:
    """True if the leader's last stable offset (LSO) rose. Its high watermark of this moment is the lowest
    with this LSO, so this state tells whether the LSO rose too early."""
    return (state.last_stable_offset or 0) > (before.last_stable_offset or 0)


def _live(hosted: HostedPartition, directory: LogDirectory) -> LiveReplica:
    is_cleaned = hosted.partition in directory.cleaner_offsets
    return LiveReplica(hosted.log.log_start_offset, hosted.high_watermark, is_cleaned)


@lru_cache(maxsize=1024)
def _text_of(topic_id: bytes) -> str:
    return encode_topic_id(topic_id)
