"""The role that a caller needs for each route of REST and the console (ADR 0030). If a route is missing here, the
gateway does not start.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog.security.api_tokens import Role

RouteKey = tuple[str, str]
"""A route's method, and its path as the route spells it."""

OPEN: Final[frozenset[RouteKey]] = frozenset(
    {
        # A probe of Kubernetes has no token. Neither names a topic, a group or a node.
        ("GET", "/health"),
        ("GET", "/ready"),
        ("GET", "/login"),
        ("POST", "/login"),
        ("POST", "/logout"),
        ("GET", "/console.js"),
        ("GET", "/console.css"),
    }
)
"""Routes that are open to everybody, also without a login."""

METRICS: Final[RouteKey] = ("GET", "/metrics")
"""The route of metrics, which is open if the operator says so, and is otherwise for viewers."""

_OPERATOR: Final[tuple[RouteKey, ...]] = (
    ("POST", "/v1/transactions/abort"),
    ("POST", "/v1/transactions/{transactional_id:path}/terminate"),
    ("POST", "/v1/transactions/{transactional_id:path}/complete"),
    ("PATCH", "/v1/groups/{group_id:path}/offsets"),
    ("POST", "/v1/topics"),
    # ACLs and a setting decide as well (`record_access`).
    ("POST", "/v1/topics/{name}/records"),
    ("POST", "/v1/topics/{name}/partitions"),
    ("POST", "/v1/storage/evacuate"),
    ("POST", "/v1/storage/balance"),
    ("POST", "/v1/nodes/{node_id}/drain"),
    ("DELETE", "/v1/nodes/{node_id}/drain"),
    ("POST", "/v1/reassignments"),
    ("DELETE", "/v1/reassignments/{topic}"),
)
"""Routes for operators, which keep a cluster going. Nothing that was committed is lost by them."""

_ADMIN: Final[tuple[RouteKey, ...]] = (
    ("DELETE", "/v1/topics/{name}"),
    # retention.ms=1 deletes as well.
    ("PATCH", "/v1/topics/{name}/configs"),
    ("DELETE", "/v1/groups/{group_id:path}"),
    ("DELETE", "/v1/nodes/{node_id}"),
    # Without its sink a stream's next batch may be written twice.
    ("DELETE", "/v1/sinks/{sink:path}"),
    ("PUT", "/v1/features/{feature}"),
    ("GET", "/v1/tokens"),
    ("POST", "/v1/tokens"),
    ("DELETE", "/v1/tokens/{name}"),
)

_VIEWER: Final[tuple[RouteKey, ...]] = (
    METRICS,
    ("GET", "/openapi.json"),
    ("HEAD", "/openapi.json"),
    ("GET", "/v1/transactions/{transactional_id:path}/timeline"),
    ("GET", "/v1/events"),
    ("GET", "/v1/transactions"),
    ("GET", "/v1/transactions/{transactional_id:path}"),
    ("GET", "/v1/explain"),
    ("GET", "/v1/hanging-transactions"),
    ("GET", "/v1/prepared-transactions"),
    ("GET", "/v1/marker-queues"),
    ("GET", "/v1/topics/{name}/partitions"),
    ("GET", "/v1/partitions"),
    ("GET", "/v1/partitions/{topic}/{partition}"),
    ("GET", "/v1/partitions/{topic}/{partition}/producers"),
    ("GET", "/v1/partitions/{topic}/{partition}/records/{offset}"),
    ("GET", "/v1/topics"),
    ("GET", "/v1/topics/{name}"),
    ("GET", "/v1/topics/{name}/configs"),
    # The role is not enough: ACLs and a setting decide as well (`record_access`).
    ("GET", "/v1/topics/{name}/records"),
    ("GET", "/v1/rates"),
    ("GET", "/v1/groups"),
    ("GET", "/v1/groups/{group_id:path}/offsets"),
    ("GET", "/v1/groups/{group_id:path}"),
    ("GET", "/v1/nodes"),
    ("GET", "/v1/nodes/{node_id}"),
    ("GET", "/v1/reassignments"),
    ("GET", "/v1/sinks"),
    ("GET", "/v1/sinks/{sink:path}"),
    ("GET", "/v1/features"),
    ("GET", "/v1/cluster"),
    ("GET", "/v1/cluster/health"),
    ("GET", "/v1/whoami"),
    ("GET", "/v1/audit"),
    ("GET", "/"),
    ("GET", "/transactions"),
    ("GET", "/transaction"),
    ("GET", "/slowest"),
    ("GET", "/partitions"),
    ("GET", "/partition"),
    ("GET", "/topics"),
    ("GET", "/topic"),
    ("GET", "/records"),
    ("GET", "/record"),
    ("GET", "/producers"),
    ("GET", "/rates"),
    ("GET", "/groups"),
    ("GET", "/group"),
    ("GET", "/sinks"),
    ("GET", "/nodes"),
    ("GET", "/explain"),
    ("GET", "/audit"),
    ("GET", "/docs"),
)

ROLE_OF: Final[Mapping[RouteKey, Role]] = {
    key: role
    for role, keys in ((Role.VIEWER, _VIEWER), (Role.OPERATOR, _OPERATOR), (Role.ADMIN, _ADMIN))
    for key in keys
}


def without_role(routes: Iterable[RouteKey]) -> list[RouteKey]:
    """Return those REST routes for which this module's table names no role that a caller must have. The gateway asserts
    at its start that there are none.
    """
    return [key for key in routes if key not in ROLE_OF and key not in OPEN]
