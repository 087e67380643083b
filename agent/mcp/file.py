"""`mcp.json` on disk: read, and changed without losing what others wrote in it. Everything here blocks."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from agent.mcp.config import Configured, read_config
from agent.mcp.errors import ConfigUnusable

MCP_FILE = "mcp.json"
_LONGEST = 1024 * 1024


class McpFile:
    """The file in the home. One process writes it; an editor may have done so before."""

    def __init__(self, home: Path) -> None:
        self._path = home / MCP_FILE

    def read(self) -> Configured:
        """The servers it names; none if there is no file. Raises ConfigUnusable."""
        return read_config(self._document())

    def set_enabled(self, name: str, *, is_enabled: bool) -> None:
        """Switch an entry on or off."""
        document = self._document()
        _entry(document, name)["enabled"] = is_enabled
        self._write(document)

    def add_installed(self, name: str, url: str) -> None:
        """Add a server over HTTP that was named in a chat. Raises ConfigUnusable if there is one of that name."""
        document = self._document()
        entries = document.setdefault("mcpServers", {})
        if not isinstance(entries, dict):
            raise ConfigUnusable("mcpServers in mcp.json is no object; correct the file.")
        if name in entries:
            raise ConfigUnusable(f"there is a server {name!r} already.")
        entries[name] = {"url": url, "enabled": True, "for": "operator", "installed": True}
        self._write(document)

    def remove(self, name: str) -> bool:
        """Take an entry out; False if there is none of that name."""
        document = self._document()
        entries = document.get("mcpServers")
        if not isinstance(entries, dict) or name not in entries:
            return False
        del entries[name]
        self._write(document)
        return True

    def _document(self) -> dict[str, object]:
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigUnusable(f"mcp.json cannot be read ({error.strerror}).") from error
        with open(handle, "rb") as file:
            if os.fstat(handle).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise ConfigUnusable("mcp.json can be changed by other users of the machine; run chmod 600 on it.")
            data = file.read(_LONGEST + 1)
        if len(data) > _LONGEST:
            raise ConfigUnusable("mcp.json is larger than 1 MiB.")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise ConfigUnusable("mcp.json is no JSON; correct the file.") from None
        if not isinstance(document, dict):
            raise ConfigUnusable("mcp.json is no JSON object; correct the file.")
        return document

    def _write(self, document: Mapping[str, object]) -> None:
        draft = self._path.with_name(f".{self._path.name}.{uuid4().hex}")
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    json.dump(document, file, indent=2, ensure_ascii=False)
                    file.write("\n")
                    file.flush()
                    os.fsync(handle)
                draft.replace(self._path)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigUnusable(f"mcp.json cannot be written ({error.strerror}).") from error


def _entry(document: dict[str, object], name: str) -> dict[str, object]:
    entries = document.get("mcpServers")
    entry = entries.get(name) if isinstance(entries, dict) else None
    if not isinstance(entry, dict):
        raise ConfigUnusable(f"mcp.json has no server {name!r} any more.")
    return entry
