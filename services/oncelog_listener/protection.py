"""The protection of this listener's connections: its certificates, and the users that may log in."""

import importlib.util
import logging
import ssl
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from oncelog.api.v1.controller_pb2 import ScramCredential as ScramCredentialMessage
from oncelog.errors import OncelogError
from oncelog.rpc.metadata import MetadataFollower
from oncelog.security.plain import parse_users
from oncelog.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    SCRAM_NAMES,
    SCRAM_NUMBERS,
    PasswordVerifier,
    SaslServer,
    ScramCredential,
    TokenValidator,
)
from oncelog.security.sasl_servers import make_sasl_server
from oncelog.security.scram_salts import SaltForm, form_of, unknown_salt
from oncelog.security.ssl_principal import PrincipalRules
from oncelog.security.tls import (
    CHECK_INTERVAL_S,
    ClientCertificates,
    ReloadingContext,
    TlsFileError,
    TlsFiles,
    server_context,
)
from oncelog_listener.cluster import Cluster
from oncelog_listener.sasl_session import SaslSession
from oncelog_listener.security_settings import SecuritySettings

log = logging.getLogger("oncelog.listener")


class Users:
    """The users that may log in, as `Credentials` for SASL: SCRAM users of the newest metadata, PLAIN users of a file,
    holders of tokens of a key server."""

    def __init__(
        self, metadata: MetadataFollower, plain: "PlainUsers | None", tokens: TokenValidator | None
    ) -> None:
        self._metadata = metadata
        self._plain = plain
        self.tokens = tokens
        self._forms: Mapping[str, Collection[SaltForm]] = {}
        self._forms_of: Mapping[tuple[str, int], ScramCredentialMessage] | None = None

    def unknown_salt(self, mechanism: str, user: str) -> tuple[bytes, int]:
        security = self._metadata.image.security
        # Users of before there was a key: who has not logged in does not know the cluster id, 122 bits of chance.
        key = security.unknown_user_key or self._metadata.image.cluster_id.encode().ljust(16)
        if self._forms_of is not security.credentials:
            self._forms_of, self._forms = security.credentials, salt_forms(security.credentials)
        return unknown_salt(key, mechanism, user, self._forms.get(mechanism, ()))

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        key = (user, SCRAM_NUMBERS[mechanism])
        found = self._metadata.image.security.credentials.get(key)
        if found is None:
            return None
        return ScramCredential(found.salt, found.stored_key, found.server_key, found.iterations)

    def plain(self, user: str) -> PasswordVerifier | None:
        return None if self._plain is None else self._plain.find(user)


def salt_forms(
    credentials: Mapping[tuple[str, int], ScramCredentialMessage],
) -> Mapping[str, Collection[SaltForm]]:
    """Return, for each SCRAM mechanism, the forms (salt length and iterations) that its users' salts have. A salt for
    an unknown user must look like one of them."""
    found: dict[str, set[SaltForm]] = {}
    for (_, number), one in credentials.items():
        # During an upgrade a newer controller may keep mechanisms that this listener does not know.
        if number in SCRAM_NAMES:
            found.setdefault(SCRAM_NAMES[number], set()).add(form_of(one.salt, one.iterations))
    return found


class PlainUsers:
    """The users that may log in with PLAIN, from a file that may change. If the file cannot be read again, the last
    users stay."""

    def __init__(self, path: Path) -> None:
        """Read the file of users that log in by PLAIN. Raises OncelogError that names the file, and the line."""
        self._path = path
        self._checked_at = time.monotonic()
        self._text = ""
        self._users: Mapping[str, PasswordVerifier] = {}
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise OncelogError(
                f"the users of PLAIN cannot be read: {error}; `oncelog users plain NAME` prints a line of that file"
            ) from error

    def find(self, user: str) -> PasswordVerifier | None:
        now = time.monotonic()
        if now - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = now
            try:
                self._read()
            except (OSError, ValueError) as error:
                log.warning("the users of PLAIN stay as they were: %s", error)
        return self._users.get(user)

    def _read(self) -> None:
        text = self._path.read_text()
        if text != self._text:
            self._users = parse_users(text, str(self._path))
            self._text = text


class Protection:
    """The certificates, keys and users of this listener; `start` reads the files that the settings name."""

    def __init__(self, cluster: Cluster) -> None:
        self._settings = cluster.settings
        self._metadata = cluster.metadata
        self._users = Users(cluster.metadata, None, None)
        self._principals = PrincipalRules(cluster.settings.ssl_principal_mapping_rules)
        self._tls: ReloadingContext | None = None

    def start(self) -> None:
        """Read certificates, keys and users. Raises OncelogError that names the file and the way out."""
        settings = self._settings
        protocols = {one.protocol for one in settings.endpoints}
        if any(one.has_tls for one in protocols):
            self._tls = self._reloading_context()
        if any(one.has_sasl for one in protocols):
            self._users = Users(self._metadata, self._plain_users(), self._tokens())

    def _reloading_context(self) -> ReloadingContext:
        settings = self._settings
        files = TlsFiles(
            settings.ssl_certificate_file,
            settings.ssl_key_file,
            settings.ssl_key_password_file,
            settings.ssl_ca_file,
        )
        client_certificates = ClientCertificates(settings.ssl_client_auth)
        try:
            return ReloadingContext(
                files,
                lambda found: server_context(
                    found, client_certificates, protocols=settings.ssl_enabled_protocols
                ),
                log.warning,
            )
        except TlsFileError as error:
            raise OncelogError(
                f"{error} (ONCELOG_LISTENER_SSL_CERTIFICATE_FILE, …_SSL_KEY_FILE, …_SSL_CA_FILE)"
            ) from error

    def _plain_users(self) -> PlainUsers | None:
        path = self._settings.sasl_plain_users_file
        if PLAIN not in self._settings.sasl_mechanisms:
            return None
        if path is None:
            raise OncelogError(
                "SASL mechanism PLAIN needs a file of users: ONCELOG_LISTENER_SASL_PLAIN_USERS_FILE"
            )
        return PlainUsers(path)

    def _tokens(self) -> TokenValidator | None:
        if OAUTHBEARER not in self._settings.sasl_mechanisms:
            return None
        try:
            return _token_validator(self._settings)
        except ValueError as error:
            raise OncelogError(
                f"{error} (ONCELOG_LISTENER_SASL_OAUTHBEARER_JWKS, …_SSL_CA_FILE, …_ISSUER, …_AUDIENCE)"
            ) from error

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context with the newest certificates."""
        assert self._tls is not None, "started without TLS"
        return self._tls.current()

    def principal_of(self, certificate: bytes | None) -> str:
        """Return the principal of a client that showed this certificate, in DER; None: it showed none. Raises
        NoMatchingRuleError."""
        return str(self._principals.principal_of(certificate))

    def sasl_session(self) -> SaslSession:
        settings = self._settings
        return SaslSession(
            settings.sasl_mechanisms, self._server, settings.connections_max_reauth_ms
        )

    def _server(self, mechanism: str, is_reauthentication: bool) -> SaslServer:
        return make_sasl_server(mechanism, self._users, is_reauthentication=is_reauthentication)


def _token_validator(settings: SecuritySettings) -> TokenValidator:
    """Return the validator of access tokens for OAUTHBEARER. Raises ValueError for settings that contradict each other,
    OncelogError if its packages are not installed."""
    # A listener without tokens needs neither these modules nor their packages.
    from oncelog.security.jwks import keys_of
    from oncelog.security.jwt_tokens import JwtValidator, TokenRules

    if importlib.util.find_spec("jwt") is None or importlib.util.find_spec("cryptography") is None:
        raise OncelogError("access tokens need packages: pip install 'oncelog[security]'")
    rules = TokenRules(
        issuer=settings.sasl_oauthbearer_issuer,
        audiences=frozenset(_listed(settings.sasl_oauthbearer_audience)),
        required_scopes=frozenset(_listed(settings.sasl_oauthbearer_scope)),
        principal_claim=settings.sasl_oauthbearer_principal_claim,
        clock_skew_s=settings.sasl_oauthbearer_clock_skew_ms // 1000,
    )
    place = settings.sasl_oauthbearer_jwks
    if not place:
        raise ValueError("SASL mechanism OAUTHBEARER needs the keys that sign tokens (JWKS)")
    keys = keys_of(place, log.warning, authorities=settings.sasl_oauthbearer_ssl_ca_file)
    return JwtValidator(rules, keys, time.time)


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]
