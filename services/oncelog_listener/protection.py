"""How the connections of this listener are protected: its certificates, and who may log in."""

import hashlib
import ssl
from collections.abc import Mapping
from typing import Any, Final

from oncelog.rpc.metadata import MetadataFollower
from oncelog.security import principal
from oncelog.security.sasl import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    PasswordVerifier,
    SaslServer,
    ScramCredential,
    TokenValidator,
    make_sasl_server,
)
from oncelog_listener.cluster import Cluster
from oncelog_listener.sasl_session import SaslSession

SCRAM_NAMES: Final = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""By Kafka's number of the mechanism."""
_SCRAM_NUMBERS: Final = {name: number for number, name in SCRAM_NAMES.items()}


class UsersOfMetadata:
    """`Credentials`: SCRAM users of the newest metadata, PLAIN users of a file, tokens of a key server."""

    def __init__(
        self,
        metadata: MetadataFollower,
        plain_users: Mapping[str, PasswordVerifier],
        tokens: TokenValidator | None,
    ) -> None:
        self._metadata = metadata
        self._plain_users = plain_users
        self.tokens = tokens

    @property
    def unknown_user_key(self) -> bytes:
        # Nobody who has not logged in knows the cluster id, 122 bits of chance.
        return hashlib.sha256(b"unknown user " + self._metadata.image.cluster_id.encode()).digest()

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        key = (user, _SCRAM_NUMBERS[mechanism])
        found = self._metadata.image.security.credentials.get(key)
        if found is None:
            return None
        return ScramCredential(found.salt, found.stored_key, found.server_key, found.iterations)

    def plain(self, user: str) -> PasswordVerifier | None:
        return self._plain_users.get(user)


class Protection:
    """Built from the settings; `start` reads the files that they name."""

    def __init__(self, cluster: Cluster) -> None:
        self._settings = cluster.settings
        self._users = UsersOfMetadata(cluster.metadata, {}, None)

    async def start(self) -> None:
        """Read certificates, keys and users. Raises OncelogError that names the file and the way out."""

    async def stop(self) -> None:
        """End what refreshes keys and certificates."""

    def tls_context(self) -> ssl.SSLContext:
        """With the certificates of the moment."""
        raise NotImplementedError

    def principal_of(self, certificate: Mapping[str, Any] | None) -> str:
        """Who shows this certificate."""
        return str(principal.ANONYMOUS)

    def sasl_session(self) -> SaslSession:
        settings = self._settings
        return SaslSession(
            settings.sasl_mechanisms, self._server, settings.connections_max_reauth_ms
        )

    def _server(self, mechanism: str, is_reauthentication: bool) -> SaslServer:
        return make_sasl_server(mechanism, self._users, is_reauthentication=is_reauthentication)
