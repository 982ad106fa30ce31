"""Settings of the gateway's logins: who may come in, and by what."""

from collections.abc import Mapping
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from oncelog.security.api_tokens import Role, role_of
from oncelog.security.tls import Protocols

_LOOPBACK_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


class AccessSettings(BaseSettings):
    """The part of the gateway's settings that says who may come in."""

    authentication: Literal["loopback", "required", "none"] = Field(
        "loopback",
        description="loopback: nobody logs in, and the gateway binds to a loopback address only; required: a token on "
        "every request but /health and /ready; none: nobody logs in, on any address",
    )
    admin_token_file: Path | None = Field(
        None,
        description="file with a token of the role admin, for the first `oncelog tokens create`; read again when it "
        "changes. Gateways with the same file know each other's console sessions",
    )
    oidc_jwks: str = Field(
        "", description="file or https URL of the keys that sign the provider's tokens (JWKS)"
    )
    oidc_ca_file: Path | None = Field(
        None,
        description="PEM file with the CAs that check the https URL of those keys; unset: those of the machine; "
        "a renewed file counts for the next look",
    )
    oidc_issuer: str = Field("", description="issuer that a token must have")
    oidc_audience: str = Field("", description="audiences, separated by commas; a token has one")
    oidc_principal_claim: str = Field("sub", description="claim of the token that names who asks")
    oidc_role_claim: str = Field(
        "roles", description="claim with the names of roles; a dot goes into it: realm_access.roles"
    )
    oidc_roles: str = Field(
        "oncelog-viewer=viewer,oncelog-operator=operator,oncelog-admin=admin",
        description="what a name in that claim is here: NAME=viewer|operator|admin, separated by commas",
    )
    session_timeout_ms: int = Field(
        28_800_000,
        ge=1_000,
        le=2_592_000_000,
        description="a login of the console ends after this time, or with its token",
    )
    failed_logins_max: int = Field(
        10,
        ge=1,
        le=1_000,
        description="wrong tokens of an address in a minute; one more is answered 429",
    )
    record_access: Literal["auto", "viewer", "acl"] = Field(
        "auto",
        description="who reads records here where no listener checks ACLs and there are none: auto: everybody where "
        "nobody logs in, else the role admin; viewer: every viewer; acl: the role admin. Where ACLs are, those whom "
        "one allows READ on the topic, and the role admin. Operators write by the same rule, with WRITE",
    )
    client_config: str = Field(
        "",
        description="client.properties of an administrator: commands on pages name it behind --config; it is not read",
    )
    metrics_without_login: bool = Field(
        False, description="/metrics needs no token; it names topics and groups"
    )
    tls_certificate_file: Path | None = Field(
        None, description="PEM file with the gateway's certificate and its chain; unset: plain HTTP"
    )
    tls_key_file: Path | None = Field(
        None, description="PEM file with the certificate's private key"
    )
    tls_enabled_protocols: Protocols = Field("TLSv1.2,TLSv1.3", description="versions of TLS")

    @field_validator("oidc_roles")
    @classmethod
    def _roles(cls, text: str) -> str:
        roles_by_name(text)
        return text

    @model_validator(mode="after")
    def _whole(self) -> "AccessSettings":
        given = [
            name for name in ("oidc_jwks", "oidc_issuer", "oidc_audience") if getattr(self, name)
        ]
        if 0 < len(given) < 3:
            raise ValueError(
                "a provider's tokens need oidc_jwks, oidc_issuer and oidc_audience; "
                f"given is only {' and '.join(given)}"
            )
        if self.tls_key_file is not None and self.tls_certificate_file is None:
            raise ValueError("tls_key_file needs tls_certificate_file")
        return self

    @property
    def is_login_required(self) -> bool:
        return self.authentication == "required"

    @cached_property
    def roles_of_claim(self) -> Mapping[str, Role]:
        return roles_by_name(self.oidc_roles)


def roles_by_name(text: str) -> Mapping[str, Role]:
    """Read `NAME=ROLE,NAME=ROLE` as roles by name. Raises ValueError that names the part that is wrong."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, word = part.rpartition("=")
        role = role_of(word.strip())
        if not name.strip() or role is None:
            raise ValueError(f"{part!r} is not NAME=viewer, NAME=operator or NAME=admin")
        found[name.strip()] = role
    return found


def is_loopback(host: str) -> bool:
    """True if `host` is an address of this machine alone, so nobody else can connect. A name other than `localhost` may
    stand for any address.
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES
