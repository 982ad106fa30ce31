"""Broker configs of logins, TLS and access: settings of a listener's process, which do not change while it runs.

DescribeConfigs shows them. Names, types and defaults are those of Kafka 4.4, but `sasl.enabled.mechanisms`: a listener
serves no GSSAPI.
"""

from typing import Final

from oncelog.config_key import ConfigKey, ConfigType


def _key(
    name: str, kind: ConfigType, default: str, doc: str, setting: str
) -> tuple[ConfigKey, str]:
    return ConfigKey(name, kind, default, doc, may_be_empty=True), f"listener.{setting}"


SECURITY: Final = (
    _key(
        "authorizer.class.name",
        "string",
        "",
        "acl: ACLs decide what clients may do; empty: everybody may do everything",
        "authorizer_class_name",
    ),
    _key(
        "connections.max.reauth.ms",
        "long",
        "0",
        "a SASL session ends after this time unless its client logs in again",
        "connections_max_reauth_ms",
    ),
    _key(
        "max.connections.per.ip",
        "int",
        "2147483647",
        "connections open from one address",
        "connections_per_address_max",
    ),
    _key(
        "sasl.enabled.mechanisms",
        "list",
        "",
        "SASL mechanisms that clients may use",
        "sasl_enabled_mechanisms",
    ),
    _key(
        "sasl.server.max.receive.size",
        "int",
        "524288",
        "largest request before the login",
        "unauthenticated_bytes_max",
    ),
    _key(
        "ssl.client.auth",
        "string",
        "none",
        "whether clients of a TLS listener show a certificate",
        "ssl_client_auth",
    ),
    _key(
        "ssl.enabled.protocols",
        "list",
        "TLSv1.2,TLSv1.3",
        "versions of TLS",
        "ssl_enabled_protocols",
    ),
    _key(
        "ssl.principal.mapping.rules",
        "string",
        "DEFAULT",
        "how a certificate's name becomes a user",
        "ssl_principal_mapping_rules",
    ),
)
"""The broker configs of logins, TLS and access. Each is a pair: the config, and the name of the setting that it shows,
such as `listener.sasl_enabled_mechanisms`."""
