"""The versions of Kafka's APIs that this client speaks. All of them are in Apache Kafka 4.0 and in oncelog.

The client asks a broker in the newest version that both sides know. Produce 12, EndTxn 5 and TxnOffsetCommit 5 belong
to the transaction protocol TV2 (KIP-890). Where the cluster's finalized `transaction.version` is below 2, the client
speaks the versions before them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog.client.errors import UnsupportedError
from oncelog.protocol import versions


class Range(NamedTuple):
    low: int
    high: int


SPOKEN: Final[Mapping[int, Range]] = {
    versions.PRODUCE: Range(9, 13),
    versions.FETCH: Range(12, 17),
    versions.LIST_OFFSETS: Range(6, 10),
    versions.METADATA: Range(12, 13),
    versions.OFFSET_COMMIT: Range(8, 9),
    versions.OFFSET_FETCH: Range(8, 9),
    versions.FIND_COORDINATOR: Range(4, 6),
    versions.SASL_HANDSHAKE: Range(1, 1),
    versions.SASL_AUTHENTICATE: Range(1, 2),
    versions.API_VERSIONS: Range(3, 4),
    versions.CREATE_TOPICS: Range(5, 7),
    versions.DELETE_TOPICS: Range(4, 6),
    versions.DELETE_RECORDS: Range(2, 2),
    versions.INIT_PRODUCER_ID: Range(4, 6),
    versions.OFFSET_FOR_LEADER_EPOCH: Range(4, 4),
    versions.ADD_PARTITIONS_TO_TXN: Range(3, 3),
    versions.ADD_OFFSETS_TO_TXN: Range(3, 4),
    versions.END_TXN: Range(3, 5),
    versions.TXN_OFFSET_COMMIT: Range(3, 5),
    versions.DESCRIBE_ACLS: Range(2, 3),
    versions.CREATE_ACLS: Range(2, 3),
    versions.DELETE_ACLS: Range(2, 3),
    versions.DESCRIBE_CONFIGS: Range(4, 4),
    versions.INCREMENTAL_ALTER_CONFIGS: Range(1, 1),
    versions.CREATE_PARTITIONS: Range(2, 3),
    versions.DESCRIBE_GROUPS: Range(5, 6),
    versions.LIST_GROUPS: Range(4, 5),
    versions.DELETE_GROUPS: Range(2, 2),
    versions.OFFSET_DELETE: Range(0, 0),
    versions.DESCRIBE_USER_SCRAM_CREDENTIALS: Range(0, 0),
    versions.ALTER_USER_SCRAM_CREDENTIALS: Range(0, 0),
    versions.UPDATE_FEATURES: Range(1, 2),
    versions.DESCRIBE_CLUSTER: Range(0, 2),
    versions.WRITE_TXN_MARKERS: Range(1, 2),
    versions.DESCRIBE_PRODUCERS: Range(0, 0),
    versions.DESCRIBE_TRANSACTIONS: Range(0, 0),
    versions.LIST_TRANSACTIONS: Range(0, 2),
    versions.CONSUMER_GROUP_HEARTBEAT: Range(0, 1),
    versions.CONSUMER_GROUP_DESCRIBE: Range(0, 1),
}

TRANSACTION_VERSION: Final = "transaction.version"
TV2: Final = 2
TV1_MAX: Final[Mapping[int, int]] = {
    versions.PRODUCE: 11,
    versions.ADD_OFFSETS_TO_TXN: 3,
    versions.TXN_OFFSET_COMMIT: 4,
    versions.END_TXN: 4,
}
"""The newest versions that still mean TV1, the older transaction protocol."""

BY_NAME_MAX: Final[Mapping[int, int]] = {versions.PRODUCE: 12, versions.FETCH: 12}
"""The newest versions that name topics. Later ones have ids (KIP-516): a topic that is made again is another topic."""


def chosen_version(
    api_key: int, served: Mapping[int, tuple[int, int]], where: object, at_most: int | None = None
) -> int:
    """Return the newest version of the API that broker and client know, at most `at_most`. Raises UnsupportedError that
    says what the broker at `where` serves."""
    low, high = SPOKEN[api_key]
    if at_most is not None:
        high = min(high, at_most)
    served_low, served_high = served.get(api_key, (0, -1))
    chosen = min(high, served_high)
    if chosen < max(low, served_low):
        name = versions.APIS[api_key].name
        offers = f"versions {served_low} to {served_high}" if served_high >= 0 else "none"
        raise UnsupportedError(
            f"the broker at {where} serves {offers} of {name}; this client speaks {low} to {high} and needs Apache "
            "Kafka 4.0 or newer, or oncelog"
        )
    return chosen
