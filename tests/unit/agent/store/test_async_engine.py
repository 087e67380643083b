from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from agent.store.async_engine import engine_maker
make = engine_maker()
assert "sqlalchemy.orm" not in sys.modules
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
assert create_async_engine is make
assert engine_maker() is make
"""


def test_the_engine_comes_without_the_orm_and_the_package_stays_whole_for_others() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
