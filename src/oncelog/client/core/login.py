"""A client's login from Kafka's names: those of `client.properties`, of librdkafka, and of Spark's `kafka.…`.

Certificates and keys are PEM files. A value that holds a secret is never part of an error.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

from oncelog.errors import OncelogError
from oncelog.security.sasl import MECHANISMS, OAUTHBEARER

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_PROTOCOL: Final = "security.protocol"
_JAAS: Final = "sasl.jaas.config"
_HOST_NAME: Final = "ssl.endpoint.identification.algorithm"
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE: Final = "sasl.oauthbearer.scope"
_SAME: Final = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": _CLIENT_ID,
    "sasl.oauthbearer.client.secret": _CLIENT_SECRET,
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.location": "ssl.certificate.location",
}
"""Further names of settings: librdkafka's, or Kafka's for what is one file here."""
NAMES: Final = (
    _PROTOCOL,
    "sasl.mechanism",
    _JAAS,
    "sasl.username",
    "sasl.password",
    _ENDPOINT,
    _CLIENT_ID,
    _CLIENT_SECRET,
    _SCOPE,
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.keystore.type",
    _HOST_NAME,
    *_SAME,
)
_IN_A_FILE: Final = "write the PEM into a file and give "
_REFUSED: Final = {
    "ssl.truststore.certificates": f"{_IN_A_FILE}ssl.truststore.location",
    "ssl.keystore.certificate.chain": f"{_IN_A_FILE}ssl.certificate.location",
    "ssl.keystore.key": f"{_IN_A_FILE}ssl.key.location",
    "ssl.truststore.password": "a PEM file of CAs has none; leave it out",
    "sasl.oauthbearer.method": "it is oidc here in any case; leave it out",
    "sasl.login.callback.handler.class": f"with {_ENDPOINT} there is one here; leave it out",
    "ssl.keystore.password": "a PEM file has none; ssl.key.password is that of the key",
}
_LOGIN_MODULE: Final = re.compile(
    r"\s*(?P<module>[\w.]+)\s+(?:required|requisite|sufficient|optional)\s+(?P<options>.*);\s*",
    re.DOTALL | re.IGNORECASE,
)
_JAAS_OPTION: Final = re.compile(
    r"""\s*([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"';]+)\s*""", re.DOTALL
)
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_JAAS_NAMES: Final = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": _CLIENT_ID,
    "clientSecret": _CLIENT_SECRET,
    "scope": _SCOPE,
}
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """The settings by which a client logs in: TLS files, SASL mechanism, user, token. An empty path: there is no such
    file."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    """The file of trusted authorities; empty: the CAs of the machine."""
    certificate: str = ""
    key: str = ""
    """The file of the private key; empty: the key stands in the certificate's file."""
    key_password: str = field(default="", repr=False)
    checks_host_name: bool = True
    token_endpoint: str = ""
    """For OAUTHBEARER: the address of a token provider, or `file:///…`, whose content is the token."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def login_of(properties: Mapping[str, str], prefix: str = "") -> ClientLogin:
    """Return the login that these settings describe. `prefix` stands before each name in an error.

    Raises OncelogError that names a setting or value which cannot be.
    """
    given = {name: value.strip() for name, value in properties.items() if value.strip()}
    for name in given:
        _check_name(name, prefix)
    for name, same in _SAME.items():
        if name in given:
            value = given.pop(name)
            if given.setdefault(same, value) != value:
                raise OncelogError(f"{prefix}{name} and {prefix}{same} differ; give one of them")
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        if (kind := given.get(name, "PEM")).upper() != "PEM":
            raise OncelogError(
                f"{prefix}{name} is {kind!r}, and only PEM is read: convert the store with keytool and openssl"
            )
    protocol = given.get(_PROTOCOL, "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise OncelogError(
            f"{prefix}{_PROTOCOL} is {given[_PROTOCOL]!r}: give {', '.join(PROTOCOLS)}"
        )
    given |= _of_jaas(given, prefix)
    login = ClientLogin(
        protocol=protocol,
        mechanism=given.get("sasl.mechanism", "").upper(),
        user=given.get("sasl.username", ""),
        password=given.get("sasl.password", ""),
        ca=given.get("ssl.ca.location", ""),
        certificate=given.get("ssl.certificate.location", ""),
        key=given.get("ssl.key.location", ""),
        key_password=given.get("ssl.key.password", ""),
        checks_host_name=_checks_host_name(properties, prefix),
        token_endpoint=given.get(_ENDPOINT, ""),
        client_id=given.get(_CLIENT_ID, ""),
        client_secret=given.get(_CLIENT_SECRET, ""),
        scope=given.get(_SCOPE, ""),
    )
    _check_whole(login, given, prefix)
    return login


def _check_name(name: str, prefix: str) -> None:
    if name in NAMES:
        return
    if name in _REFUSED:
        raise OncelogError(f"{prefix}{name} is not supported: {_REFUSED[name]}")
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.85)
    way_out = f"did you mean {near[0]}?" if near else f"leave it out; there are {', '.join(NAMES)}"
    raise OncelogError(f"{prefix}{name} is not supported: {way_out}")


def _of_jaas(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Read `sasl.jaas.config`, Kafka's older setting for a whole login. Return its options under the names of the
    single settings."""
    if _JAAS not in given:
        return {}
    found = _LOGIN_MODULE.fullmatch(given[_JAAS])
    module = "" if found is None else found["module"].rpartition(".")[2]
    if found is None or module not in _MODULES:
        raise OncelogError(
            f"{prefix}{_JAAS} {f'names {module}, which' if module else 'cannot be read, or'} is not supported; write "
            "org.apache.kafka.common.security.scram.ScramLoginModule (or plain.PlainLoginModule) required "
            'username="…" password="…";'
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
        for name, value in _JAAS_OPTION.findall(found["options"])
    }
    jaas_options = {same: options[name] for name, same in _JAAS_NAMES.items() if options.get(name)}
    for name in jaas_options:
        if name in given:
            raise OncelogError(f"{prefix}{_JAAS} and {prefix}{name} say the same; give one of them")
    return jaas_options


def properties_of(login: ClientLogin) -> dict[str, str]:
    """Return settings from which `login_of` makes this login again. They contain secrets."""
    said = {
        _PROTOCOL: login.protocol,
        "sasl.mechanism": login.mechanism,
        "sasl.username": login.user,
        "sasl.password": login.password,
        "ssl.ca.location": login.ca,
        "ssl.certificate.location": login.certificate,
        "ssl.key.location": login.key,
        "ssl.key.password": login.key_password,
        _HOST_NAME: "" if login.checks_host_name else "none",
        _ENDPOINT: login.token_endpoint,
        _CLIENT_ID: login.client_id,
        _CLIENT_SECRET: login.client_secret,
        _SCOPE: login.scope,
    }
    return {name: value for name, value in said.items() if value}


def _checks_host_name(properties: Mapping[str, str], prefix: str) -> bool:
    """True unless the check of host names is switched off: by an empty value as in Kafka, or by `none` as in
    librdkafka."""
    value = properties.get(_HOST_NAME, "https").strip().lower()
    if value not in ("https", "none", ""):
        raise OncelogError(f"{prefix}{_HOST_NAME} is {value!r}: give https or none")
    return value == "https"


def _check_whole(login: ClientLogin, given: Mapping[str, str], prefix: str) -> None:
    for name in given:
        is_needless = (name.startswith("sasl.") and not login.has_sasl) or (
            name.startswith("ssl.") and not login.has_tls
        )
        if is_needless:
            wanted = "SASL_SSL" if name.startswith("sasl.") or login.has_sasl else "SSL"
            raise OncelogError(
                f"{prefix}{name} is given, and {prefix}{_PROTOCOL} is {login.protocol}: write {_PROTOCOL}={wanted}, "
                "or leave it out"
            )
    if login.key and not login.certificate:
        raise OncelogError(
            f"{prefix}ssl.key.location needs {prefix}ssl.certificate.location, the file with its certificate"
        )
    if not login.has_sasl:
        return
    if login.mechanism not in MECHANISMS:
        said = f"is {login.mechanism!r}" if login.mechanism else "is missing"
        raise OncelogError(f"{prefix}sasl.mechanism {said}: give {', '.join(MECHANISMS)}")
    if login.mechanism == OAUTHBEARER:
        _check_endpoint(login, prefix)
    elif not login.user or not login.password:
        missing = "password" if login.user else "user"
        raise OncelogError(
            f"the {missing} is missing: give {prefix}sasl.username and {prefix}sasl.password, or {prefix}{_JAAS}"
        )


def _parsed(address: str) -> SplitResult | None:
    """Return the parts of a URL; None for text that is no URL of a token provider or a file."""
    try:
        found = urlsplit(address)
        has_place = bool(found.hostname) and found.port != 0
    except ValueError:
        return None
    if found.scheme == "file":
        return found if found.path and found.netloc in ("", "localhost") else None
    return found if found.scheme in ("https", "http") and has_place else None


def _check_endpoint(login: ClientLogin, prefix: str) -> None:
    endpoint = _parsed(login.token_endpoint)
    if endpoint is None:
        said = f"is {login.token_endpoint!r}" if login.token_endpoint else "is missing"
        raise OncelogError(
            f"{prefix}{_ENDPOINT} {said}: give the https address of the token provider, or file:///… with a token"
        )
    if endpoint.scheme == "file":
        return
    if endpoint.scheme == "http" and endpoint.hostname not in _LOOPBACK:
        raise OncelogError(
            f"{prefix}{_ENDPOINT} is {login.token_endpoint!r}, where the secret would be seen on the way: give https"
        )
    if not login.client_id or not login.client_secret:
        missing = _CLIENT_SECRET if login.client_id else _CLIENT_ID
        raise OncelogError(f"{prefix}{missing} is missing: the token provider asks for it")
