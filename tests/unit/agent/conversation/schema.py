"""The tables that a conversation needs, for a store in memory."""

from __future__ import annotations

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from agent.store import tables

SCHEMA = tuple(
    str(CreateTable(table).compile(dialect=sqlite.dialect()))
    for table in (
        tables.sessions,
        tables.threads,
        tables.conversations,
        tables.prefixes,
        tables.facts,
        tables.turns,
        tables.steps,
        tables.entries,
        tables.checkpoints,
    )
)
"""Statements that make them, compiled once."""
