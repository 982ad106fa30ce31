"""An administrator for threads. Many threads may share one."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Unpack

from oncelog.client import admin
from oncelog.client.admin import AdminSettings
from oncelog.client.blocking.shell import Shell, waits
from oncelog.client.options import AdminOptions

_Inner: Final = admin.Admin


class Admin(Shell[admin.Admin]):
    """A blocking administrator. Use it with `with`, or call `start` and `close`.
    It has the calls of `oncelog.client.Admin`."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        config: Mapping[str, object] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        super().__init__(_Inner(bootstrap_servers, config, **options), "admin")

    @property
    def settings(self) -> AdminSettings:
        return self._inner.settings

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._end(self._inner.close)

    create_topics = waits(_Inner.create_topics)
    create_topic = waits(_Inner.create_topic)
    delete_topics = waits(_Inner.delete_topics)
    delete_topic = waits(_Inner.delete_topic)
    list_topics = waits(_Inner.list_topics)
    describe_topics = waits(_Inner.describe_topics)
    create_partitions = waits(_Inner.create_partitions)
    describe_configs = waits(_Inner.describe_configs)
    alter_configs = waits(_Inner.alter_configs)
    delete_records = waits(_Inner.delete_records)
    list_offsets = waits(_Inner.list_offsets)
    list_groups = waits(_Inner.list_groups)
    describe_group = waits(_Inner.describe_group)
    delete_groups = waits(_Inner.delete_groups)
    list_group_offsets = waits(_Inner.list_group_offsets)
    alter_group_offsets = waits(_Inner.alter_group_offsets)
    delete_group_offsets = waits(_Inner.delete_group_offsets)
    list_transactions = waits(_Inner.list_transactions)
    describe_transactions = waits(_Inner.describe_transactions)
    describe_producers = waits(_Inner.describe_producers)
    abort_transaction = waits(_Inner.abort_transaction)
    force_terminate_transaction = waits(_Inner.force_terminate_transaction)
    fence_producers = waits(_Inner.fence_producers)
    describe_user_scram_credentials = waits(_Inner.describe_user_scram_credentials)
    alter_user_scram_credentials = waits(_Inner.alter_user_scram_credentials)
    describe_acls = waits(_Inner.describe_acls)
    create_acls = waits(_Inner.create_acls)
    delete_acls = waits(_Inner.delete_acls)
    describe_cluster = waits(_Inner.describe_cluster)
    describe_features = waits(_Inner.describe_features)
    update_features = waits(_Inner.update_features)
