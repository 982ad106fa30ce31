"""DescribeQuorum and UpdateFeatures: the requests that Kafka answers by its controllers.

oncelog's metadata is not kept by a Raft quorum but in Postgres, and one controller is active by a lease (ADR 0002). So
the quorum that clients are told of is the active controller: it leads, it is the one voter, nothing lags. Controllers
that stand by hold no part of the log, and are not told.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.security.acl import Operation
from oncelog_listener.call import Call
from oncelog_listener.cluster import ApiError, api_error
from oncelog_listener.core.feature_rules import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    wanted_levels,
)
from oncelog_listener.topic_access import cluster_refusal

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import DescribeQuorumCall, UpdateFeaturesCall

_METADATA_TOPIC: Final = "__cluster_metadata"
_NODES_FROM: Final = 2
_RESULTS_UNTIL: Final = 1


async def describe_quorum(call: DescribeQuorumCall) -> kafka.DescribeQuorumResponse:
    if refusal := cluster_refusal(call, Operation.DESCRIBE):
        return call.types.DescribeQuorumResponse(
            error_code=refusal.error_code, error_message=refusal.error_message, topics=(), nodes=()
        )
    topics = tuple(
        call.types.TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                _quorum(call, topic.topic_name, one.partition_index) for one in topic.partitions
            ),
        )
        for topic in call.request.topics
    )
    nodes: tuple[kafka.DescribeQuorumResponseTypes.Node, ...] = ()
    if call.version >= _NODES_FROM:
        nodes = (call.types.Node(node_id=call.cluster.image.controller, listeners=()),)
    return call.types.DescribeQuorumResponse(
        error_code=0, error_message="", topics=topics, nodes=nodes
    )


def _quorum(
    call: DescribeQuorumCall, topic: str, partition: int
) -> kafka.DescribeQuorumResponseTypes.PartitionData:
    image, types = call.cluster.image, call.types
    is_known = topic == _METADATA_TOPIC and partition == 0
    code = ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    message = "" if is_known else f"{topic}-{partition} is no log of controllers"
    return types.PartitionData(
        partition_index=partition,
        error_code=code,
        leader_id=image.controller if is_known else -1,
        leader_epoch=image.controller_epoch if is_known else -1,
        high_watermark=image.metadata_offset + 1 if is_known else -1,
        current_voters=(_voter(call),) if is_known else (),
        observers=(),
        error_message=message,
    )


def _voter(call: DescribeQuorumCall) -> kafka.DescribeQuorumResponseTypes.ReplicaState:
    image = call.cluster.image
    now_ms = time.time_ns() // 1_000_000
    return call.types.ReplicaState(
        replica_id=image.controller,
        replica_directory_id=None,
        log_end_offset=image.metadata_offset + 1,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


async def update_features(call: UpdateFeaturesCall) -> kafka.UpdateFeaturesResponse:
    failed = await _update(call)
    is_told = call.version <= _RESULTS_UNTIL and not failed.error_code
    return call.types.UpdateFeaturesResponse(
        error_code=failed.error_code,
        error_message=failed.error_message or None,
        results=tuple(
            call.types.UpdatableFeatureResult(feature=one.feature, error_code=0, error_message=None)
            for one in (call.request.feature_updates if is_told else ())
        ),
    )


async def _update(call: UpdateFeaturesCall) -> ApiError:
    cluster, request = call.cluster, call.request
    if refusal := cluster_refusal(call, Operation.ALTER):
        return refusal
    updates = [
        FeatureUpdate(one.feature, one.max_version_level, _upgrade_type(call, one))
        for one in request.feature_updates
    ]
    try:
        levels = wanted_levels(cluster.image.feature_levels, updates)
    except KafkaError as error:
        return ApiError(error.error_code, error.message)
    validate_only = call.version > 0 and request.validate_only
    forwarded = pb.UpdateFeaturesRequest(levels=levels, validate_only=validate_only)
    answer = await cluster.ask_controller(
        lambda controller: controller.UpdateFeatures(forwarded), validate_only=validate_only
    )
    failed = answer if isinstance(answer, ApiError) else api_error(answer.status)
    if failed.error_code == ErrorCode.FEATURE_UPDATE_FAILED:
        # Kafka answers INVALID_UPDATE_VERSION for a level that no version of the feature allows.
        return failed._replace(error_code=ErrorCode.INVALID_UPDATE_VERSION)
    return failed


def _upgrade_type(call: Call, update: kafka.UpdateFeaturesRequestTypes.FeatureUpdateKey) -> int:
    if call.version > 0:
        return update.upgrade_type
    return SAFE_DOWNGRADE if _goes_down(call, update) and update.allow_downgrade else UPGRADE


def _goes_down(call: Call, update: kafka.UpdateFeaturesRequestTypes.FeatureUpdateKey) -> bool:
    known: int = call.cluster.image.feature_levels.get(update.feature, 0)
    return update.max_version_level < known
