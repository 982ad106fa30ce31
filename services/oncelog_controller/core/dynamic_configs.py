"""Configs of brokers and groups that change while the cluster runs (Kafka's BROKER and GROUP resources)."""

import re
from collections.abc import Mapping

from oncelog.broker_config import BROKER_CONFIGS, checked_broker_configs
from oncelog.errors import ErrorCode, KafkaError
from oncelog.group_config import GROUP_SYNONYMS, checked_group_configs
from oncelog_controller.core.events import AlterConfigs
from oncelog_controller.core.image import ALL_BROKERS, COORDINATOR, GROUP, ClusterImage
from oncelog_controller.core.records import ConfigsChanged

NAMES_MAX = 10_000
"""At most this many groups have configs of their own, which every process keeps in memory."""


def altered_dynamic_configs(image: ClusterImage, event: AlterConfigs) -> ConfigsChanged | None:
    """Return the record of a change of a broker's or a group's configs; None when nothing changes.

    Raises KafkaError with INVALID_CONFIG, INVALID_REQUEST or BROKER_ID_NOT_REGISTERED.
    """
    key = (event.kind, event.name)
    known = image.configs.get(key, {})
    twice = sorted(set(event.remove) & set(event.set))
    if twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{twice[0]!r} is both set and removed")
    wanted = {name: value for name, value in known.items() if name not in event.remove}
    wanted.update(event.set)
    match event.kind:
        case "broker":
            _check_broker(image, event)
            checked = checked_broker_configs(wanted, for_all=event.name == ALL_BROKERS)
        case "group":
            if not event.name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a group's configs need its name")
            checked = checked_group_configs(wanted, _broker_defaults(image))
        case _:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"configs of {event.kind!r} cannot be changed"
            )
    if checked == known:
        return None
    if not known and sum(1 for kind, _ in image.configs if kind == GROUP) >= NAMES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{NAMES_MAX} groups have configs of their own; remove those of others first",
        )
    return ConfigsChanged(event.kind, event.name, checked)


def _check_broker(image: ClusterImage, event: AlterConfigs) -> None:
    if event.name == ALL_BROKERS:
        return
    # "01" or a superscript would be kept under a name that no node asks for.
    if not re.fullmatch("0|[1-9][0-9]{0,9}", event.name):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a node id is wanted, not {event.name!r}")
    node = image.nodes.get(int(event.name))
    if node is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"node {event.name} is not registered; known are {sorted(image.nodes)}",
        )
    for name in event.set:
        row = BROKER_CONFIGS.get(name)
        if row is not None and row.is_dynamic and row.role and row.role not in node.roles:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{name!r} is read by {row.role} nodes, and node {event.name} is none; set it for all brokers"
                f" (empty name), or for one of {image.nodes_with(row.role)}",
            )


def _broker_defaults(image: ClusterImage) -> Mapping[str, str]:
    """Return the default configs of consumer groups, which hold for a group that sets none. They are settings of the
    coordinators, and are taken from the first registered one; empty without any.
    """
    for node_id in image.nodes_with(COORDINATOR):
        configs = image.nodes[node_id].configs
        return {
            name: configs[broker_name]
            for name, broker_name in GROUP_SYNONYMS.items()
            if broker_name in configs
        }
    return {}
