"""Keeps optional imports of our libraries out of a process that has no use for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_OPTIONAL = ("rich", "cryptography")


@contextmanager
def lean_imports() -> Iterator[None]:
    """Import libraries as if their optional companions were not installed, unless those are loaded already.

    structlog and httpx import rich, and pygments with it, for tracebacks and a command line that nobody here sees;
    python-telegram-bot imports cryptography for passports. Together 0.1 s of every start and 17 MiB.
    """
    absent = [name for name in _OPTIONAL if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # what makes an import of it fail
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
