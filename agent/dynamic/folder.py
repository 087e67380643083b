"""Built tools on disk: a folder each, whose `tool.json` says which of the scripts beside it counts.

The script of a version is written before the record that names it, and the record is replaced whole: at any moment,
also through a crash, a tool is the old one or the new one. All functions block: call them in a thread.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from secrets import token_hex
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from agent.dynamic.blueprint import LARGEST_CODE_BYTES, Blueprint, Example, is_tool_name
from agent.workspace.errors import DocumentTooLarge
from agent.workspace.files import delete_file, read_file, update_file
from agent.workspace.paths import TEMPORARY_PREFIX

MOST_TOOLS = 32
_LARGEST_RECORD = 1024 * 1024
_RECORD, _PREVIOUS, _PROPOSAL = "tool.json", "previous.json", "proposal.py"
_SCRIPT = re.compile(r"tool-([1-9][0-9]{0,8})\.py")


class State(StrEnum):
    """Whether a tool may be called."""

    ACTIVE = "active"
    DISABLED = "disabled"


class Unreadable(Exception):
    """A tool on disk that is not the one that was approved. The text says why."""


@dataclass(frozen=True, slots=True)
class Built:
    """A tool as it is kept."""

    blueprint: Blueprint
    version: int
    created_at: datetime
    state: State = State.ACTIVE


class _ExampleRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    arguments: dict[str, Any]
    expect: str


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    description: str
    parameters: dict[str, Any]
    examples: list[_ExampleRecord]
    writes: bool
    version: int = Field(ge=1)
    sha256: str
    created_at: AwareDatetime
    state: State


def names(root: Path) -> tuple[str, ...]:
    """The folders that may hold tools, in order."""
    with suppress(FileNotFoundError), os.scandir(root) as entries:
        return tuple(sorted(each.name for each in entries if is_tool_name(each.name)))
    return ()


def read(root: Path, name: str) -> Built:
    """The tool of this name. Raises Unreadable, OSError."""
    return _read(root, name, _RECORD)


def read_previous(root: Path, name: str) -> Built | None:
    """The version before, if there was one and it can be read."""
    try:
        return _read(root, name, _PREVIOUS)
    except (Unreadable, OSError):
        return None


def save(root: Path, blueprint: Blueprint, now: datetime) -> Built:
    """Keep a new tool, or a new version of one; the version before stays beside it. Raises OSError."""
    name = blueprint.name
    before = _present(root, name)
    version = max((before.version if before else 0, *_versions(root, name))) + 1
    built = Built(blueprint, version, now)
    _write(root, (name, f"tool-{version}.py"), blueprint.code.encode())
    if before is not None:
        _write(root, (name, _PREVIOUS), _encoded(before))
    _write(root, (name, _RECORD), _encoded(built))
    withdraw(root, name)
    kept = {version, before.version if before else version}
    for old in _versions(root, name) - kept:
        delete_file(root, (name, f"tool-{old}.py"))
    return built


def mark(root: Path, built: Built) -> None:
    """Keep a changed state. Raises OSError."""
    _write(root, (built.blueprint.name, _RECORD), _encoded(built))


def propose(root: Path, name: str, code: str) -> None:
    """Put a script aside that may replace the tool's once a person has read it. Raises OSError."""
    _write(root, (name, _PROPOSAL), code.encode())


def proposal(root: Path, name: str) -> str | None:
    """The script that waits to be read, if there is one."""
    try:
        return read_file(root, (name, _PROPOSAL), LARGEST_CODE_BYTES).data.decode()
    except (OSError, DocumentTooLarge, UnicodeDecodeError):
        return None


def withdraw(root: Path, name: str) -> None:
    """Delete what was proposed. Raises OSError."""
    with suppress(FileNotFoundError):
        delete_file(root, (name, _PROPOSAL))


def remove(root: Path, name: str) -> bool:
    """Delete a tool with all its versions; False if there is none. Raises OSError."""
    assert is_tool_name(name)
    gone = root / f"{TEMPORARY_PREFIX}{token_hex(8)}"  # else a crash in between would leave half of it
    try:
        os.rename(root / name, gone)
    except FileNotFoundError:
        return False
    if gone.is_symlink():
        gone.unlink()
    else:
        shutil.rmtree(gone)
    return True


def _read(root: Path, name: str, record_name: str) -> Built:
    try:
        record = _Record.model_validate_json(read_file(root, (name, record_name), _LARGEST_RECORD).data)
        code = read_file(root, (name, f"tool-{record.version}.py"), LARGEST_CODE_BYTES).data.decode()
    except FileNotFoundError:
        raise Unreadable("a file of it is missing") from None
    except (ValidationError, UnicodeDecodeError, DocumentTooLarge):
        raise Unreadable("a file of it is not as it was written") from None
    examples = tuple(Example(each.arguments, each.expect) for each in record.examples)
    blueprint = Blueprint(record.name, record.description, record.parameters, code, examples, record.writes)
    if record.name != name or blueprint.digest != record.sha256:
        raise Unreadable("it was changed since it was approved")
    return Built(blueprint, record.version, record.created_at, record.state)


def _present(root: Path, name: str) -> Built | None:
    try:
        return read(root, name)
    except Unreadable:
        return None


def _versions(root: Path, name: str) -> set[int]:
    with suppress(FileNotFoundError), os.scandir(root / name) as entries:
        return {int(found[1]) for each in entries if (found := _SCRIPT.fullmatch(each.name))}
    return set()


def _encoded(built: Built) -> bytes:
    blueprint = built.blueprint
    record = _Record(
        name=blueprint.name,
        description=blueprint.description,
        parameters=dict(blueprint.schema),
        examples=[_ExampleRecord(arguments=dict(each.arguments), expect=each.expect) for each in blueprint.examples],
        writes=blueprint.writes,
        version=built.version,
        sha256=blueprint.digest,
        created_at=built.created_at,
        state=built.state,
    )
    return record.model_dump_json(indent=1).encode()


def _write(root: Path, parts: tuple[str, ...], data: bytes) -> None:
    update_file(root, parts, data, _LARGEST_RECORD)
