"""Calls between roles: direct in one process, over sessions between processes."""

import os

# gRPC reads it when it is imported, and tells of every connection that ends as it should on standard error otherwise.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
