"""Turns the metadata image into the messages of `controller.proto` that nodes receive, and parts of requests into
events' fields.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TypeVar

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.security.acl import Acl
from oncelog.security.quotas import Entity
from oncelog_controller.core.events import Folder
from oncelog_controller.core.history import MetadataPosition
from oncelog_controller.core.image import (
    Change,
    ClusterImage,
    ConfigsKey,
    Node,
    Shard,
    Topic,
)
from oncelog_controller.core.records import ScramRow
from oncelog_controller.core.security import CredentialKey

KeyT = TypeVar("KeyT")


def snapshot_message(image: ClusterImage) -> pb.MetadataSnapshot:
    return pb.MetadataSnapshot(
        cluster_id=image.cluster_id,
        controller=image.controller,
        controller_epoch=image.controller_epoch,
        nodes=map(node_message, image.nodes.values()),
        topics=map(topic_message, image.topics.values()),
        shards=map(shard_message, image.shards.values()),
        features=_features_message(image),
        configs=[_configs_message(image, key) for key in image.configs],
        controller_incarnation_id=image.controller_incarnation_id,
        acls=map(acl_message, image.security.acls),
        scram_credentials=[_credential(image, key) for key in image.security.credentials],
        client_quotas=[_quota(image, entity) for entity in image.security.quotas],
        api_tokens=[_token(image, name) for name in image.security.tokens],
        ended_console_sessions=[_session(image, one) for one in image.security.sessions.ended],
        console_sessions_void_until_ms=image.security.sessions.void_until_ms,
        unknown_user_key=b64decode(image.security.unknown_user_key),
    )


def delta_message(image: ClusterImage, changes: Sequence[Change]) -> pb.MetadataDelta:
    """Return the message of what changed in the metadata, with the values that `image` has after all `changes`."""
    nodes = _distinct(node for change in changes for node in change.nodes)
    removed_nodes = _distinct(node for change in changes for node in change.removed_nodes)
    topics = _distinct(topic for change in changes for topic in change.topics)
    removed = _distinct(topic for change in changes for topic in change.removed_topics)
    shards = _distinct(shard for change in changes for shard in change.shards)
    configs = _distinct(key for change in changes for key in change.configs)
    acls = _distinct(acl for change in changes for acl in change.security.acls)
    credentials = _distinct(key for change in changes for key in change.security.credentials)
    quotas = _distinct(entity for change in changes for entity in change.security.quotas)
    tokens = _distinct(name for change in changes for name in change.security.tokens)
    sessions = _distinct(one for change in changes for one in change.security.sessions)
    is_new_key = any(change.security.unknown_user_key for change in changes)
    is_new_controller = any(change.controller for change in changes)
    return pb.MetadataDelta(
        nodes=[node_message(image.nodes[node_id]) for node_id in nodes if node_id in image.nodes],
        removed_nodes=[node_id for node_id in removed_nodes if node_id not in image.nodes],
        topics=[topic_message(image.topics[name]) for name in topics if name in image.topics],
        removed_topics=[name for name in removed if name not in image.topics],
        shards=[shard_message(image.shards[key]) for key in shards],
        features=_features_message(image) if any(change.features for change in changes) else None,
        controller=image.controller if is_new_controller else 0,
        controller_epoch=image.controller_epoch if is_new_controller else 0,
        configs=[_configs_message(image, key) for key in configs],
        controller_incarnation_id=image.controller_incarnation_id if is_new_controller else "",
        acls=[acl_message(acl) for acl in acls if acl in image.security.acls],
        removed_acls=[acl_message(acl) for acl in acls if acl not in image.security.acls],
        scram_credentials=[_credential(image, key) for key in credentials],
        client_quotas=[_quota(image, entity) for entity in quotas],
        api_tokens=[_token(image, name) for name in tokens],
        ended_console_sessions=[_session(image, one) for one in sessions],
        console_sessions_void_until_ms=image.security.sessions.void_until_ms if sessions else 0,
        unknown_user_key=b64decode(image.security.unknown_user_key) if is_new_key else b"",
    )


def acl_message(acl: Acl) -> pb.Acl:
    return pb.Acl(**acl._asdict())


def _credential(image: ClusterImage, key: CredentialKey) -> pb.ScramCredential:
    row = image.security.credentials.get(key)
    if row is None:
        return pb.ScramCredential(user=key.user, mechanism=key.mechanism)
    *_, salt, stored_key, server_key, iterations = row
    return pb.ScramCredential(
        user=key.user,
        mechanism=key.mechanism,
        salt=b64decode(salt),
        stored_key=b64decode(stored_key),
        server_key=b64decode(server_key),
        iterations=iterations,
    )


def credential_row(credential: pb.ScramCredential) -> ScramRow:
    """Return a SCRAM credential from a request as the row that a metadata record holds (`core.records`)."""
    return (
        credential.user,
        credential.mechanism,
        b64encode(credential.salt).decode(),
        b64encode(credential.stored_key).decode(),
        b64encode(credential.server_key).decode(),
        credential.iterations,
    )


def _quota(image: ClusterImage, entity: Entity) -> pb.ClientQuota:
    return pb.ClientQuota(
        entity=[pb.QuotaEntity(type=kind, name=name) for kind, name in entity],
        values=image.security.quotas.get(entity, {}),
    )


def _token(image: ClusterImage, name: str) -> pb.ApiToken:
    token = image.security.tokens.get(name)
    if token is None:
        return pb.ApiToken(name=name)
    return pb.ApiToken(**{**token._asdict(), "digest": bytes.fromhex(token.digest)})


def _session(image: ClusterImage, session_id: str) -> pb.EndedConsoleSession:
    expires_ms = image.security.sessions.ended.get(session_id, 0)
    return pb.EndedConsoleSession(session_id=session_id, expires_ms=expires_ms)


def node_message(node: Node) -> pb.Node:
    fields = asdict(node)
    del fields["incarnation_id"]
    fields["roles"] = [f"ROLE_{role.upper()}" for role in node.roles]
    return pb.Node(**fields)


def topic_message(topic: Topic) -> pb.Topic:
    return pb.Topic(
        name=topic.name,
        topic_id=bytes.fromhex(topic.topic_id),
        internal=topic.internal,
        configs=topic.configs,
        partitions=[
            pb.Partition(
                partition=number,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                replicas=partition.replicas,
                isr=partition.isr,
                adding_replicas=partition.adding,
                removing_replicas=partition.removing,
            )
            for number, partition in enumerate(topic.partitions)
        ],
    )


def shard_message(shard: Shard) -> pb.Shard:
    return pb.Shard(**asdict(replace(shard, kind=f"SHARD_KIND_{shard.kind.upper()}")))


def _configs_message(image: ClusterImage, key: ConfigsKey) -> pb.DynamicConfigs:
    kind, name = key
    return pb.DynamicConfigs(
        kind=f"CONFIG_KIND_{kind.upper()}", name=name, configs=image.configs.get(key, {})
    )


def role_names(roles: Iterable[int]) -> tuple[str, ...]:
    """Return the roles by their names in `core.image`. An unknown role becomes its number, which is refused later."""
    known = {number: name for name, number in pb.Role.items()}
    return tuple(
        known[role].removeprefix("ROLE_").lower() if role in known else str(role) for role in roles
    )


def folder_of(request: pb.RegisterNodeRequest) -> Folder | None:
    """Return what a storage node's registration says of its data folder; None: it has no folder, or does not say."""
    if not request.HasField("folder"):
        return None
    folder = request.folder
    return Folder(
        tuple(folder.incarnation_ids),
        MetadataPosition(
            folder.metadata_offset,
            folder.controller_epoch,
            folder.controller_incarnation_id,
        ),
        folder.accepts_loss,
    )


def position_of(seen: pb.MetadataPosition) -> MetadataPosition:
    return MetadataPosition(
        seen.metadata_offset, seen.controller_epoch, seen.controller_incarnation_id
    )


def config_kind(kind: int) -> str:
    """Return the name in `core.events` of a kind of configs ("topic", "broker", "group").

    An unknown kind becomes its number, which is refused later.
    """
    known = {number: name for name, number in pb.ConfigKind.items()}
    return known[kind].removeprefix("CONFIG_KIND_").lower() if kind in known else str(kind)


def _features_message(image: ClusterImage) -> pb.Features:
    return pb.Features(features_epoch=image.features_epoch, levels=image.feature_levels)


def _distinct(keys: Iterable[KeyT]) -> list[KeyT]:
    """Return each key once, in order of first appearance."""
    return list(dict.fromkeys(keys))
