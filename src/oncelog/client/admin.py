"""An administrator on asyncio: it creates, describes and changes topics, configs, groups, users, ACLs and transactions.

    async with Admin("localhost:9092") as admin:
        await admin.create_topic(NewTopic("payments", partitions=3))
        print(await admin.describe_topics(["payments"]))

A call for many items returns `Results`: to read the result of an item that failed raises its error, and `check()`
raises the first one. A call for one thing raises its error.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Self

from oncelog.client import network
from oncelog.client.core.log_places import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from oncelog.client.core.setting_names import settings_of
from oncelog.client.errors import IllegalStateError
from oncelog.client.network.admin_calls import AdminCalls
from oncelog.client.network.brokers import Brokers
from oncelog.client.reaching import split_settings
from oncelog.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    # Not imported when it runs: what a call needs, it imports, and a command makes one call.
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Unpack

    from oncelog.client.core.admin_results import (
        ClusterDescription,
        ConfigEntry,
        ConfigResource,
        FeatureDescription,
        FencedProducer,
        GroupDescription,
        GroupListing,
        NewTopic,
        ProducerDescription,
        Results,
        TopicCreated,
        TopicDescription,
        TransactionDescription,
        TransactionListing,
    )
    from oncelog.client.core.scram_users import Alteration, ScramCredentialInfo
    from oncelog.client.core.transaction_calls import OffsetToCommit
    from oncelog.client.network.log_offsets import OffsetAtTime
    from oncelog.client.options import AdminOptions
    from oncelog.ids import Partition
    from oncelog.security.acl import Acl, AclFilter

EARLIEST, LATEST = EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
"""Times for `list_offsets`: EARLIEST asks for the start of a log, LATEST for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    default_api_timeout_ms: int = 60_000
    """Milliseconds that one call may take, its retries included."""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


ADMIN_NAMES: Final = tuple(one.name for one in fields(AdminSettings))


class Admin:
    """An asynchronous administrator of a cluster. Use it with `async with`, or call `start` and `close`.

    It belongs to one event loop. `config` takes Kafka's names, and a login; keywords are the same names with
    underscores. Raises ConfigError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        config: Mapping[str, object] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        given, self._network = split_settings(bootstrap_servers, config, options, ADMIN_NAMES)
        self.settings = settings_of(AdminSettings, given)
        self._calls: AdminCalls | None = None

    async def start(self) -> Self:
        """Reach the cluster within 30 s; otherwise raise the reason why it cannot be reached."""
        if self._calls is None:
            brokers = Brokers(self._network)
            try:
                await brokers.reach(self.settings.default_api_timeout_ms)
            except BaseException:
                await brokers.close()
                raise
            self._calls = AdminCalls(brokers, self.settings.default_api_timeout_ms)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            await calls.brokers.close()

    def _started(self) -> AdminCalls:
        if self._calls is None:
            raise IllegalStateError(
                "the admin is closed, or was not started: use `async with Admin(…)`"
            )
        return self._calls

    # ---------------------------------------------------------------------------------------------- topics

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[str, TopicCreated]:
        return await network.admin_topics.create_topics(
            self._started(), topics, validate_only=validate_only
        )

    async def create_topic(self, topic: NewTopic) -> TopicCreated:
        """Create a topic, and return when brokers know the topic: then it can be written and read."""
        created = (await self.create_topics([topic]))[topic.name]
        calls = self._started()

        async def attempt() -> None:
            found = await network.admin_topics.describe_topics(calls, [topic.name])
            if topic.name in found.errors:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name)

        await calls.retrying(attempt, f"metadata of {topic.name!r}")
        return created

    async def delete_topics(self, names: Iterable[str]) -> Results[str, None]:
        return await network.admin_topics.delete_topics(self._started(), names)

    async def delete_topic(self, name: str) -> None:
        (await self.delete_topics([name])).check()

    async def list_topics(self, *, with_internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted. `with_internal` adds the topics of the coordinators."""
        found = await network.admin_topics.describe_topics(self._started(), None)
        return sorted(
            name
            for name in found
            if name in found.errors or with_internal or not found[name].is_internal
        )

    async def describe_topics(
        self, names: Iterable[str] | None = None
    ) -> Results[str, TopicDescription]:
        """Return the description (partitions, leaders, replicas) of each topic; without names, of all topics that the
        user may see."""
        return await network.admin_topics.describe_topics(self._started(), names)

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> Results[str, None]:
        """Give topics more partitions: `counts` maps each topic to its new total. `validate_only` changes nothing."""
        return await network.admin_topics.create_partitions(
            self._started(), counts, validate_only=validate_only
        )

    # ---------------------------------------------------------------------------------------------- configs, records

    async def describe_configs(self, kind: ConfigResource, name: str) -> dict[str, ConfigEntry]:
        """Return the configs of a topic, a group or a broker, by name of the config.

        `name` is the topic, the group, or the broker's id as text; empty means what holds for all brokers.
        """
        return await network.admin_topics.describe_configs(self._started(), kind, name)

    async def alter_configs(
        self,
        kind: ConfigResource,
        name: str,
        values: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change these configs of one resource and no others; the value None sets a config back to its default. `kind`
        and `name` are as in `describe_configs`."""
        await network.admin_topics.alter_configs(
            self._started(), kind, name, values, validate_only=validate_only
        )

    async def delete_records(self, before: Mapping[Partition, int]) -> Results[Partition, int]:
        """Delete the records below an offset of each partition; -1 deletes all. Return each log's new first offset."""
        return await network.admin_topics.delete_records(self._started(), before)

    async def list_offsets(
        self, times_ms: Mapping[Partition, int], *, read_committed: bool = False
    ) -> dict[Partition, OffsetAtTime | None]:
        """Return each partition's offset for EARLIEST, LATEST or a time in ms; None if no record is that new."""
        calls = self._started()
        isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        return await network.log_offsets.offsets_at(
            calls.brokers, isolation, times_ms, calls.timeout_ms
        )

    # ---------------------------------------------------------------------------------------------- groups

    async def list_groups(
        self, states: Iterable[str] = (), kinds: Iterable[str] = ()
    ) -> list[GroupListing]:
        """List the groups by name; with `states` or `kinds`, only the groups that have one of these."""
        return await network.admin_groups.list_groups(self._started(), states, kinds)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Describe one group, of KIP-848 or of the classic protocol. Raises RefusedError(GROUP_ID_NOT_FOUND)."""
        return await network.admin_groups.describe_group(self._started(), group_id)

    async def delete_groups(self, names: Iterable[str]) -> Results[str, None]:
        """Delete these groups and their offsets. The broker refuses a group that has members."""
        return await network.admin_groups.delete_groups(self._started(), names)

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[Partition, OffsetToCommit]:
        """Return the offsets that the group has committed; without `partitions`, all of them."""
        return await network.admin_groups.list_offsets(
            self._started(), group_id, partitions, stable=require_stable
        )

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[Partition, int | OffsetToCommit]
    ) -> Results[Partition, None]:
        """Set the committed offsets of a group that has no members."""
        return await network.admin_groups.alter_offsets(self._started(), group_id, offsets)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[Partition]
    ) -> Results[Partition, None]:
        """Delete the committed offsets of these partitions. No member of the group may read their topics."""
        return await network.admin_groups.delete_offsets(self._started(), group_id, partitions)

    # ---------------------------------------------------------------------------------------------- transactions

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """List the transactions of all coordinators, sorted by transactional id. The filters leave only those in one of
        `states`, of `producer_ids`, open for more than `longer_than_ms`, and whose ids match `pattern` (RE2)."""
        return await network.admin_transactions.list_transactions(
            self._started(), states, producer_ids, longer_than_ms, pattern
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, TransactionDescription]:
        return await network.admin_transactions.describe_transactions(
            self._started(), transactional_ids
        )

    async def describe_producers(
        self, partitions: Iterable[Partition]
    ) -> Results[Partition, tuple[ProducerDescription, ...]]:
        """Return the producers that wrote to each partition, with the first offset of the transaction that each has
        open."""
        return await network.admin_transactions.describe_producers(self._started(), partitions)

    async def abort_transaction(self, partition: Partition, producer: ProducerDescription) -> None:
        """End a hanging transaction: one that is open in the partition, and that no coordinator knows.

        Pass `producer` as `describe_producers` shows it. If a coordinator knows the transaction, call
        `force_terminate_transaction` instead: this call would end it in the one partition alone.
        """
        if producer.open_since_offset < 0:
            raise IllegalStateError(
                f"producer {producer.producer_id} has no open transaction in {partition}: there is nothing to abort"
            )
        await network.admin_transactions.abort_transaction(
            self._started(),
            partition,
            producer.producer_id,
            producer.producer_epoch,
            max(0, producer.coordinator_epoch),
        )

    async def force_terminate_transaction(self, transactional_id: str) -> FencedProducer:
        """Abort the open transaction of this transactional id, and fence its producer."""
        return (await self.fence_producers([transactional_id]))[transactional_id]

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, FencedProducer]:
        """Fence the producers of these transactional ids, and abort their open transactions. Return the new producer id
        and epoch of each."""
        return await network.admin_transactions.fence_producers(self._started(), transactional_ids)

    # ---------------------------------------------------------------------------------------------- users and ACLs

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return, for each user, the mechanisms with which the user can log in; without `users`, those of all users."""
        return await network.admin_users.describe_users(self._started(), users)

    async def alter_user_scram_credentials(
        self, alterations: Iterable[Alteration]
    ) -> Results[Alteration, None]:
        """Set and delete SCRAM credentials, in the given order.

        Several alterations of one user become several requests, so a crash may leave only some of them done.
        """
        return await network.admin_users.alter_users(self._started(), alterations)

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Return the ACLs that the filter matches; without a filter, all ACLs."""
        return await network.admin_cluster.describe_acls(self._started(), wanted)

    async def create_acls(self, acls: Iterable[Acl]) -> Results[Acl, None]:
        return await network.admin_cluster.create_acls(self._started(), acls)

    async def delete_acls(
        self, filters: Iterable[AclFilter]
    ) -> Results[AclFilter, tuple[Acl, ...]]:
        """Delete the ACLs that the filters match. Return the deleted ACLs of each filter."""
        return await network.admin_cluster.delete_acls(self._started(), filters)

    # ---------------------------------------------------------------------------------------------- the cluster

    async def describe_cluster(self) -> ClusterDescription:
        return await network.admin_cluster.describe_cluster(self._started())

    async def describe_features(self) -> dict[str, FeatureDescription]:
        return await network.admin_cluster.describe_features(self._started())

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allows_data_loss: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Set features of the cluster, such as `transaction.version`, to new levels; level 0 turns a feature off. A
        lower level may lose data, so `allows_data_loss` must allow it."""
        await network.admin_cluster.update_features(
            self._started(), levels, allows_data_loss=allows_data_loss, validate_only=validate_only
        )
