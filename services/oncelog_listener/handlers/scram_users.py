"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554). The controller never sees a password."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation
from oncelog.security.sasl import SCRAM_NAMES
from oncelog.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_of_salted_password
from oncelog_listener.cluster import ApiError
from oncelog_listener.topic_access import cluster_refusal

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        AlterUserScramCredentialsCall,
        DescribeUserScramCredentialsCall,
    )


async def describe_user_scram_credentials(
    call: DescribeUserScramCredentialsCall,
) -> kafka.DescribeUserScramCredentialsResponse:
    """Answer the mechanisms and iterations of all SCRAM users, or of those named. It shows nothing by which a password
    can be checked."""
    types = call.types
    if refusal := cluster_refusal(call, Operation.DESCRIBE):
        code, message = refusal.error_code, refusal.error_message
        return types.DescribeUserScramCredentialsResponse(
            error_code=code,
            error_message=message,
            # As in Kafka, one for each user that was asked for, without its name.
            results=tuple(
                types.DescribeUserScramCredentialsResult(
                    user="",
                    error_code=code,
                    error_message=message,
                    credential_infos=(),
                )
                for _ in call.request.users or ()
            ),
        )
    found: dict[str, list[kafka.DescribeUserScramCredentialsResponseTypes.CredentialInfo]] = {}
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
                error_code=code,
                error_message=message or None,
                credential_infos=() if code else tuple(found[user]),
            )
        )
        if call.is_turn_over():
            await call.next_turn()
    return types.DescribeUserScramCredentialsResponse(
        error_code=0,
        error_message=None,
        results=tuple(results),
    )


async def alter_user_scram_credentials(
    call: AlterUserScramCredentialsCall,
) -> kafka.AlterUserScramCredentialsResponse:
    request = call.request
    forwarded = pb.AlterUserScramCredentialsRequest()
    for one in request.deletions:
        forwarded.credentials.add(user=one.name, mechanism=one.mechanism)
    for upsertion in request.upsertions:
        forwarded.credentials.append(_credential(upsertion))
        if call.is_turn_over():
            await call.next_turn()
    users = dict.fromkeys(one.user for one in forwarded.credentials)
    found = await call.cluster.ask_controller_each(
        len(users),
        lambda controller: controller.AlterUserScramCredentials(forwarded),
        cluster_refusal(call, Operation.ALTER),
    )
    results = [
        (user, one) if isinstance(one, ApiError) else (one.user, one.status)
        for user, one in zip(users, found, strict=True)
    ]
    return call.types.AlterUserScramCredentialsResponse(
        results=tuple(
            call.types.AlterUserScramCredentialsResult(
                user=user, error_code=one.error_code, error_message=one.error_message or None
            )
            for user, one in results
        )
    )


def _credential(
    one: kafka.AlterUserScramCredentialsRequestTypes.ScramCredentialUpsertion,
) -> pb.ScramCredential:
    """Return the credential that the controller stores, made from the salted password that the client sent. The
    password does not follow from it."""
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
