"""An MCP server as people write them, on the official package: run as a program it speaks over its input and output.

The tool `die` ends it in the middle of a call.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("notes")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def add(first: int, second: int) -> int:
    """Adds two numbers."""
    return first + second


@server.tool()
def write(text: str) -> str:
    """Writes a note."""
    return f"written: {text}"


@server.tool(annotations=READS)
def environment() -> str:
    """What the program was started with, and its process."""
    return json.dumps({**os.environ, "process": str(os.getpid())})


@server.tool(annotations=READS)
def fail() -> str:
    """Fails."""
    raise ToolError("there is no such note")


@server.tool(annotations=READS)
async def slow() -> str:
    """Takes for ever."""
    await asyncio.Event().wait()
    return "never"


@server.tool(annotations=READS)
def die() -> str:
    """Ends the program."""
    os._exit(3)


@server.tool(annotations=READS)
def child() -> str:
    """Starts a program that would outlive this one, and gives its process."""
    return str(subprocess.Popen(["sleep", "600"]).pid)


@server.tool(annotations=READS)
async def learn(ctx: Context) -> str:
    """Has one more tool from now on."""
    server.add_tool(lambda: "new", name="learned", description="Was learned.")
    await ctx.session.send_tool_list_changed()
    return "learned"


if __name__ == "__main__":
    sys.stderr.write("a line on standard error with ghp_abcdefghijklmnopqrstuvwxyz0123456789\n")
    server.run("stdio")
