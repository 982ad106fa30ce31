"""The environment variables of each process of a local cluster: its node id, its ports, the other processes and its
folders.
"""

import os
from pathlib import Path

from oncelog.process.config_file import ConfigFile
from oncelog_server.cluster.databases import redis_url
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    GATEWAY,
    HOST,
    LISTENER,
    MARKER_SENDER,
    REDIS,
    STORAGE,
    Member,
)
from oncelog_server.cluster.security import ClusterSecurity
from oncelog_server.cluster.state_file import ClusterState

REPLICAS = 3


def environment_of(member: Member, state: ClusterState, folder: Path) -> dict[str, str]:
    """Return the variables of one process. Variables that the user set for this process win over those for every
    process, and these over the computed ones.
    """
    controllers = [one for one in state.members if one.role == CONTROLLER.role]
    node = {
        "ONCELOG_NODE_NODE_ID": str(member.node_id),
        "ONCELOG_NODE_HOST": HOST,
        "ONCELOG_NODE_PORT": str(member.rpc_port),
        "ONCELOG_NODE_CONTROLLERS": ",".join(one.rpc_address for one in controllers),
    }
    if member.metrics_port:
        node["ONCELOG_PROCESS_METRICS_PORT"] = str(member.metrics_port)
    if state.is_secure:
        node |= ClusterSecurity(folder).environment(member.role, member.address)
    own = state.environments.get(member.name, {})
    return node | _of_role(member, state, folder) | state.environment | own


def gateway_url(member: Member, state: ClusterState, folder: Path) -> str:
    """Return the URL of a gateway: `https` if a variable or the file of settings gives it a certificate."""
    environment = {**os.environ, **environment_of(member, state, folder)}
    certificate = environment.get("ONCELOG_GATEWAY_TLS_CERTIFICATE_FILE", "")
    if not certificate and environment.get("ONCELOG_CONFIG"):
        tables = ConfigFile.read(Path(environment["ONCELOG_CONFIG"])).tables
        certificate = tables.get(GATEWAY.role, {}).get("tls_certificate_file", "")
    scheme = "https" if certificate else "http"
    return f"{scheme}://{member.address}"


def _of_role(member: Member, state: ClusterState, folder: Path) -> dict[str, str]:
    redis = redis_url(folder) if REDIS in state.running else None
    if member.role == CONTROLLER.role:
        storage_count = sum(one.role == STORAGE.role for one in state.members)
        return {
            "ONCELOG_CONTROLLER_DATABASE_URL": state.postgres_url,
            "ONCELOG_CONTROLLER_BOOTSTRAP_STORAGE_NODES": str(min(REPLICAS, storage_count)),
        }
    if member.role == STORAGE.role:
        own = {"ONCELOG_STORAGE_DATA_DIR": str(folder / "data" / member.name)}
        return own | ({"ONCELOG_STORAGE_REDIS_URL": redis} if redis else {})
    if member.role == COORDINATOR.role:
        return {"ONCELOG_COORDINATOR_REDIS_URL": redis} if redis else {}
    if member.role == MARKER_SENDER.role:
        return {"ONCELOG_MARKER_SENDER_REDIS_URL": redis} if redis else {}
    if member.role == LISTENER.role:
        return {"ONCELOG_LISTENER_HOST": HOST, "ONCELOG_LISTENER_PORT": str(member.port)}
    if member.role == GATEWAY.role:
        own = {"ONCELOG_GATEWAY_REDIS_URL": redis} if redis else {}
        if state.is_secure:
            login = ClusterSecurity(folder).client_properties
            own["ONCELOG_GATEWAY_CLIENT_CONFIG"] = str(login)
        return own | {
            "ONCELOG_GATEWAY_HOST": HOST,
            "ONCELOG_GATEWAY_PORT": str(member.port),
            "ONCELOG_GATEWAY_AUDIT_PATH": str(folder / "data" / f"{member.name}-audit.jsonl"),
        }
    return {}
