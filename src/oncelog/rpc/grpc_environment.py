"""Sets the environment variables that gRPC's C library reads when it is loaded. Call `prepare` before grpc is
imported.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

THREADS_OF_ITS_OWN: Final = (
    "event_engine_client",
    "event_engine_listener",
    "event_engine_for_all_other_endpoints",
)
"""The experiments of gRPC that move its network work to four threads of its own (ADR 0054)."""

TRIED_VERSION: Final = "1.85"
"""The version of grpcio with which this was measured. A version without one of the experiments writes an error line at
the start of each process, so another version keeps gRPC's own choice."""

_VERSION: Final = re.compile(r'__version__ = "+(\d+\.\d+)\.')


def prepare() -> None:
    """Set gRPC's variables for log level, TLS ciphers and threads. A variable that is set already stays."""
    # gRPC otherwise tells on standard error of every connection that ends as it should.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # gRPC for Python has no choice of TLS versions, but one of TLS 1.2's ciphers. This one needs a shared key, and no
    # process has one: only TLS 1.3 is left.
    os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305")
    if "GRPC_EXPERIMENTS" not in os.environ and _installed_version() == TRIED_VERSION:
        os.environ["GRPC_EXPERIMENTS"] = ",".join(f"-{name}" for name in THREADS_OF_ITS_OWN)


def _installed_version() -> str | None:
    """Return major and minor of grpcio, as `1.85`, without loading it; None if it is not installed or does not tell."""
    spec = find_spec("grpc")
    if spec is None or spec.origin is None:
        return None
    try:
        text = Path(spec.origin).with_name("_grpcio_metadata.py").read_text()
    except OSError:
        return None
    found = _VERSION.search(text)
    return None if found is None else found[1]
