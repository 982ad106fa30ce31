"""The access of a client to groups and transactional ids, checked as Kafka checks it."""

from collections.abc import Iterable
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import acl_name_of
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call
from oncelog_listener.core.authorized_operations import ON_GROUP

_ON_GROUP: Final = tuple(one for one in Operation if ON_GROUP >> one & 1)


def group_refusal(call: Call, operation: Operation, group_id: str) -> ErrorCode:
    """Return GROUP_AUTHORIZATION_FAILED unless the client may perform the operation on the group; otherwise NONE."""
    if call.may(operation, ResourceType.GROUP, group_id):
        return ErrorCode.NONE
    return ErrorCode.GROUP_AUTHORIZATION_FAILED


def transaction_refusal(call: Call, operation: Operation, transactional_id: str) -> ErrorCode:
    """Return TRANSACTIONAL_ID_AUTHORIZATION_FAILED unless the client may perform the operation on the transactional.id;
    otherwise NONE."""
    if may_transaction(call, operation, transactional_id):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def may_transaction(
    call: Call, operation: Operation, transactional_id: str, *, is_logged: bool = True
) -> bool:
    name = acl_name_of(transactional_id)
    return call.may(operation, ResourceType.TRANSACTIONAL_ID, name, is_logged=is_logged)


def commit_refusal(call: Call, transactional_id: str, group_id: str) -> ErrorCode:
    """Return the authorization error of a TxnOffsetCommit, NONE if it is allowed. The transactional.id is checked
    first, then the group."""
    refusal = transaction_refusal(call, Operation.WRITE, transactional_id)
    return refusal or group_refusal(call, Operation.READ, group_id)


def split_groups(
    call: Call, operation: Operation, group_ids: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return two lists: the groups on which the client may perform the operation, and the other groups. Each group
    stands once."""
    allowed: list[str] = []
    refused: list[str] = []
    for group_id in dict.fromkeys(group_ids):
        of_kind = refused if group_refusal(call, operation, group_id) else allowed
        of_kind.append(group_id)
    return allowed, refused


def operations_on_group(call: Call, group_id: str) -> int:
    """Return the operations that the client may do with the group, as the bits of KIP-430."""
    return sum(
        1 << operation
        for operation in _ON_GROUP
        if call.may(operation, ResourceType.GROUP, group_id, is_logged=False)
    )
