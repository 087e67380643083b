"""What can go wrong with the database.

StoreError
├── StoreUnavailable   cannot be reached, locked, or full: nothing was written; try later
├── SchemaMismatch     another version of the program wrote it: migrate or update
└── HomeLocked         another process of ours holds the home
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of the store's faults."""


class StoreUnavailable(StoreError):
    """The database did not take the work; nothing of it was kept."""


class SchemaMismatch(StoreError):
    """The database has a schema this program does not know."""


class HomeLocked(StoreError):
    """A second process was started on the same home."""
