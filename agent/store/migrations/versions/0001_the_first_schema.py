"""the first schema"""

import sqlalchemy as sa
from alembic import op

SEARCH_TABLES = (
    """
    CREATE TABLE search_documents (
        scope_key TEXT NOT NULL,
        path TEXT NOT NULL,
        mtime_ns INTEGER NOT NULL,
        size INTEGER NOT NULL,
        first_chunk INTEGER NOT NULL,
        chunks INTEGER NOT NULL,
        PRIMARY KEY (scope_key, path)
    ) WITHOUT ROWID
    """,
    """
    CREATE VIRTUAL TABLE search_chunks USING fts5 (
        scope_key UNINDEXED, path UNINDEXED, chunk_no UNINDEXED, body, tokenize = 'unicode61 remove_diacritics 2'
    )
    """,
)

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "archive",
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("thread_id", "call_id", name=op.f("pk_archive")),
    )
    op.create_table(
        "credentials",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=True),
        sa.Column("host_pattern", sa.Text(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name", name=op.f("pk_credentials")),
    )
    op.create_table(
        "drafts",
        sa.Column("reply_id", sa.Uuid(), nullable=False),
        sa.Column("platform_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("reply_id", name=op.f("pk_drafts")),
    )
    op.create_table(
        "facts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_facts")),
    )
    op.create_table(
        "findings",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_findings")),
    )
    op.create_table(
        "firings",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "due_at", name=op.f("pk_firings")),
    )
    op.create_table(
        "inbox",
        sa.Column("delivery_key", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Uuid(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("turn_id", sa.Uuid(), nullable=True),
        sa.Column("handled_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("delivery_key", name=op.f("pk_inbox")),
        sa.UniqueConstraint("thread_id", "seq", name=op.f("uq_inbox_thread_id_seq")),
    )
    op.create_index(
        "ix_inbox_open",
        "inbox",
        ["thread_id", "lane", "seq"],
        unique=False,
        sqlite_where=sa.text("handled_at IS NULL"),
        postgresql_where=sa.text("handled_at IS NULL"),
    )
    op.create_index("ix_inbox_turn_id", "inbox", ["turn_id"], unique=False)
    op.create_table(
        "model_calls",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("cache_read_tokens", sa.Integer(), nullable=False),
        sa.Column("cache_write_tokens", sa.Integer(), nullable=False),
        sa.Column("account", sa.Text(), server_default="", nullable=False),
        sa.Column("cost_microcents", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_model_calls")),
    )
    op.create_index(op.f("ix_model_calls_account"), "model_calls", ["account"], unique=False)
    op.create_index(op.f("ix_model_calls_at"), "model_calls", ["at"], unique=False)
    op.create_index(op.f("ix_model_calls_day"), "model_calls", ["day"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("approval_id", sa.Uuid(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("sent", sa.Text(), server_default="[]", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_outbox")),
        sa.UniqueConstraint("id", name=op.f("uq_outbox_id")),
    )
    op.create_index("ix_outbox_approval_id", "outbox", ["approval_id"], unique=False)
    op.create_index(
        "ix_outbox_open",
        "outbox",
        ["number"],
        unique=False,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "pairing_failures",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_pairing_failures")),
    )
    op.create_table(
        "pairing_requests",
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("channel", "user_id", name=op.f("pk_pairing_requests")),
        sa.UniqueConstraint("channel", "code", name=op.f("uq_pairing_requests_channel_code")),
    )
    op.create_table(
        "pairings",
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("approved_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("channel", "user_id", name=op.f("pk_pairings")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("user_id", name=op.f("uq_sessions_user_id")),
    )
    op.create_table(
        "consents",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("granted_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_consents_session_id")),
        sa.PrimaryKeyConstraint("session_id", "tool", "place", name=op.f("pk_consents")),
    )
    op.create_table(
        "threads",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("chat_type", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_seq", sa.Integer(), server_default="0", nullable=False),
        sa.Column("turn_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("entry_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("view", sa.Text(), server_default="", nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("busy_mode", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_threads_session_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_threads")),
    )
    op.create_index(op.f("ix_threads_session_id_updated_at"), "threads", ["session_id", "updated_at"], unique=False)
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("view", sa.Text(), nullable=False),
        sa.Column("turn_number", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_checkpoints_thread_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sa.UniqueConstraint("thread_id", "kind", "number", name=op.f("uq_checkpoints_thread_id_kind_number")),
    )
    op.create_table(
        "conversations",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_conversations_thread_id")),
        sa.PrimaryKeyConstraint("user_id", "channel", "external_id", name=op.f("pk_conversations")),
    )
    op.create_table(
        "entries",
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Uuid(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_entries_thread_id")),
        sa.PrimaryKeyConstraint("thread_id", "position", name=op.f("pk_entries")),
    )
    op.create_index(op.f("ix_entries_turn_id"), "entries", ["turn_id"], unique=False)
    op.create_table(
        "pending_auths",
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_pending_auths_thread_id")),
        sa.PrimaryKeyConstraint("thread_id", name=op.f("pk_pending_auths")),
    )
    op.create_table(
        "prefixes",
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("stamp", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_prefixes_thread_id")),
        sa.PrimaryKeyConstraint("thread_id", name=op.f("pk_prefixes")),
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("user_input", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("stop_requested", sa.Boolean(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_turns_thread_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
        sa.UniqueConstraint("thread_id", "number", name=op.f("uq_turns_thread_id_number")),
    )
    op.create_index(
        "uq_turns_open",
        "turns",
        ["thread_id"],
        unique=True,
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "approvals",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("thread_id", sa.Uuid(), nullable=False),
        sa.Column("turn_id", sa.Uuid(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("display", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("may_be_always", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_approvals_thread_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_approvals_turn_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    op.create_index(
        "ix_approvals_expires",
        "approvals",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_index("ix_approvals_turn_id", "approvals", ["turn_id"], unique=False)
    op.create_index(
        "uq_approvals_open",
        "approvals",
        ["thread_id"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "steps",
        sa.Column("turn_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_steps_turn_id")),
        sa.PrimaryKeyConstraint("turn_id", "number", name=op.f("pk_steps")),
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in SEARCH_TABLES:
            op.execute(statement)
