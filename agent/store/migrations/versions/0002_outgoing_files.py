"""outgoing files"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Only adds: the previous release, which knows none of it, goes on working."""
    op.add_column("outbox", sa.Column("turn_id", sa.Uuid(), nullable=True))
    op.create_index(
        "ix_outbox_turn_id",
        "outbox",
        ["turn_id"],
        unique=False,
        sqlite_where=sa.text("turn_id IS NOT NULL"),
        postgresql_where=sa.text("turn_id IS NOT NULL"),
    )
    op.create_table(
        "blobs",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_blobs")),
    )
    op.create_index("ix_blobs_created_at", "blobs", ["created_at"], unique=False)
    op.create_table(
        "outbox_files",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["digest"], ["blobs.digest"], name=op.f("fk_outbox_files_digest")),
        sa.ForeignKeyConstraint(["number"], ["outbox.number"], name=op.f("fk_outbox_files_number")),
        sa.PrimaryKeyConstraint("digest", "number", name=op.f("pk_outbox_files")),
    )
    op.create_index("ix_outbox_files_number", "outbox_files", ["number"], unique=False)
