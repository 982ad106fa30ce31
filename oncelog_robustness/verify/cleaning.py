"""The cleaning after a run: topics and groups whose names begin with the run's prefix are deleted, and no others.

Kafka has no request that deletes a transactional id. It forgets one after
`transactional.id.expiration.ms`, seven days by default.
"""

import asyncio
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

from oncelog.client.core.addresses import Address
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.protocol import versions
from oncelog.wording import counted
from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import ClientError
from oncelog_robustness.clients.wire import (
    GROUP,
    Brokers,
    Deadline,
    Lost,
    Unreachable,
    check,
    types_of,
)

BEGINNING: Final = "oncelog-verify-"
LIST_GROUPS_VERSION: Final = 4
GROUPS_TIMEOUT_S: Final = 20.0
"""Seconds to wait until a group is empty: killed members are in it until their session ends."""
_RUN: Final = re.compile(r"[0-9a-f]{6}")
_GONE: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


def new_run() -> str:
    return secrets.token_hex(3)


def prefix_of(run: str) -> str:
    """Return the prefix that the topics and groups of this run have. Raises OncelogError for a text that is no id of a
    run: its prefix might fit other topics."""
    if not _RUN.fullmatch(run):
        raise OncelogError(
            f"--clean {run!r} is no id of a run: six of 0-9 and a-f, as a run prints it"
        )
    return f"{BEGINNING}{run}-"


async def clean(bootstrap: Sequence[str], prefix: str) -> str:
    """Delete the topics and groups with the prefix, and return what was removed, in words.
    Raises OncelogError with what could not be."""
    assert re.fullmatch(f"{BEGINNING}{_RUN.pattern}-", prefix), prefix
    brokers = Brokers(bootstrap, "oncelog-verify")
    admin = WireAdmin(bootstrap, "oncelog-verify")
    try:
        groups = await _delete_groups(brokers, prefix)
        topics = [one for one in await _topics(brokers) if one.startswith(prefix)]
        for topic in topics:
            await admin.delete_topic(topic)
    except (ClientError, KafkaError, Lost, Unreachable) as error:
        raise OncelogError(
            f"topics and groups that begin with {prefix} are left: {error}"
        ) from error
    finally:
        await admin.close()
        brokers.close()
    return f"removed {counted(len(topics), 'topic')} and {counted(groups, 'group')}"


async def _metadata(brokers: Brokers, topics: tuple[Any, ...] | None) -> Any:
    request = types_of(versions.METADATA).MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return await brokers.call_any(versions.METADATA, request)


async def _topics(brokers: Brokers) -> list[str]:
    """Return the names of all topics of the cluster, because Kafka has no request for a prefix."""
    metadata = await _metadata(brokers, None)
    return [str(one.name) for one in metadata.topics]


async def _groups(brokers: Brokers, prefix: str) -> list[str]:
    """Return the consumer groups with the prefix. Every broker is asked, because each lists only the groups that it
    coordinates."""
    types = types_of(versions.LIST_GROUPS, LIST_GROUPS_VERSION)
    found = []
    for one in (await _metadata(brokers, ())).brokers:
        response = await brokers.call(
            Address(one.host, one.port),
            versions.LIST_GROUPS,
            types.ListGroupsRequest(states_filter=()),
            LIST_GROUPS_VERSION,
        )
        check(response.error_code.value, "the list of groups")
        found += [str(group.group_id) for group in response.groups]
    return [one for one in found if one.startswith(prefix)]


async def _delete_groups(brokers: Brokers, prefix: str) -> int:
    """Delete the groups with the prefix and return how many.
    A group with members is tried again until its last session has ended."""
    deleted: dict[str, None] = {}
    deadline = Deadline(GROUPS_TIMEOUT_S)
    while groups := await _groups(brokers, prefix):
        refused = None
        for group in groups:
            code = await _delete_group(brokers, group)
            if code in _GONE:
                deleted[group] = None
            else:
                refused = KafkaError(code, f"delete the group {group}")
        if not await deadline.pause():
            if refused is not None:
                raise refused
            break
    return len(deleted)


async def _delete_group(brokers: Brokers, group: str) -> ErrorCode:
    coordinator = await brokers.coordinator_of(GROUP, group)
    request = types_of(versions.DELETE_GROUPS).DeleteGroupsRequest(groups_names=(group,))
    response = await brokers.call(coordinator, versions.DELETE_GROUPS, request)
    return error_code_of(response.results[0].error_code.value)


def clean_now(bootstrap: Sequence[str], prefix: str) -> str:
    """Call `clean` and wait for it, from a thread without an event loop."""
    return asyncio.run(clean(bootstrap, prefix))
