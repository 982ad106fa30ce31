"""Revision 1 of the database: the table of the metadata journal."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "metadata_journal",
        sa.Column("metadata_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("record_type", sa.String(64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("written_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("metadata_offset"),
    )


def downgrade() -> None:
    op.drop_table("metadata_journal")
