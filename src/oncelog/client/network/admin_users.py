"""The administrator's requests about users of SCRAM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oncelog.client.core.admin_results import Results
from oncelog.client.core.scram_users import (
    Alteration,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    mechanism_name,
    mechanism_number,
    rounds,
    salted,
    what_of,
)
from oncelog.client.errors import ClientError
from oncelog.client.network.admin_calls import AdminCalls, code_of, outcome, raise_error
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

_DESCRIBE = "describe_user_scram_credentials()"


async def describe_users(
    calls: AdminCalls, users: Iterable[str] | None
) -> Results[str, tuple[ScramCredentialInfo, ...]]:
    wanted = None if users is None else tuple(dict.fromkeys(users))
    if wanted == ():
        return Results({})  # A broker takes an empty list for all users.
    response = await calls.any(
        versions.DESCRIBE_USER_SCRAM_CREDENTIALS,
        lambda types: types.DescribeUserScramCredentialsRequest(
            users=None if wanted is None else tuple(types.UserName(name=one) for one in wanted)
        ),
        _DESCRIBE,
        lambda response: (code_of(response), *map(code_of, response.results)),
    )
    raise_error(response, _DESCRIBE)
    return Results(
        {one.user: outcome(one, f"user {one.user!r}", _infos(one)) for one in response.results}
    )


def _infos(
    one: kafka.DescribeUserScramCredentialsResponseTypes.DescribeUserScramCredentialsResult,
) -> tuple[ScramCredentialInfo, ...]:
    found = (
        ScramCredentialInfo(mechanism_name(info.mechanism), info.iterations)
        for info in one.credential_infos
    )
    return tuple(sorted(found, key=lambda info: info.mechanism))


async def alter_users(
    calls: AdminCalls, alterations: Iterable[Alteration]
) -> Results[Alteration, None]:
    found: dict[Alteration, ClientError | None] = {}
    passwords: dict[Alteration, bytes] = {}
    for one in alterations:
        found[one] = None
        try:
            # Rounds of a hash by the thousand: other calls go on.
            passwords[one] = await asyncio.to_thread(salted, one)
        except ClientError as error:
            found[one] = error
    for by_user in rounds(passwords):
        found |= await _alter(calls, by_user, passwords)
    return Results(found)


async def _alter(
    calls: AdminCalls, by_user: Mapping[str, Alteration], passwords: Mapping[Alteration, bytes]
) -> dict[Alteration, ClientError | None]:
    response = await calls.any(
        versions.ALTER_USER_SCRAM_CREDENTIALS,
        lambda types: _request(types, by_user.values(), passwords),
        "alter_user_scram_credentials()",
        lambda response: map(code_of, response.results),
    )
    answers = {one.user: one for one in response.results}
    return {one: outcome(answers[user], what_of(one), None) for user, one in by_user.items()}


def _request(
    types: kafka.AlterUserScramCredentialsRequestTypes,
    alterations: Iterable[Alteration],
    passwords: Mapping[Alteration, bytes],
) -> kafka.AlterUserScramCredentialsRequest:
    deletions, upsertions = [], []
    for one in alterations:
        mechanism = mechanism_number(one.mechanism)
        if isinstance(one, UserScramCredentialDeletion):
            deletions.append(types.ScramCredentialDeletion(name=one.user, mechanism=mechanism))
        else:
            upsertions.append(
                types.ScramCredentialUpsertion(
                    name=one.user,
                    mechanism=mechanism,
                    iterations=one.iterations,
                    salt=one.salt,
                    salted_password=passwords[one],
                )
            )
    return types.AlterUserScramCredentialsRequest(
        deletions=tuple(deletions), upsertions=tuple(upsertions)
    )
