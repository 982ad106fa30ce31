"""A token provider whose certificate is of a private CA: listeners and gateways read its keys by that CA alone."""

import json
import time

import pytest
from tests.access_tokens import AUDIENCE, ISSUER, sign
from tests.certificates import Authority
from tests.integration.gateway.test_gateway_access import bearer
from tests.integration.gateway.test_gateway_access import secured as secured_gateway
from tests.integration.listener.secured_log import (
    SASL_AUTHENTICATION_FAILED,
    logged_in,
    secured_log,
)
from tests.integration.security.test_keys_over_https import KEY, providing

from oncelog.errors import OncelogError


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
def provider(authority):
    with providing(authority.issue("provider")) as server:
        yield server


def token():
    return sign(KEY, kid="one", now_s=int(time.time()), sub="alice", roles=["oncelog-viewer"])


def of_listener(provider, ca_file):
    return {
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_oauthbearer_jwks": f"{provider.address}/keys",
        "sasl_oauthbearer_ssl_ca_file": ca_file,
        "sasl_oauthbearer_issuer": ISSUER,
        "sasl_oauthbearer_audience": AUDIENCE,
    }


def of_gateway(provider, ca_file):
    return {
        "oidc_jwks": f"{provider.address}/keys",
        "oidc_ca_file": ca_file,
        "oidc_issuer": ISSUER,
        "oidc_audience": AUDIENCE,
    }


async def test_a_listener_takes_tokens_of_a_private_ca(tmp_path, provider, authority):
    settings = of_listener(provider, str(authority.pem))
    with secured_log(tmp_path, **settings) as secured:
        _, answers = await logged_in(secured, token())
        assert [one.error_code for one in answers] == [0]


@pytest.mark.parametrize("ca_file", [None, "other"])
async def test_a_listener_believes_no_other_ca(tmp_path, provider, ca_file):
    other = Authority(tmp_path / "other")
    settings = of_listener(provider, ca_file and str(other.pem))
    with secured_log(tmp_path, **settings) as secured:
        _, answers = await logged_in(secured, token())
        assert answers[-1].error_code == SASL_AUTHENTICATION_FAILED


async def test_a_renewed_ca_file_counts_for_the_next_look(tmp_path, provider, authority):
    """The first look fails by the wrong CA; a new one stands in the same file at the next."""
    ca_file = tmp_path / "ca-of-provider.pem"
    ca_file.write_bytes(Authority(tmp_path / "other").pem.read_bytes())
    settings = of_listener(provider, str(ca_file))
    with secured_log(tmp_path, **settings) as secured:
        assert (await logged_in(secured, token()))[1][-1].error_code == SASL_AUTHENTICATION_FAILED
        ca_file.write_bytes(authority.pem.read_bytes())
        while (await logged_in(secured, token()))[1][-1].error_code:
            pass


async def test_a_gateway_takes_tokens_of_a_private_ca(tmp_path, provider, authority):
    async with secured_gateway(tmp_path, **of_gateway(provider, authority.pem)) as (_, client):
        response = await client.ask("GET", "/v1/whoami", bearer(token()))
        assert json.loads(response.text)["role"] == "viewer"
    async with secured_gateway(tmp_path, **of_gateway(provider, None)) as (_, client):
        assert (await client.ask("GET", "/v1/whoami", bearer(token()))).status == 401


@pytest.fixture(params=[(None, "No such file"), ("none", "a CA certificate")])
def bad_file(request, tmp_path):
    """A path, and what its error says."""
    content, said = request.param
    path = tmp_path / "private-ca.pem"
    if content is not None:
        path.write_text(content)
    return path, said


def test_a_listener_names_a_ca_file_that_is_none(tmp_path, provider, bad_file):
    path, said = bad_file
    settings = of_listener(provider, str(path))
    with (
        pytest.raises(OncelogError, match=rf"private-ca.pem.*{said}.*SSL_CA_FILE"),
        secured_log(tmp_path, **settings),
    ):
        pass


async def test_a_gateway_names_a_ca_file_that_is_none(tmp_path, provider, bad_file):
    path, said = bad_file
    with pytest.raises(OncelogError, match=rf"private-ca.pem.*{said}.*_CA_FILE"):
        async with secured_gateway(tmp_path, **of_gateway(provider, path)):
            pass


def test_a_ca_file_beside_a_file_of_keys_is_refused(tmp_path, provider, authority):
    settings = of_listener(provider, str(authority.pem))
    settings["sasl_oauthbearer_jwks"] = "keys.json"
    with (
        pytest.raises(OncelogError, match=r"'keys.json' is a file; leave them out"),
        secured_log(tmp_path, **settings),
    ):
        pass
