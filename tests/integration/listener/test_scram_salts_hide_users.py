"""A client that has not logged in asks for salts. They show of no user that it exists, also after a restart."""

import asyncio
import base64
import hashlib
import re
from collections import Counter

import pytest
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.integration.listener.secured_log import PASSWORD, produced, secured_log

from oncelog.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.security.scram_salts import form_of, unknown_salt

MECHANISM = "SCRAM-SHA-512"
NAMES = [f"stranger-{number}" for number in range(24)]
CHALLENGE = re.compile(rb"r=[^,]+,s=([^,]+),i=([0-9]+)")


def add_user(secured, name, iterations):
    """By librdkafka, which chooses 64 bytes for a salt."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, iterations)
    change = UserScramCredentialUpsertion(name, info, PASSWORD.encode())
    for future in secured.admin.alter_user_scram_credentials([change]).values():
        future.result(30)


async def challenge(secured, name):
    """Salt and iterations."""
    wire = await secured.wire()
    assert (await wire.call(SASL_HANDSHAKE, 1, mechanism=MECHANISM)).error_code == 0
    first = f"n,,n={name},r=nonce".encode()
    answer = await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=first)
    assert answer.error_code == 0, answer.error_message
    wire.close()
    salt, iterations = CHALLENGE.fullmatch(answer.auth_bytes).groups()
    return base64.b64decode(salt), int(iterations)


async def asked(secured):
    """What strangers see, twice, and the two users' forms."""
    twice = [{name: await challenge(secured, name) for name in NAMES} for _ in range(2)]
    return twice, [form_of(*await challenge(secured, name)) for name in ("alice", "bob")]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What strangers saw before and after a restart while two users of two forms were there, and their forms."""
    folder, found = tmp_path_factory.mktemp("log"), {"strangers": []}
    with secured_log(folder) as secured:
        add_user(secured, "alice", 4_096)
        add_user(secured, "bob", 10_000)
        assert produced(secured.login("alice")) == "TOPIC_AUTHORIZATION_FAILED"
    for _ in range(2):
        with secured_log(folder) as secured:
            strangers, found["users"] = asyncio.run(asked(secured))
            found["strangers"] += strangers
            found["cluster"] = secured.admin.list_topics(timeout=10).cluster_id
    return found


def test_strangers_salts_stay_and_look_like_those_of_users(seen):
    first, *later = seen["strangers"]
    assert later == [first] * 3
    found = Counter(form_of(*one) for one in first.values())
    assert set(found) == set(seen["users"])
    assert {form.iterations for form in found} == {4_096, 10_000}


def test_who_knows_the_cluster_id_computes_no_salt(seen):
    """Every user may read it, once logged in."""
    id_bytes = seen["cluster"].encode()
    for key in (
        id_bytes,
        hashlib.sha256(id_bytes).digest(),
        hashlib.sha256(b"unknown user " + id_bytes).digest(),
    ):
        guessed = {unknown_salt(key, MECHANISM, name, seen["users"]) for name in NAMES}
        assert guessed.isdisjoint(seen["strangers"][0].values())
