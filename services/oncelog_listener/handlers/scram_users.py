"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554). The controller never sees a password."""

from collections import Counter
from typing import Any, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation
from oncelog.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_of_salted_password
from oncelog_listener.call import Call
from oncelog_listener.cluster import NO_THROTTLE, PEER_FAILURES, wire_error
from oncelog_listener.protection import SCRAM_NAMES

_NOT_ALLOWED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


async def describe_user_scram_credentials(call: Call) -> Any:
    """All users, or those that are named; never what proves a password."""
    types = call.types
    if not call.may_cluster(Operation.DESCRIBE):
        code, message = _NOT_ALLOWED
        return types.DescribeUserScramCredentialsResponse(
            throttle_time=NO_THROTTLE,
            error_code=wire_error(code),
            error_message=message,
            # As in Kafka, one for each user that was asked for, without its name.
            results=tuple(
                types.DescribeUserScramCredentialsResult(
                    user="",
                    error_code=wire_error(code),
                    error_message=message,
                    credential_infos=(),
                )
                for _ in call.request.users or ()
            ),
        )
    found: dict[str, list[Any]] = {}
    for (user, mechanism), one in sorted(call.cluster.image.security.credentials.items()):
        info = types.CredentialInfo(mechanism=mechanism, iterations=one.iterations)
        found.setdefault(user, []).append(info)
        if call.is_turn_over():
            await call.next_turn()
    times = Counter(one.name for one in call.request.users or ())
    results = []
    for user in times or found:
        code, message = ErrorCode.NONE, ""
        if times[user] > 1:
            code = ErrorCode.DUPLICATE_RESOURCE
            message = f"user {user!r} stands twice in one request"
        elif user not in found:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"user {user!r} has no SCRAM credential"
        results.append(
            types.DescribeUserScramCredentialsResult(
                user=user,
                error_code=wire_error(code),
                error_message=message or None,
                credential_infos=() if code else tuple(found[user]),
            )
        )
        if call.is_turn_over():
            await call.next_turn()
    return types.DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=wire_error(0),
        error_message=None,
        results=tuple(results),
    )


async def alter_user_scram_credentials(call: Call) -> Any:
    request = call.request
    forwarded = pb.AlterUserScramCredentialsRequest()
    for one in request.deletions:
        forwarded.credentials.add(user=one.name, mechanism=one.mechanism)
    for one in request.upsertions:
        forwarded.credentials.append(_credential(one))
        if call.is_turn_over():
            await call.next_turn()
    users = dict.fromkeys(one.user for one in forwarded.credentials)
    results: dict[str, tuple[int, str]]
    if not call.may_cluster(Operation.ALTER):
        results = dict.fromkeys(users, _NOT_ALLOWED)
    elif not users:
        results = {}
    else:
        controller = call.cluster.directory.controller()
        try:
            answer = await call.cluster.ask(controller.AlterUserScramCredentials(forwarded))
        except PEER_FAILURES as error:
            lost = (ErrorCode.REQUEST_TIMED_OUT, f"the controller: {error!r}")
            results = dict.fromkeys(users, lost)
        else:
            results = {
                one.user: (one.status.error_code, one.status.error_message)
                for one in answer.results
            }
            await call.cluster.wait_for_image(answer.metadata_offset)
    return call.types.AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            call.types.AlterUserScramCredentialsResult(
                user=user, error_code=wire_error(code), error_message=message or None
            )
            for user, (code, message) in results.items()
        ),
    )


def _credential(one: Any) -> pb.ScramCredential:
    """What the controller keeps: from the salted password both keys follow, and neither gives it back."""
    # The controller refuses these iterations where they are no number for a credential; 0 would be a deletion.
    credential = pb.ScramCredential(
        user=one.name, mechanism=one.mechanism, iterations=one.iterations or -1
    )
    mechanism = SCRAM_NAMES.get(one.mechanism)
    if mechanism is not None and ITERATIONS_MIN <= one.iterations <= ITERATIONS_MAX:
        keys = credential_of_salted_password(
            mechanism, one.salted_password, one.salt, one.iterations
        )
        credential.salt, credential.iterations = keys.salt, keys.iterations
        credential.stored_key, credential.server_key = keys.stored_key, keys.server_key
    return credential
