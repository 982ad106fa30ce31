"""Calls between roles: direct in one process, over sessions between processes."""

import os

# gRPC reads it when it is imported, and tells of every connection that ends as it should on standard error otherwise.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

# gRPC for Python has no choice of TLS versions, but one of TLS 1.2's ciphers. This one needs a shared key, and no
# process has one: only TLS 1.3 is left.
os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", "ECDHE-PSK-CHACHA20-POLY1305")
