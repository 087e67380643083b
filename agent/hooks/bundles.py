"""Hooks that stand in files of the workspace: `hooks/hooks.json` and `hooks/*.hook.json`.

What cannot be used is left out and said; what else the same file holds stays.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog
from pydantic import ValidationError

from agent.clock import Clock
from agent.hooks.base import SOURCE_MARK, Hook
from agent.hooks.entries import RuleEntry, WebhookEntry
from agent.hooks.patterns import BadPattern
from agent.hooks.rules import rule_hook
from agent.hooks.webhooks import BadWebhook, Post, webhook_hook
from agent.workspace.errors import DocumentTooLarge
from agent.workspace.files import Signature, read_file

log = structlog.get_logger(__name__)

HOOKS_FOLDER = "hooks"
LIMIT_BYTES = 256 * 1024
MOST_FILES = 100
_MAIN_FILE = "hooks.json"
_SUFFIX = ".hook.json"
UNREAD = "the whole file"


@dataclass(frozen=True, slots=True)
class BundleFault:
    """An entry that is left out, and why. `entry` is its name or its place in the file."""

    source: str
    entry: str
    reason: str

    @property
    def hook_name(self) -> str:
        """How the hook would be called."""
        return f"{self.source}{SOURCE_MARK}{self.entry}"


@dataclass(frozen=True, slots=True)
class Bundles:
    """The hooks that files describe, and what is wrong with them."""

    hooks: tuple[Hook, ...] = ()
    faults: tuple[BundleFault, ...] = ()


class Registry(Protocol):
    """Where the hooks go."""

    def replace_source(self, source: str, hooks: Iterable[Hook]) -> None: ...


class HookBundles:
    """Keeps the registered hooks what the files say. What is broken by an edit stays what it was before it."""

    def __init__(self, workspace: Path, registry: Registry, post: Post, clock: Clock) -> None:
        self._workspace = workspace
        self._registry = registry
        self._post = post
        self._clock = clock
        self._seen: dict[str, Signature] = {}
        self._hooks: dict[str, tuple[Hook, ...]] = {}
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Take what was changed in the folder since the last look. The look itself is one listing of a folder."""
        async with self._lock:
            present = await asyncio.to_thread(_signatures, self._workspace)
            for source in self._seen.keys() - present.keys():
                del self._seen[source]
                self._put(source, ())
                log.info("hooks_gone", source=source)
            for source, signature in present.items():
                if self._seen.get(source) != signature:
                    self._take(source, await asyncio.to_thread(self._load, source))
                    self._seen[source] = signature

    def _load(self, source: str) -> Bundles:
        return load_bundle(self._workspace, source, self._post, self._clock)

    def _take(self, source: str, found: Bundles) -> None:
        for fault in found.faults:
            log.warning("hook_left_out", source=fault.source, entry=fault.entry, reason=fault.reason)
        broken = {fault.hook_name for fault in found.faults}
        is_unread = f"{source}{SOURCE_MARK}{UNREAD}" in broken
        before = self._hooks.get(source, ())
        good = {hook.name for hook in found.hooks}
        kept = [hook for hook in before if is_unread or (hook.name in broken and hook.name not in good)]
        self._put(source, (*kept, *found.hooks))
        log.info("hooks_loaded", source=source, hooks=len(found.hooks), kept=len(kept), left_out=len(found.faults))

    def _put(self, source: str, hooks: tuple[Hook, ...]) -> None:
        self._hooks[source] = hooks
        self._registry.replace_source(source, hooks)


def load_bundles(workspace: Path, post: Post, clock: Clock) -> Bundles:
    """All hooks of a workspace's files. Blocks."""
    found = [load_bundle(workspace, source, post, clock) for source in _signatures(workspace)]
    return Bundles(
        tuple(hook for each in found for hook in each.hooks), tuple(fault for each in found for fault in each.faults)
    )


def load_bundle(workspace: Path, source: str, post: Post, clock: Clock) -> Bundles:
    """The hooks of one file. Blocks."""
    try:
        contents = read_file(Path(os.path.realpath(workspace)), (HOOKS_FOLDER, source), LIMIT_BYTES)
        document = json.loads(contents.data.decode("utf-8-sig"))
    except DocumentTooLarge:
        return Bundles(faults=(BundleFault(source, UNREAD, f"it is larger than {LIMIT_BYTES // 1024} KiB"),))
    except OSError as error:
        return Bundles(faults=(BundleFault(source, UNREAD, error.strerror or "it cannot be read"),))
    except (ValueError, RecursionError):
        return Bundles(faults=(BundleFault(source, UNREAD, "it is no JSON"),))
    return read_bundle(source, document, post, clock)


def read_bundle(source: str, document: object, post: Post, clock: Clock) -> Bundles:
    """The hooks that a parsed file describes."""
    if not isinstance(document, dict):
        return Bundles(faults=(BundleFault(source, UNREAD, "it is no JSON object"),))
    makers: Mapping[str, Callable[[object], Hook]] = {
        "rules": lambda entry: rule_hook(source, RuleEntry.model_validate(entry)),
        "outbound_webhooks": lambda entry: webhook_hook(source, WebhookEntry.model_validate(entry), post, clock),
    }
    hooks: dict[str, Hook] = {}
    faults = [BundleFault(source, str(key)[:64], "there is no such list") for key in document if key not in makers]
    for key, make in makers.items():
        for place, entry in _entries(source, key, document, faults):
            made = _made(make, entry)
            if isinstance(made, str):
                faults.append(BundleFault(source, place, made))
            elif made.name in hooks:
                faults.append(BundleFault(source, place, "another one before it has this name"))
            else:
                hooks[made.name] = made
    return Bundles(tuple(hooks.values()), tuple(faults))


def _entries(
    source: str, key: str, document: Mapping[str, object], faults: list[BundleFault]
) -> Iterator[tuple[str, object]]:
    """Each entry of a list, and how it is called in a fault."""
    found = document.get(key, [])
    if not isinstance(found, list):
        faults.append(BundleFault(source, key, "it is no list"))
        return
    for number, entry in enumerate(found):
        name = entry.get("name") if isinstance(entry, dict) else None
        yield (name[:64] if isinstance(name, str) and name else f"{key}[{number}]"), entry


def _made(make: Callable[[object], Hook], entry: object) -> Hook | str:
    """The hook, or why there is none."""
    try:
        return make(entry)
    except (BadPattern, BadWebhook) as error:
        return str(error)
    except ValidationError as error:
        return "; ".join(_said(error))


def _said(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(map(str, detail["loc"]))
        yield f"{place}: {detail['msg']}" if place else detail["msg"]


def _signatures(workspace: Path) -> dict[str, Signature]:
    """The files of hooks by name, in alphabetical order; none where there is no folder."""
    try:
        with os.scandir(workspace / HOOKS_FOLDER) as found:
            files = sorted((each for each in found if _is_ours(each.name)), key=lambda each: each.name)
            signatures = {each.name: Signature.of(each.stat(follow_symlinks=False)) for each in files[:MOST_FILES]}
    except OSError:
        return {}
    if len(files) > MOST_FILES:
        log.warning("too_many_hook_files", files=len(files), read=MOST_FILES)
    return signatures


def _is_ours(name: str) -> bool:
    return name == _MAIN_FILE or (name.endswith(_SUFFIX) and not name.startswith("."))
