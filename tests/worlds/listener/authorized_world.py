"""A listener with an authorizer, ACLs in its image, and what an answer says to somebody who is refused."""

from dataclasses import fields, is_dataclass

from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_world import World

from oncelog.api.v1 import controller_pb2
from oncelog.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

CLIENT = "User:ANONYMOUS"
"""Who a client of a listener without a login is."""

IMPLYING = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
RESOURCES = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
OPERATIONS = [one for one in Operation if one > Operation.ALL]


def allow(operation, resource_type=ResourceType.TOPIC, name="orders", principal=CLIENT):
    if resource_type is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    return Acl(
        resource_type, name, PatternType.LITERAL, principal, WILDCARD, operation, Permission.ALLOW
    )


def everything(principal=CLIENT, but=()):
    """Every operation on every resource, but for pairs of a type and an operation, and what includes that."""
    left_out = {
        (resource_type, one)
        for resource_type, operation in but
        for one in (operation, *IMPLYING.get(operation, ()))
    }
    return [
        allow(operation, resource_type, WILDCARD, principal)
        for resource_type in RESOURCES
        for operation in OPERATIONS
        if (resource_type, operation) not in left_out
    ]


def world_with(acls, topics=("orders",), **settings):
    """The topics, with two partitions each, and somebody else who may do everything."""
    world = World(*(topic(name, 2) for name in topics), **{"authorizer": "acl"} | settings)
    give(world, *acls, *everything("User:somebody-else"))
    return world


def give(world, *acls):
    """Beside what the image has."""
    given = [
        controller_pb2.Acl(
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            pattern_type=one.pattern_type,
            principal=one.principal,
            host=one.host,
            operation=one.operation,
            permission=one.permission,
        )
        for one in acls
    ]
    world.controller.metadata_offset += 1
    world.metadata.apply_update(
        controller_pb2.MetadataUpdate(
            metadata_offset=world.controller.metadata_offset,
            delta=controller_pb2.MetadataDelta(acls=given),
        )
    )


def found_in(answer, name):
    """The values of all fields of this name, wherever they stand in the answer."""
    found = []
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name == name:
            found.append(value)
        for one in value if isinstance(value, tuple) else (value,):
            if is_dataclass(one):
                found += found_in(one, name)
    return found


def codes_of(answer):
    """Every error code in the answer that is one."""
    names = ("error_code", "partition_error_code")
    return {int(code) for name in names for code in found_in(answer, name) if code}
