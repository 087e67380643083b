"""Keeps an optional import of our libraries out of processes that have no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_rich() -> Iterator[None]:
    """Import libraries as if rich were not installed, unless it is loaded already.

    structlog and httpx import it, and pygments with it, for tracebacks and a command line that nobody here sees: 0.1 s
    of every start and 12 MiB.
    """
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # what makes an `import rich` fail
    try:
        yield
    finally:
        del sys.modules["rich"]
