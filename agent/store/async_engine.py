"""SQLAlchemy's engine for asyncio without its ORM.

The package `sqlalchemy.ext.asyncio` imports its sessions, and with them the ORM: 8 MiB of every process and a tenth of
a second of every start, of which nothing is used here.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

_PACKAGE = "sqlalchemy.ext.asyncio"


def engine_maker() -> Callable[..., AsyncEngine]:
    """`sqlalchemy.ext.asyncio.create_async_engine`. Whoever imports the package later gets all of it."""
    if _PACKAGE in sys.modules:
        module = importlib.import_module(f"{_PACKAGE}.engine")
    else:
        spec = find_spec(_PACKAGE)
        assert spec is not None  # the library is installed
        sys.modules[_PACKAGE] = module_from_spec(spec)  # knows where its modules are, and has not run
        try:
            module = importlib.import_module(f"{_PACKAGE}.engine")
        finally:
            del sys.modules[_PACKAGE]
    make: Callable[..., AsyncEngine] = module.create_async_engine
    return make
