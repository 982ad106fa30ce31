"""Users of SCRAM, set by our administrator (KIP-554): they log in with the password that it was given, and no other."""

import pytest
from tests.free_ports import free_block
from tests.integration.client.writers import fresh

from oncelog.client import (
    Admin,
    AuthenticationError,
    RefusedError,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from oncelog.client.core.scram_users import ScramCredentialInfo
from oncelog.errors import ErrorCode
from oncelog_server.demo.processes import OncelogServer

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def listeners(tmp_path_factory):
    """One for administrators, one where SCRAM is asked for."""
    inside, outside = (f"127.0.0.1:{port}" for port in free_block(2))
    environment = {
        "ONCELOG_LISTENER_LISTENERS": f"PLAINTEXT://{inside},OUTSIDE://{outside}",
        "ONCELOG_LISTENER_LISTENER_SECURITY_PROTOCOL_MAP": "OUTSIDE:SASL_PLAINTEXT",
    }
    port = int(inside.rpartition(":")[2])
    data = tmp_path_factory.mktemp("server") / "data"
    with OncelogServer(data, port=port, environment=environment):
        yield inside, outside


@pytest.fixture
async def admin(listeners):
    async with Admin(listeners[0]) as found:
        yield found


async def logs_in(listeners, user, password, mechanism):
    config = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    try:
        async with Admin(listeners[1], config):
            return True
    except AuthenticationError:
        return False


async def test_a_user_logs_in_with_what_was_set_and_is_deleted(admin, listeners):
    user, password = fresh("user"), "pässwörd ✓, = and %"
    (
        await admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(user, SHA_512, password, 8192),
                UserScramCredentialUpsertion(user, SHA_256, password, salt=b"chosen here"),
            ]
        )
    ).check()
    described = await admin.describe_user_scram_credentials([user])
    both = (ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192))
    assert described[user] == both
    assert (await admin.describe_user_scram_credentials())[user] == both
    for mechanism in (SHA_256, SHA_512):
        assert await logs_in(listeners, user, password, mechanism)
        assert not await logs_in(listeners, user, "another", mechanism)

    changed = UserScramCredentialUpsertion(user, SHA_512, "changed")
    deleted = UserScramCredentialDeletion(user, SHA_256)
    (await admin.alter_user_scram_credentials([changed, deleted])).check()
    assert await logs_in(listeners, user, "changed", SHA_512)
    assert not await logs_in(listeners, user, password, SHA_256)
    last = [UserScramCredentialDeletion(user, SHA_512)]
    (await admin.alter_user_scram_credentials(last)).check()
    again = (await admin.alter_user_scram_credentials(last)).errors[last[0]]
    assert again.error_code is ErrorCode.RESOURCE_NOT_FOUND
    assert f"SCRAM-SHA-512 of user '{user}'" in str(again)
    with pytest.raises(RefusedError, match=user) as caught:
        assert (await admin.describe_user_scram_credentials([user]))[user]
    assert caught.value.error_code is ErrorCode.RESOURCE_NOT_FOUND


async def test_the_alterations_of_one_user_are_done_in_their_order(admin, listeners):
    user, other = fresh("user"), fresh("user")
    alterations = [
        UserScramCredentialUpsertion(user, SHA_512, "first"),
        UserScramCredentialUpsertion(other, SHA_512, "other"),
        UserScramCredentialDeletion(user, SHA_512),
        UserScramCredentialUpsertion(user, SHA_512, "last"),
    ]
    (await admin.alter_user_scram_credentials(alterations)).check()
    assert await logs_in(listeners, user, "last", SHA_512)
    assert await logs_in(listeners, other, "other", SHA_512)


@pytest.mark.parametrize(
    ("alteration", "code", "said"),
    [
        (("a", SHA_256, "p", 4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "4096 to 16384"),
        (("a", SHA_256, "p", 10**12), ErrorCode.UNACCEPTABLE_CREDENTIAL, "4096 to 16384"),
        (("a", SHA_256, ""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "the password is empty"),
        (("a", SHA_256, "\ud800"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "no UTF-8 form"),
        (("ü", SHA_256, "p"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "a name that is not ASCII"),
        (("", SHA_256, "p"), ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name is empty"),
        (("a", "SCRAM-SHA-1", "p"), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "there are SCRAM"),
    ],
)
async def test_what_no_server_stores_is_told_and_the_rest_is_done(admin, alteration, code, said):
    wrong = UserScramCredentialUpsertion(*alteration)
    right = UserScramCredentialUpsertion(fresh("user"), SHA_256, "secret password")
    found = await admin.alter_user_scram_credentials([wrong, right])
    assert list(found.errors) == [wrong]
    assert found.errors[wrong].error_code is code
    assert said in str(found.errors[wrong])
    assert right.user in await admin.describe_user_scram_credentials([right.user])


async def test_no_users_asked_for_are_none(admin):
    assert dict(await admin.describe_user_scram_credentials([])) == {}


def test_a_password_is_never_shown():
    shown = repr(UserScramCredentialUpsertion("a", SHA_256, "secret", salt=b"salt of it"))
    assert "secret" not in shown
    assert "salt of it" not in shown
