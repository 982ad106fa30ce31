"""A whole cluster on one machine: one process per role on loopback, with a real Postgres and a real Redis."""
