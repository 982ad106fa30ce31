"""Settings that would let everybody in are refused, with the way out."""

import pytest
from pydantic import ValidationError
from tests.certificates import Authority

from oncelog.errors import OncelogError
from oncelog.security.api_tokens import Role
from oncelog_gateway.access import claimed
from oncelog_gateway.access_settings import is_loopback
from oncelog_gateway.admin_token import AdminTokenFile
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.tls import build_tls
from oncelog_gateway.ways_in import ways_in


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "oncelog.example", ""])
def test_beyond_loopback_authentication_must_be_said(host):
    with pytest.raises(OncelogError, match="ONCELOG_GATEWAY_AUTHENTICATION=required"):
        ways_in(GatewaySettings(host=host), host)
    ways_in(GatewaySettings(host=host, authentication="none"), host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_login(host):
    assert is_loopback(host)
    ways_in(GatewaySettings(host=host), host)


@pytest.mark.parametrize("content", ["", "short", "two words " * 10, "é" * 40])
def test_a_weak_admin_token_is_refused_and_not_shown(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(OncelogError, match=str(path)) as refused:
        AdminTokenFile(path)
    assert not content.strip() or content not in str(refused.value)


def test_a_missing_admin_token_file_is_named(tmp_path):
    with pytest.raises(OncelogError, match="openssl rand"):
        AdminTokenFile(tmp_path / "none")


@pytest.mark.parametrize(
    "wrong",
    [
        {"oidc_issuer": "https://idp"},
        {"oidc_jwks": "keys.json", "oidc_issuer": "https://idp"},
        {"tls_key_file": "key.pem"},
        {"oidc_roles": "a=root"},
        {"oidc_roles": "admin"},
    ],
)
def test_half_of_a_setting_is_refused(wrong):
    with pytest.raises(ValidationError):
        GatewaySettings(**wrong)


def test_a_name_of_the_provider_becomes_a_role():
    settings = GatewaySettings(oidc_roles="/ops=operator, a=b=admin,")
    assert settings.roles_of_claim == {"/ops": Role.OPERATOR, "a=b": Role.ADMIN}


@pytest.mark.parametrize(
    ("claims", "path", "names"),
    [
        ({"roles": ["a", "b", 3]}, "roles", ["a", "b"]),
        ({"scope": "a b"}, "scope", ["a", "b"]),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ["a"]),
        ({"https://x.y/roles": ["a"]}, "https://x.y/roles", ["a"]),
        ({"roles": {"a": 1}}, "roles", []),
        ({"realm_access": "x"}, "realm_access.roles", []),
        ({}, "roles", []),
    ],
)
def test_names_of_roles_are_found_in_the_claim(claims, path, names):
    assert claimed(claims, path) == names


def test_tls_1_2_can_be_turned_off(tmp_path):
    files = Authority(tmp_path).issue("gateway")
    paths = {"tls_certificate_file": files.certificate_chain, "tls_key_file": files.key}
    alone = GatewaySettings(**paths, tls_enabled_protocols="TLSv1.3")
    for settings, least in ((GatewaySettings(**paths), "TLSv1_2"), (alone, "TLSv1_3")):
        assert build_tls(settings).current().minimum_version.name == least
