"""ApiVersions: the API versions that this listener serves, and the features that the cluster has enabled
(docs/kafka-facts.md, 2, 2.1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from oncelog.errors import ErrorCode
from oncelog.features import FEATURE_LEVELS
from oncelog.protocol.private_api import CLIENT_SOFTWARE_NAME, PRIVATE_CALLS, PRIVATE_VERSION
from oncelog.protocol.versions import API_VERSIONS_RANGE, APIS
from oncelog_listener.brokers import brokers_for

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import ApiVersionsCall

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_FROM: Final = 3
_FEATURES_FROM: Final = 3
_DESTINATION_FROM: Final = 5
"""The version from which the client says which cluster and node it means to reach (KIP-1242)."""
_MINIMUM_ZERO_FROM: Final = 4
"""The version from which clients accept a supported feature whose lowest level is 0 (KAFKA-17492)."""


async def api_versions(call: ApiVersionsCall) -> kafka.ApiVersionsResponse:
    request = call.request
    if not _is_valid(call):
        return call.types.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    if call.version >= _SOFTWARE_FROM:
        call.session.software_name = request.client_software_name
        call.session.software_version = request.client_software_version
    if call.version >= _DESTINATION_FROM and request.cluster_id is not None and _is_astray(call):
        return call.types.ApiVersionsResponse(
            error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=()
        )
    if call.version < _FEATURES_FROM:
        return call.types.ApiVersionsResponse(error_code=0, api_keys=_served_versions(call))
    image = call.cluster.image
    return call.types.ApiVersionsResponse(
        error_code=0,
        api_keys=_served_versions(call),
        supported_features=tuple(
            call.types.SupportedFeatureKey(name=name, min_version=levels[0], max_version=levels[-1])
            for name, levels in FEATURE_LEVELS.items()
            if levels[0] > 0 or call.version >= _MINIMUM_ZERO_FROM
        ),
        finalized_features_epoch=image.features_epoch,
        finalized_features=tuple(
            call.types.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in sorted(image.feature_levels.items())
            if level > 0
        ),
    )


def _is_valid(call: ApiVersionsCall) -> bool:
    request, version = call.request, call.version
    if version < _SOFTWARE_FROM:
        return True
    name, release = request.client_software_name, request.client_software_version
    if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(release)):
        return False
    return version < _DESTINATION_FROM or (request.cluster_id is None) == (request.node_id == -1)


def _is_astray(call: ApiVersionsCall) -> bool:
    """True if the client meant to reach another cluster, or another node that is alive at another address.

    Kafka refuses each other node id. Here a listener that starts again has a new one, its clients know the old one, and
    any listener serves them. Several listeners may also share an address, such as a load balancer's.
    """
    request, cluster = call.request, call.cluster
    known = cluster.image.cluster_id
    if known and request.cluster_id != known:
        return True
    if request.node_id == cluster.node_id:
        return False
    here = call.session.advertised(cluster)
    return any(
        one.node_id == request.node_id and (one.host, one.port) != here
        for one in brokers_for(call).live
    )


def unsupported_api_versions(types: kafka.ApiVersionsResponseTypes) -> kafka.ApiVersionsResponse:
    """Return the answer to an unknown, newer version of ApiVersions: in version 0, with the range to retry with
    (KIP-511)."""
    api = API_VERSIONS_RANGE
    row = types.ApiVersion(
        api_key=api.key, min_version=api.min_version, max_version=api.max_version
    )
    return types.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(row,))


def _served_versions(
    call: ApiVersionsCall,
) -> tuple[kafka.ApiVersionsResponseTypes.ApiVersion, ...]:
    row = call.types.ApiVersion
    rows = [
        row(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in APIS.values()
    ]
    if call.session.software_name == CLIENT_SOFTWARE_NAME:
        rows += [
            row(api_key=key, min_version=PRIVATE_VERSION, max_version=PRIVATE_VERSION)
            for key in PRIVATE_CALLS
        ]
    return tuple(rows)
