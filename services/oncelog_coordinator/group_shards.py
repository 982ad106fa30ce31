"""The group shards of this node, found by group id. Each is a group machine, with its log in one partition of
`__consumer_offsets`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.group_config import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from oncelog.ids import (
    CONSUMER_OFFSETS_TOPIC,
    CoordinatorEpoch,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
)
from oncelog.record.batch import BatchHeader
from oncelog.record.control import Marker, MarkerType, decode_marker, marker_record
from oncelog.record.records import Record
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import GROUP, MetadataFollower, MetadataImage
from oncelog.runtime import Clock, Driver, DriverStopped
from oncelog_coordinator.core.consumer_group import Topics, TopicShape
from oncelog_coordinator.core.group_events import (
    GroupConfig,
    GroupEvent,
    MigrationPolicy,
    TopicsDeleted,
)
from oncelog_coordinator.core.group_machine import GroupMachine
from oncelog_coordinator.core.group_records import (
    GroupRecord,
    OffsetCommitted,
    TransactionEnded,
    decode_group_record,
    encode_group_record,
)
from oncelog_coordinator.producer_ids import ProducerIds
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_format import Run
from oncelog_coordinator.shard_log import ShardLog
from oncelog_coordinator.shard_terms import (
    Answer,
    LoadedShard,
    ShardTerm,
    ShardTerms,
    ShardUnavailable,
)
from oncelog_coordinator.shards import RECORD_BYTES_SHARE


class GroupRecords:
    """Turns a group machine's records into batches of `__consumer_offsets`, and back.

    Offsets of a transaction are written in batches of its producer, and a marker ends it. So any reader of the
    partition sees it as a transaction.
    """

    def encode(self, records: Sequence[GroupRecord], now: int) -> Iterable[Run]:
        runs: list[Run] = []
        for record in records:
            if isinstance(record, TransactionEnded):
                runs.append(_marker(record))
                continue
            producer = None
            if isinstance(record, OffsetCommitted) and record.producer_id >= 0:
                producer = (int(record.producer_id), int(record.producer_epoch))
            if not runs or runs[-1].is_control or runs[-1].producer != producer:
                runs.append(Run([], producer))
            runs[-1].records.append(Record(*encode_group_record(record), now))
        return runs

    def decode(self, header: BatchHeader, key: bytes, value: bytes | None) -> GroupRecord | None:
        if not header.is_transactional:
            return decode_group_record(key, value)
        return decode_group_record(
            key, value, ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch)
        )

    def decode_control(self, header: BatchHeader, data: bytes, at: int) -> GroupRecord | None:
        marker = decode_marker(data, at)
        if marker is None:
            return None
        return TransactionEnded(
            ProducerId(header.producer_id),
            ProducerEpoch(header.producer_epoch),
            marker.is_commit,
            CoordinatorEpoch(marker.coordinator_epoch),
            Millis(header.max_timestamp),
        )


def _marker(record: TransactionEnded) -> Run:
    marker_type = MarkerType.COMMIT if record.is_commit else MarkerType.ABORT
    marker = Marker(marker_type, record.coordinator_epoch)
    producer = (int(record.producer_id), int(record.producer_epoch))
    return Run([marker_record(marker, record.timestamp)], producer, is_control=True)


class GroupShards(ShardTerms[ShardTerm]):
    """The group shards (partitions of `__consumer_offsets`) that this node coordinates.

    Call `start` in a running loop; `ask` sends an event to a group's shard.
    """

    def __init__(
        self,
        node_id: int,
        metadata: MetadataFollower,
        directory: Directory,
        producer_ids: ProducerIds,
        clock: Clock,
        settings: CoordinatorSettings,
    ) -> None:
        super().__init__(GROUP, node_id, metadata, settings)
        self._directory = directory
        self._producer_ids = producer_ids
        self._clock = clock
        self._shapes: tuple[object, Topics] = (None, {})
        self._topics_version = 0

    # ------------------------------------------------------------------------------------------------ calls

    async def ask(self, group_id: str, event: Callable[[int], GroupEvent]) -> Answer:
        """Send the group's state machine the event that `event(request id)` makes; return its answer once its records
        are committed.

        Raises ShardUnavailable or DriverStopped.
        """
        return await self._ask(self._term_for(group_id), event)

    async def ask_shard(self, shard: int, event: Callable[[int], GroupEvent]) -> Answer:
        """Send the event that `event(request id)` makes to the state machine of the shard with this number; return the
        answer once its records are committed. `ask` does this for a group by its name.

        Raises KeyError if the shard is not coordinated here.
        """
        return await self._ask(self._terms[shard], event)

    def is_outdated(
        self,
        request: pb.OffsetCommitRequest
        | pb.TxnOffsetCommitRequest
        | pb.ConsumerGroupHeartbeatRequest,
    ) -> bool:
        """True if the listener sent the request to an earlier coordinator of the group's shard, perhaps this process.

        Another node may have owned the shard since, and the client may have sent later requests to it.
        """
        term = self.term_of(request.group_id)
        origin = request.origin
        if term is None or not origin.HasField("coordinator_epoch"):
            return False
        return origin.coordinator_epoch < term.coordinator_epoch

    def loaded(self, shard: int) -> LoadedShard | None:
        """Return the shard with its running state machine; None while it loads. Raises KeyError if it is not
        coordinated here.
        """
        return self._terms[shard].loaded

    async def _ask(self, term: ShardTerm, event: Callable[[int], GroupEvent]) -> Answer:
        driver = term.driver
        if driver is None:
            raise ShardUnavailable(term.unavailable)
        request_id = driver.request_id()
        return await driver.ask(event(request_id), request_id)

    def machine(self, group_id: str) -> tuple[Partition, GroupMachine]:
        """Return the partition that keeps the group's offsets, and the state machine of that shard. Raises
        ShardUnavailable.
        """
        term = self._term_for(group_id)
        if term.driver is None:
            raise ShardUnavailable(term.unavailable)
        machine = term.driver.machine
        assert isinstance(machine, GroupMachine), machine
        return Partition(CONSUMER_OFFSETS_TOPIC, term.shard), machine

    # ------------------------------------------------------------------------------------------------ topics

    @property
    def speaks_consumer_protocol(self) -> bool:
        """True if the cluster's `group.version` allows the consumer protocol."""
        return self._metadata.image.feature_levels.get("group.version", 0) >= 1

    @property
    def shapes(self) -> Topics:
        """The id and partition count of each topic, for assignments. They are computed once for each version of the
        topics."""
        topics = self._metadata.image.topics
        if self._shapes[0] is not topics:
            found = {
                name: TopicShape(topic.topic_id, len(topic.partitions))
                for name, topic in topics.items()
            }
            if found.keys() != self._shapes[1].keys():
                self._topics_version = self._metadata.image.metadata_offset
            self._shapes = (topics, found)
        return self._shapes[1]

    @property
    def topics_version(self) -> int:
        """The metadata offset at which this node last saw a topic come or go."""
        _ = self.shapes
        return self._topics_version

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def _on_metadata(self, old: MetadataImage, new: MetadataImage) -> None:
        super()._on_metadata(old, new)
        if old.topics is not new.topics:
            gone = {
                name: topic.topic_id
                for name, topic in old.topics.items()
                if name not in new.topics or new.topics[name].topic_id != topic.topic_id
            }
            if gone:
                self._forget_topics(gone)

    def _forget_topics(self, topics: Mapping[str, bytes]) -> None:
        for term in self._terms.values():
            if term.driver is not None and not self._is_empty(term.driver):
                try:
                    term.driver.submit(TopicsDeleted(topics))
                except DriverStopped:
                    # A topic that goes while a shard loads is not noticed. Its offsets stay until they expire. They do
                    # not count for a namesake where they say which topic they are of.
                    continue

    # ------------------------------------------------------------------------------------------------ terms

    def _new_term(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> ShardTerm:
        return ShardTerm(shard, coordinator_epoch)

    def _is_empty(self, driver: Driver) -> bool:
        assert isinstance(driver.machine, GroupMachine), driver.machine
        return driver.machine.is_empty

    def _new_loaded_shard(self, term: ShardTerm) -> LoadedShard:
        config = self._machine_config()
        journal: ShardLog[GroupRecord] = ShardLog(
            Partition(CONSUMER_OFFSETS_TOPIC, term.shard),
            GroupRecords(),
            term.coordinator_epoch,
            self._metadata,
            self._directory,
            self._producer_ids.claim_when_ready,
            self._clock,
            self._settings,
            self._settings.group_load_buffer_bytes,
        )
        driver = Driver(
            f"group shard {term.shard}",
            GroupMachine(
                config,
                lambda group_id: self._config_of_group(config, group_id),
                lambda: self.shapes,
            ),
            journal,
            self._clock,
            send=_sends_nothing,
            on_failure=lambda failure: self._on_failure(term, failure),
            on_label=self._count,
            append_at_once=journal.append_at_once,
        )
        return LoadedShard(driver)

    def _config_of_group(self, config: GroupConfig, group_id: str) -> GroupConfig:
        """Return the configuration with the values that were set for this group.

        A change takes effect with its members' next heartbeats.
        """
        found = self._metadata.image.group_configs(group_id)
        if not found:
            return config
        return replace(
            config,
            consumer_session_timeout_ms=int(
                found.get(SESSION_TIMEOUT, config.consumer_session_timeout_ms)
            ),
            consumer_heartbeat_interval_ms=int(
                found.get(HEARTBEAT_INTERVAL, config.consumer_heartbeat_interval_ms)
            ),
        )

    def _machine_config(self) -> GroupConfig:
        settings = self._settings
        topic = self._metadata.image.topic_config(CONSUMER_OFFSETS_TOPIC)
        return GroupConfig(
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            group_members_max=settings.group_members_max,
            offset_metadata_bytes_max=settings.offset_metadata_bytes_max,
            offsets_retention_ms=Millis(settings.offsets_retention_ms),
            clean_up_interval_ms=Millis(settings.offsets_clean_up_interval_ms),
            record_bytes_max=int(topic.max_message_bytes * RECORD_BYTES_SHARE),
            consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            migration_policy=MigrationPolicy(settings.group_consumer_migration_policy),
        )


def _sends_nothing(effect: object) -> None:
    raise AssertionError(f"a group has nobody to send to: {effect}")
