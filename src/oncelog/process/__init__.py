"""The common parts of every process of a cluster: settings, logs, signals, readiness, and the order of its end."""

import os

# gRPC's own library writes lines of another shape to stderr unless it is told not to before its first import.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
