"""Fixed names and bounds that containers and the program agree on."""

from __future__ import annotations

from datetime import timedelta

SOCKET_FOLDER = "/run/optimclaw"
SOCKET_NAME = "door"
FOLDER_HEADER = "X-Folder"
"""Says with `GET /job` which folder the container was given: device and inode of what it finds there."""

MAX_ITERATIONS = 50
WALL_TIME = timedelta(seconds=600)
STATUS_EVERY = 5
PREVIEW = 500
"""Characters of a call or a result in an event. This and the numbers above are those of IronClaw's container worker."""

MAX_MODEL_BYTES = 8 * 1024 * 1024
MAX_BODY_BYTES = 64 * 1024
MOST_MESSAGES = 1000
MAX_OUTPUT_TOKENS = 4096
TOOLS = ("apply_patch", "echo", "json", "list_dir", "read_file", "shell", "time", "write_file")
"""What a container has for tools: what works on its folder, and what needs nothing."""
