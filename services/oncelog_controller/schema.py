"""The controller's tables, as this version of the code wants them.

`SCHEMA_REVISION` is the migration in `migrations/versions` that produces exactly these tables; a test compares the two.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text

SCHEMA_REVISION: Final = "0001"

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

alembic_version = Table(
    "alembic_version", MetaData(), Column("version_num", String(32), primary_key=True)
)
"""Alembic's own table, under the name and shape that it gives it."""
