"""The controller's tables, as this version of the code wants them.

`SCHEMA_REVISION` is the migration in `migrations/versions` that produces exactly these tables; a test compares the two.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text

SCHEMA_REVISION: Final = "0002"
NEXT_REVISION: Final = f"{int(SCHEMA_REVISION) + 1:04}"
"""The next schema, on which this code runs as well: a revision only adds what the version before it can leave alone.

So old controllers run beside a migrated schema while a cluster is upgraded, and after a rollback (docs/upgrades.md).
"""

metadata = MetaData()

metadata_journal = Table(
    "metadata_journal",
    metadata,
    # Assigned by the writer: two writers that believe in the same next offset cannot both commit it.
    Column("metadata_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("record_type", String(64), nullable=False),
    Column("body", Text, nullable=False),  # JSON
    Column("written_at_ms", BigInteger, nullable=False),  # for people; nothing decides on it
)

controller_state = Table(
    "controller_state",
    metadata,
    # One row, with this key. Every append locks it, so it also puts the writers in order.
    Column("state_id", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", BigInteger, nullable=False),  # controller id; -1: nobody
    Column("controller_epoch", BigInteger, nullable=False),  # one more with each new holder
    Column("rpc_address", String(255), nullable=False),  # of the holder
    Column("lease_expires_at_ms", BigInteger, nullable=False),  # by the database's clock
    Column("next_producer_id", BigInteger, nullable=False),  # -1: no block since the row exists
)

STATE_ID: Final = 1

INITIAL_STATE: Final = {
    "state_id": STATE_ID,
    "holder": -1,
    "controller_epoch": 0,
    "rpc_address": "",
    "lease_expires_at_ms": 0,
    "next_producer_id": -1,
}

alembic_version = Table(
    "alembic_version", MetaData(), Column("version_num", String(32), primary_key=True)
)
"""Alembic's own table, with the name and columns that Alembic gives it."""
