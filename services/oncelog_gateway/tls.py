"""The gateway's TLS: a certificate and a key, which are read again when their files change."""

import logging
from functools import partial

from oncelog.errors import OncelogError
from oncelog.security.tls import ReloadingContext, TlsFileError, TlsFiles, server_context
from oncelog_gateway.access_settings import AccessSettings

log = logging.getLogger("oncelog.gateway")


def build_tls(settings: AccessSettings) -> ReloadingContext:
    """Return the TLS context of the gateway. Raises OncelogError that names the file that cannot be used."""
    files = TlsFiles(settings.tls_certificate_file, settings.tls_key_file)
    try:
        return ReloadingContext(
            files, partial(server_context, protocols=settings.tls_enabled_protocols), log.warning
        )
    except TlsFileError as error:
        raise OncelogError(
            f"{error} (ONCELOG_GATEWAY_TLS_CERTIFICATE_FILE, …_TLS_KEY_FILE)"
        ) from error
