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
from tests.integration.listener.test_listener_logins import PASSWORD, against_secured, produced
from tests.unit.listener.wire_client import WireClient

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
        future.result(10)


async def challenge(secured, name):
    """Salt and iterations."""
    wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
    assert (await wire.call(SASL_HANDSHAKE, 1, mechanism=MECHANISM)).error_code == 0
    first = f"n,,n={name},r=nonce".encode()
    answer = await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=first)
    assert answer.error_code == 0, answer.error_message
    wire.close()
    salt, iterations = CHALLENGE.fullmatch(answer.auth_bytes).groups()
    return base64.b64decode(salt), int(iterations)


async def challenges(secured):
    return {name: await challenge(secured, name) for name in NAMES}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What strangers saw while two users of two forms were there, and their forms."""
    found, folder = {}, tmp_path_factory.mktemp("log")

    def make_users(secured):
        add_user(secured, "alice", 4_096)
        add_user(secured, "bob", 10_000)
        assert produced(secured.login("alice")) == "TOPIC_AUTHORIZATION_FAILED"

    async def ask(secured):
        found["first"] = await challenges(secured)
        found["again"] = await challenges(secured)
        found["users"] = [form_of(*await challenge(secured, name)) for name in ("alice", "bob")]
        cluster = await asyncio.to_thread(secured.admin.list_topics, timeout=10)
        found["cluster"] = cluster.cluster_id

    against_secured(folder, make_users)
    against_secured(folder, ask, is_async=True)
    first = found["first"]
    against_secured(folder, ask, is_async=True)
    found["before the restart"] = first
    return found


def test_strangers_salts_stay_and_look_like_those_of_users(seen):
    assert seen["first"] == seen["again"] == seen["before the restart"]
    found = Counter(form_of(*one) for one in seen["first"].values())
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
        assert guessed.isdisjoint(seen["first"].values())
