"""A program that says on its output what it was told to, line by line: `python hostile_mcp.py FILE`.

The file holds the records of tools as JSON. A call is answered with what the file `FILE.answer` holds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

tools = json.loads(Path(sys.argv[1]).read_text("utf-8"))
answer = Path(sys.argv[1] + ".answer")

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result: object = {}
    match request["method"]:
        case "initialize":
            result = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "tools/list":
            result = {"tools": tools}
        case "tools/call":
            result = json.loads(answer.read_text("utf-8"))
    sys.stdout.write("this is no JSON\n" + json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
    sys.stdout.flush()
