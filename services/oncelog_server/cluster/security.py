"""The security of a cluster: a CA, an identity for each role, and an administrator who may do everything.

```
security/             0700   ca.pem, ca.key, and <role>.pem, <role>.key of each role: `oncelog pki`'s files
client.properties     0600   what Kafka's tools and `oncelog --config` need to log in as the administrator
metrics-token         0600   what a scrape of a process's /metrics shows
```

Processes prove their roles to each other with the certificates. Clients come over TLS and log in with SCRAM; ACLs say
what each may do. The password stands in `client.properties` alone: processes keep what SCRAM derives from it.
"""

import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import OncelogError
from oncelog.rpc.callers import GATEWAY, LISTENER
from oncelog.rpc.channel import PlainStub, open_blocking_channel
from oncelog.rpc.contract import CONTROLLER
from oncelog.rpc.mutual_tls import MutualTls
from oncelog.security.sasl import SCRAM_NUMBERS, SCRAM_SHA_512
from oncelog_server.cluster.state_file import ClusterState

CLIENT_PROPERTIES: Final = "client.properties"
METRICS_TOKEN: Final = "metrics-token"
ADMIN: Final = "admin"
CLIENT_LISTENER: Final = "SASL_SSL"
"""Name of the one listener for clients, and its protocol."""
_FOLDER: Final = "security"
_ADMIT_TIMEOUT_S: Final = 10.0


def keep_doors_plain(state: ClusterState) -> None:
    """Let clients connect to a secured cluster without TLS and login; only the processes still prove their roles to
    each other. For tests, as `Cluster(on_plan=keep_doors_plain)`.
    """
    for member in state.members:
        if member.role == LISTENER:
            state.environments.setdefault(member.name, {}).update(
                ONCELOG_LISTENER_LISTENERS=f"PLAINTEXT://{member.address}",
                ONCELOG_LISTENER_AUTHORIZER="none",
            )


class ClusterSecurity:
    """The certificates, passwords and tokens in one cluster's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self.client_properties = folder / CLIENT_PROPERTIES
        self.metrics_token = folder / METRICS_TOKEN

    def prepare(self, bootstrap: str) -> None:
        """Write the files of a start. Each role gets a new certificate from the CA, which is made if there is none. The
        administrator's password and the token of the metrics stay. `bootstrap` has the addresses for
        `client.properties`.
        """
        from oncelog.security.pki import make_development_pki, write_private

        make_development_pki(self._folder, force=True)
        self._folder.chmod(0o700)
        password = self._password() or secrets.token_urlsafe(24)
        lines = (
            "# Kafka's names: for `oncelog --config`, and for Kafka's tools with --command-config",
            f"bootstrap.servers={bootstrap}",
            f"security.protocol={CLIENT_LISTENER}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self._folder / 'ca.pem'}",
            f"sasl.mechanism={SCRAM_SHA_512}",
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{ADMIN}" password="{password}";',
        )
        write_private(self.client_properties, "".join(f"{line}\n" for line in lines).encode())
        if not self.metrics_token.exists():
            write_private(self.metrics_token, f"{secrets.token_hex(32)}\n".encode())

    def tls(self, role: str = GATEWAY) -> MutualTls:
        """Return the TLS identity of a role. Calls from outside the cluster use the gateway's."""
        files = (self._folder / name for name in (f"{role}.pem", f"{role}.key", "ca.pem"))
        return MutualTls(*files)

    def environment(self, role: str, address: str) -> dict[str, str]:
        """Return the environment variables that secure a process of this role. `address` is where clients
        connect to it.
        """
        tls = self.tls(role)
        of_node = {
            "ONCELOG_NODE_TLS_CERTIFICATE_FILE": str(tls.certificate),
            "ONCELOG_NODE_TLS_KEY_FILE": str(tls.key),
            "ONCELOG_NODE_TLS_CA_FILE": str(tls.ca),
        }
        # A cluster that an earlier version started has none until its next start.
        if self.metrics_token.exists():
            of_node["ONCELOG_PROCESS_METRICS_TOKEN_FILE"] = str(self.metrics_token)
        if role != LISTENER:
            return of_node
        return of_node | {
            "ONCELOG_LISTENER_LISTENERS": f"{CLIENT_LISTENER}://{address}",
            "ONCELOG_LISTENER_SSL_CERTIFICATE_FILE": str(tls.certificate),
            "ONCELOG_LISTENER_SSL_KEY_FILE": str(tls.key),
            "ONCELOG_LISTENER_SASL_ENABLED_MECHANISMS": SCRAM_SHA_512,
            "ONCELOG_LISTENER_AUTHORIZER": "acl",
            "ONCELOG_LISTENER_SUPER_USERS": f"User:{ADMIN}",
        }

    def admit_admin(self, controllers: Sequence[str]) -> None:
        """Create the user admin at the active one of these controllers. Raises OncelogError.

        Nobody can log in before the first user exists. So this sends the request that a listener would send, with a
        listener's certificate.
        """
        from oncelog.security.scram import ITERATIONS_MIN, make_credential

        made = make_credential(SCRAM_SHA_512, self._password(), ITERATIONS_MIN)
        request = pb.AlterUserScramCredentialsRequest()
        request.credentials.add(
            user=ADMIN,
            mechanism=SCRAM_NUMBERS[SCRAM_SHA_512],
            salt=made.salt,
            stored_key=made.stored_key,
            server_key=made.server_key,
            iterations=made.iterations,
        )
        reason = "no controller is active"
        for address in controllers:
            with open_blocking_channel(address, self.tls(LISTENER)) as channel:
                alter = PlainStub(channel, CONTROLLER).AlterUserScramCredentials
                try:
                    (result,) = alter(request, timeout=_ADMIT_TIMEOUT_S).results
                except grpc.RpcError as error:
                    reason = " ".join(str(error.details()).split())
                    continue
            if not result.status.error_code:
                return
            reason = result.status.error_message
        raise OncelogError(f"the user {ADMIN} of the cluster was not set: {reason}")

    def _password(self) -> str:
        """Return the administrator's password; empty before the first start."""
        try:
            text = self.client_properties.read_text()
        except OSError:
            return ""
        found = re.search(r'^sasl\.jaas\.config=.* password="([^"]+)";$', text, re.MULTILINE)
        return found[1] if found else ""
