"""The roles that may call each method: the caller table of the architecture page, as a policy.

Without TLS between processes a server cannot know who calls, and everything is allowed.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from oncelog.rpc.contract import SERVICES

CONTROLLER, COORDINATOR, STORAGE = "controller", "coordinator", "storage"
MARKER_SENDER, LISTENER, GATEWAY = "marker-sender", "listener", "gateway"
ROLES: Final = (CONTROLLER, COORDINATOR, STORAGE, MARKER_SENDER, LISTENER, GATEWAY)

_NODES: Final = frozenset(ROLES)
_L: Final = frozenset({LISTENER})
_LG: Final = frozenset({LISTENER, GATEWAY})
_G: Final = frozenset({GATEWAY})
_C: Final = frozenset({COORDINATOR})
_S: Final = frozenset({STORAGE})

_TABLE: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "Controller": {
        "RegisterNode": _NODES,
        "NodeHeartbeat": _NODES,
        "NodeSession": _NODES,
        "DescribeController": _NODES,
        "WatchMetadata": _NODES,
        "CreateTopics": _LG,
        "DeleteTopics": _LG,
        "CreatePartitions": _LG,
        "AlterConfigs": _LG,
        "UpdateFeatures": _LG,
        "CreateAcls": _L,
        "DeleteAcls": _L,
        "AlterUserScramCredentials": _L,
        "AlterClientQuotas": _L,
        "AlterApiTokens": _G,
        "EndConsoleSession": _G,
        "AllocateProducerIds": _C,
        "AlterPartition": _S,
        "ReassignPartitions": _LG,
        "ElectLeaders": _L,
        "DrainNode": _G,
        "RemoveNode": _G,
    },
    "Storage": {
        "Produce": _LG,
        "Append": _C,
        "Fetch": _LG | _C,
        "ListOffsets": _LG,
        "OffsetsForLeaderEpoch": _L,
        "WriteTxnMarkers": _LG | {MARKER_SENDER},
        "DescribeProducers": _LG,
        "DescribePartitions": _LG,
        "DescribeRecord": _G,
        "DeleteRecords": _L,
        "ReplicaFetch": _S,
    },
    "TransactionCoordinator": {
        "InitProducerId": _LG,
        "AddPartitionsToTxn": _L | _S | _C,
        "AddOffsetsToTxn": _L,
        "EndTxn": _LG,
        # A storage node asks for the start of a transaction that it does not know (ADR 0022).
        "DescribeTransactions": _LG | _S | _C,
        "ListTransactions": _LG,
        "ForceTerminateTransaction": _G,
        "CompletePreparedTransaction": _G,
        "OpenAttempt": _L,
        "JoinAttempt": _L,
        "SealBranch": _L,
        "CommitBatch": _L,
        "AbortAttempt": _L,
        "DescribeSink": _LG,
        "ListSinks": _G,
        "DeleteSink": _G,
    },
    "GroupCoordinator": {
        "JoinGroup": _L,
        "SyncGroup": _L,
        "GroupHeartbeat": _L,
        "LeaveGroup": _L,
        "OffsetCommit": _LG,
        "TxnOffsetCommit": _L,
        "OffsetFetch": _LG,
        "OffsetDelete": _L,
        "DescribeGroups": _LG,
        "ListGroups": _LG,
        "DeleteGroups": _LG,
        "ConsumerGroupHeartbeat": _L,
        # Kafka's WriteTxnMarkers names group shards too: a listener passes such markers on.
        "WriteTxnMarkers": _LG | {MARKER_SENDER},
    },
    "MarkerSender": {
        "DeliverMarkers": _C,
        "CancelShard": _C,
        "DescribeDeliveries": _C,
        "DescribeQueues": _G,
    },
    "Process": {"DescribeProcess": _G},
    # A session opens to every node; each call on it is checked by its own row.
    "Peer": {"Session": _NODES},
}

ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    SERVICES[service].methods[name].path: roles
    for service, methods in _TABLE.items()
    for name, roles in methods.items()
}
"""The path of a method → the roles that may call it."""

CALLER_ROLE: Final[ContextVar[str | None]] = ContextVar("caller_role", default=None)
"""The role in the certificate of the call that is being answered. None: a direct call, or there is no TLS."""


def may_call(role: str, path: str) -> bool:
    """Return True if a process of this role may call this method. A method that the table does not name may be called
    by none.
    """
    return role in ALLOWED.get(path, ())


def refusal(role: str, path: str) -> str:
    """Return the error text for a caller that may not call this method."""
    return f"{path} may not be called by {role or 'a certificate without a role of oncelog'}"
