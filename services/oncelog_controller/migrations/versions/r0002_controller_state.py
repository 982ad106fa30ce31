"""Revision 2 of the database: the row that every append is checked against.

It has the active controller and the next producer id to give out.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    table = op.create_table(
        "controller_state",
        sa.Column("state_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.BigInteger(), nullable=False),
        sa.Column("controller_epoch", sa.BigInteger(), nullable=False),
        sa.Column("rpc_address", sa.String(255), nullable=False),
        sa.Column("lease_expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("next_producer_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("state_id"),
    )
    op.bulk_insert(
        table,
        [
            {
                "state_id": 1,
                "holder": -1,
                "controller_epoch": 0,
                "rpc_address": "",
                "lease_expires_at_ms": 0,
                "next_producer_id": -1,
            }
        ],
    )


def downgrade() -> None:
    op.drop_table("controller_state")
