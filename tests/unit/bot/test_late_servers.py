from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, sys, tempfile
from pathlib import Path
import bot.extended
from bot.late_servers import LateServers

async def main():
    servers = LateServers((Path(tempfile.gettempdir()) / "nowhere" / "mcp.json").exists, lambda: 1 / 0)
    task = asyncio.ensure_future(servers.run())
    await asyncio.sleep(0.05)
    assert servers.extensions() == () and not servers.knows("wiki")
    task.cancel()

asyncio.run(main())
print(*(name for name in ("mcp", "jsonschema", "httpx2", "agent.mcp.hub", "agent.mcp.config") if name in sys.modules))
"""


def test_bot_without_servers_loads_nothing_for_them() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == ""
