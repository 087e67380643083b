"""All tables. Invariants are constraints and partial unique indexes here; races are refused by the database."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
)

from agent.store.types import Instant

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# What an index leaves out is said for SQLite alone: a word on Postgres would load its dialect, 2 MiB of every process.
# A Postgres database is made by the migrations, which say it.
sessions = Table(
    "sessions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("user_id", Text, nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    Column("last_seen_at", Instant, nullable=False),
)

threads = Table(
    "threads",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("session_id", Uuid, ForeignKey("sessions.id"), nullable=False),
    Column("user_id", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("chat_type", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("next_seq", Integer, nullable=False, server_default="0"),
    Column("turn_count", Integer, nullable=False, server_default="0"),
    Column("entry_count", Integer, nullable=False, server_default="0"),
    Column("view", Text, nullable=False, server_default=""),
    Column("model", Text),
    Column("busy_mode", Text),
    Column("title", Text, nullable=False, server_default=""),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index(None, "session_id", "updated_at"),
)

# The prompt prefix a thread was begun with, kept so that its bytes stay the same from turn to turn.
prefixes = Table(
    "prefixes",
    metadata,
    Column("thread_id", Uuid, ForeignKey("threads.id"), primary_key=True),
    Column("stamp", Text, nullable=False),
    Column("body", Text, nullable=False),
)

# Which thread a conversation key leads to; `/new` counts the generation up.
conversations = Table(
    "conversations",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("channel", Text, primary_key=True),
    Column("external_id", Text, primary_key=True),
    Column("thread_id", Uuid, ForeignKey("threads.id"), nullable=False),
    Column("generation", Integer, nullable=False),
)

# "always": per session, tool and kind of place.
consents = Table(
    "consents",
    metadata,
    Column("session_id", Uuid, ForeignKey("sessions.id"), primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("granted_at", Instant, nullable=False),
)

# Each delivery once, by its key; `body` is empty for what must not be kept (refused secrets) or needs no keeping.
inbox = Table(
    "inbox",
    metadata,
    Column("delivery_key", Text, primary_key=True),
    Column("thread_id", Uuid),
    Column("lane", Text),
    Column("seq", Integer),
    Column("body", Text),
    Column("received_at", Instant, nullable=False),
    Column("turn_id", Uuid),
    Column("handled_at", Instant),
    UniqueConstraint("thread_id", "seq"),
    Index(
        "ix_inbox_open",
        "thread_id",
        "lane",
        "seq",
        sqlite_where=text("handled_at IS NULL"),
    ),
    Index("ix_inbox_turn_id", "turn_id"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("thread_id", Uuid, ForeignKey("threads.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("user_input", Text, nullable=False),
    Column("response", Text),
    Column("error", Text),
    Column("stop_requested", Boolean, nullable=False, server_default=false()),
    Column("started_at", Instant, nullable=False),
    Column("finished_at", Instant),
    UniqueConstraint("thread_id", "number"),
    Index(
        "uq_turns_open",
        "thread_id",
        unique=True,
        sqlite_where=text("finished_at IS NULL"),
    ),
)

# What an open turn has done so far, in order: messages of its context, and calls that were begun.
steps = Table(
    "steps",
    metadata,
    Column("turn_id", Uuid, ForeignKey("turns.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

# The history that models see: messages in order, never changed once written.
entries = Table(
    "entries",
    metadata,
    Column("thread_id", Uuid, ForeignKey("threads.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("turn_id", Uuid, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "turn_id"),
)

# Points a thread can go back to (undo) or forward to again (redo): views of its history.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("thread_id", Uuid, ForeignKey("threads.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("view", Text, nullable=False),
    Column("turn_number", Integer, nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("thread_id", "kind", "number"),
)

# Tool outputs that were shown cut, whole.
archive = Table(
    "archive",
    metadata,
    Column("thread_id", Uuid, primary_key=True),
    Column("call_id", Text, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("thread_id", Uuid, ForeignKey("threads.id"), nullable=False),
    Column("turn_id", Uuid, ForeignKey("turns.id"), nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("display", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("may_be_always", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("decided_by", Text),
    Column("decided_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Index("ix_approvals_turn_id", "turn_id"),
    Index(
        "uq_approvals_open",
        "thread_id",
        unique=True,
        sqlite_where=text("state = 'open'"),
    ),
    Index(
        "ix_approvals_expires",
        "expires_at",
        sqlite_where=text("state = 'open'"),
    ),
)

_NUMBER = BigInteger().with_variant(Integer, "sqlite")

outbox = Table(
    "outbox",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("id", Uuid, nullable=False, unique=True),
    Column("channel", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("approval_id", Uuid),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("not_before", Instant),
    Column("sent", Text, nullable=False, server_default="[]"),
    Column("error", Text),
    Column("created_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("turn_id", Uuid),  # of what a tool sent during a turn; replies are found by their id
    Index(
        "ix_outbox_open",
        "number",
        sqlite_where=text("finished_at IS NULL"),
    ),
    Index("ix_outbox_approval_id", "approval_id"),
    Index(
        "ix_outbox_turn_id",
        "turn_id",
        sqlite_where=text("turn_id IS NOT NULL"),
    ),
)

# The bytes of outgoing files, each content once; and which messages have them.
blobs = Table(
    "blobs",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
)

outbox_files = Table(
    "outbox_files",
    metadata,
    Column("digest", Text, ForeignKey("blobs.digest"), primary_key=True),
    Column("number", _NUMBER, ForeignKey("outbox.number"), primary_key=True),
    Index(None, "number"),
)

# The platform's id of a draft that shows an answer being written.
drafts = Table(
    "drafts",
    metadata,
    Column("reply_id", Uuid, primary_key=True),
    Column("platform_id", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

pairings = Table(
    "pairings",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("approved_at", Instant, nullable=False),
)

pairing_requests = Table(
    "pairing_requests",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("channel", "code"),
)

pairing_failures = Table(
    "pairing_failures",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("channel", Text, nullable=False),
    Column("at", Instant, nullable=False),
)

model_calls = Table(
    "model_calls",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),
    Column("day", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cache_read_tokens", Integer, nullable=False),
    Column("cache_write_tokens", Integer, nullable=False),
    Column("account", Text, nullable=False, server_default=""),
    Column("cost_microcents", BigInteger, nullable=False),  # millionths of a cent: exact on both dialects
    Index(None, "at"),
    Index(None, "day"),
    Index(None, "account"),
)

# One firing for each due time, however many processes tick.
firings = Table(
    "firings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("due_at", Instant, primary_key=True),
)

findings = Table(
    "findings",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("sent_at", Instant, nullable=False),
)

# What people typed in as credentials, encrypted; the other columns are authenticated with it, the last two excepted.
credentials = Table(
    "credentials",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("ciphertext", LargeBinary, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("provider", Text),
    Column("host_pattern", Text),
    Column("expires_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
)

# Threads whose next message is a credential.
pending_auths = Table(
    "pending_auths",
    metadata,
    Column("thread_id", Uuid, ForeignKey("threads.id"), primary_key=True),
    Column("name", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
)

# Small facts that outlive a restart: the last private chat of the operator, failure counts.
facts = Table(
    "facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# What the agent does by itself. `wake_at` is null where nothing is due: switched off, finished or not on a time table.
routines = Table(
    "routines",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False, server_default=""),
    Column("enabled", Boolean, nullable=False),
    Column("kind", Text, nullable=False),
    Column("topic", Text),  # what a trigger is looked up by: the path of a webhook, the source of a system event
    Column("body", Text, nullable=False),
    Column("due_at", Instant),
    Column("wake_at", Instant),
    Column("last_run_at", Instant),
    Column("run_count", Integer, nullable=False, server_default="0"),
    Column("consecutive_failures", Integer, nullable=False, server_default="0"),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("user_id", "name"),
    Index(
        "ix_routines_wake_at",
        "wake_at",
        sqlite_where=text("wake_at IS NOT NULL"),
    ),
    Index("ix_routines_kind", "kind", "user_id"),
)

# Each time a routine ran, or should have: one row for a due time, however many processes tick.
routine_runs = Table(
    "routine_runs",
    metadata,
    Column("routine_id", Uuid, ForeignKey("routines.id"), primary_key=True),
    Column("due_at", Instant, primary_key=True),
    Column("id", Uuid, nullable=False, unique=True),
    Column("cause", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
    Column("event_hash", Text),
    Column("status", Text, nullable=False),
    Column("summary", Text, nullable=False, server_default=""),
    Column("job_id", Uuid),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Index(
        "ix_routine_runs_open",
        "status",
        "due_at",
        sqlite_where=text("finished_at IS NULL"),
    ),
)

# Work in the background. `number` is the order in which jobs were asked for; each has a thread of its own.
jobs = Table(
    "jobs",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("id", Uuid, nullable=False, unique=True),
    Column("user_id", Text, nullable=False),
    Column("thread_id", Uuid, nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("origin", Text),
    Column("model", Text),
    Column("max_iterations", Integer, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("allowed_tools", Text),
    Column("reports", Boolean, nullable=False),
    Column("facts", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("deadline", Instant),
    Column("alive_until", Instant),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("steps", Integer, nullable=False, server_default="0"),
    Column("tokens", Integer, nullable=False, server_default="0"),
    Column("shown_at", Instant),
    Column("result", Text),
    Column("error", Text),
    Column("transitions", Text, nullable=False, server_default="[]"),
    Index("ix_jobs_user_id", "user_id", "number"),
    Index("ix_jobs_state", "state", "number"),
)

# How often tools that did not come with the bot have broken in a row.
tool_health = Table(
    "tool_health",
    metadata,
    Column("tool", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("failed_at", Instant, nullable=False),
    Column("switched_off_at", Instant),
)
