"""The settings for who may connect and what clients may do. The names are Kafka's, with a unit where one is needed."""

from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from oncelog.security.authorizer import AuthorizerRules
from oncelog.security.sasl import MECHANISMS
from oncelog.security.ssl_principal import PrincipalRules
from oncelog.security.tls import Protocols


class SecuritySettings(BaseSettings):
    """The part of the listener's settings that is about security."""

    ssl_certificate_file: Path | None = Field(
        None, description="PEM file with the listener's certificate and its chain"
    )
    ssl_key_file: Path | None = Field(
        None, description="PEM file with the certificate's private key"
    )
    ssl_key_password_file: Path | None = Field(
        None, description="file with the password of the key; unset, the key has none"
    )
    ssl_ca_file: Path | None = Field(
        None, description="PEM file with the CAs whose client certificates are trusted"
    )
    ssl_client_auth: Literal["none", "requested", "required"] = Field(
        "none", description="whether clients of a TLS listener show a certificate (ssl.client.auth)"
    )
    ssl_enabled_protocols: Protocols = Field(
        "TLSv1.2,TLSv1.3", description="versions of TLS (ssl.enabled.protocols)"
    )
    ssl_principal_mapping_rules: str = Field(
        "DEFAULT",
        description="how a certificate's name becomes a user (ssl.principal.mapping.rules): "
        "RULE:pattern/replacement/L,DEFAULT",
    )
    sasl_enabled_mechanisms: str = Field(
        "SCRAM-SHA-512,SCRAM-SHA-256",
        description="SASL mechanisms that clients may use (sasl.enabled.mechanisms)",
    )
    sasl_plain_users_file: Path | None = Field(
        None,
        description="file with a line USER:VERIFIER for each user of PLAIN; oncelog users plain writes it",
    )
    sasl_oauthbearer_jwks: str = Field(
        "", description="file or https URL of the keys that sign tokens (JWKS)"
    )
    sasl_oauthbearer_ssl_ca_file: Path | None = Field(
        None,
        description="PEM file with the CAs that check the https URL of those keys; unset: those of the machine; "
        "a renewed file counts for the next look",
    )
    sasl_oauthbearer_issuer: str = Field("", description="issuer that a token must have")
    sasl_oauthbearer_audience: str = Field(
        "", description="audiences, separated by commas; a token must have one"
    )
    sasl_oauthbearer_scope: str = Field(
        "", description="scopes, separated by commas; a token must have all"
    )
    sasl_oauthbearer_principal_claim: str = Field(
        "sub", description="claim of the token that names the user"
    )
    sasl_oauthbearer_clock_skew_ms: int = Field(
        30_000, ge=0, le=600_000, description="by how much clocks may differ when a token is judged"
    )
    connections_max_reauth_ms: int = Field(
        0,
        ge=0,
        description="a SASL session ends after this time unless its client logs in again (connections.max.reauth.ms); "
        "0: only a token's end ends it",
    )
    authentication_timeout_ms: int = Field(
        10_000, ge=100, description="a connection that has not logged in after this time is closed"
    )
    unauthenticated_max: int = Field(
        500, ge=1, description="connections that have not logged in yet; one more is closed"
    )
    unauthenticated_per_address_max: int = Field(50, ge=1, description="of those, from one address")
    unauthenticated_bytes_max: int = Field(
        524_288,
        ge=1024,
        description="largest frame before the login (sasl.server.max.receive.size)",
    )
    connections_per_address_max: int | None = Field(
        None, ge=1, description="connections open from one address (max.connections.per.ip)"
    )
    authorizer: Literal["none", "acl"] = Field(
        "none",
        description="acl: ACLs decide what clients may do; none: everybody may do everything",
    )
    super_users: str = Field(
        "",
        description="principals that may do everything, separated by semicolons: User:admin;User:root (super.users)",
    )
    allow_everyone_if_no_acl_found: bool = Field(
        False,
        description="a resource without any ACL is open to everybody (allow.everyone.if.no.acl.found)",
    )

    @field_validator("ssl_principal_mapping_rules")
    @classmethod
    def _rules(cls, text: str) -> str:
        PrincipalRules(text)
        return text

    @field_validator("sasl_enabled_mechanisms")
    @classmethod
    def _mechanisms(cls, text: str) -> str:
        for part in filter(None, (one.strip().upper() for one in text.split(","))):
            if part not in MECHANISMS:
                raise ValueError(f"{part!r} is not served; there are {', '.join(MECHANISMS)}")
        return text

    @field_validator("super_users")
    @classmethod
    def _principals(cls, text: str) -> str:
        for part in filter(None, (one.strip() for one in text.split(";"))):
            kind, _, name = part.partition(":")
            if not kind or not name:
                raise ValueError(f"{part!r} is not TYPE:NAME, such as User:admin")
        return text

    @cached_property
    def authorizer_rules(self) -> AuthorizerRules | None:
        """The settings of the authorizer; None: there is no authorizer, and everybody may do everything."""
        if self.authorizer == "none":
            return None
        users = frozenset(filter(None, (one.strip() for one in self.super_users.split(";"))))
        return AuthorizerRules(users, self.allow_everyone_if_no_acl_found)

    @cached_property
    def authorizer_class_name(self) -> str:
        """The authorizer's name as DescribeConfigs returns it: empty where there is none, as in Kafka."""
        return "" if self.authorizer == "none" else self.authorizer

    @cached_property
    def sasl_mechanisms(self) -> tuple[str, ...]:
        return tuple(
            filter(None, (one.strip().upper() for one in self.sasl_enabled_mechanisms.split(",")))
        )
