"""A whole cluster on one machine: one process per role on loopback, with a real Postgres and a real Redis."""

import os

# A process that was killed is news to gRPC's library, which would tell it in the middle of a table.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
