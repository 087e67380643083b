"""The shell tool: a command line in the sandbox, on the files of whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import assert_never

import structlog
from pydantic import BaseModel, ConfigDict, Field

from agent.model.tool_call import ToolOutput
from agent.tools.base import Approval, Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.builtin.shell_rules import Blocked, Level, Rated, Verdict, classify
from agent.tools.sandbox_bubblewrap import WORKSPACE
from agent.tools.sandbox_request import Finished, NotRun, Outcome, Sandbox, SandboxRequest, TimedOut
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope

log = structlog.get_logger(__name__)

DEFAULT_TIMEOUT_SECONDS = 120
MAX_TIMEOUT_SECONDS = 600
MAX_COMMAND_LENGTH = 20_000

# Other people's and groups' folders lie in the operator's, and are not the operator's to see.
_OTHERS_FOLDERS = ("users", "groups")
# What a shared chat remembers of its members is seen in each member's own turns only, through the memory tools.
_NOTES_ON_MEMBERS = "people"


class ShellArguments(BaseModel):
    """Run a command line with bash in the working folder. Nothing outside it can be seen, and only allowed hosts asked.

    Both output streams come back with the exit code. Each call starts anew: no working directory or variable is kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str = Field(min_length=1, max_length=MAX_COMMAND_LENGTH, description="The command line.")
    workdir: str | None = Field(default=None, description="A folder below the working folder to start in.")
    timeout: int = Field(
        default=DEFAULT_TIMEOUT_SECONDS,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Seconds until the command is killed.",
    )


class ShellTool:
    """Runs commands through `sandbox`.

    `folder_of` gives the folder of a scope, `readonly_files` the agent's files to show beside it, `readonly_folders`
    those in it that commands may not change.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        folder_of: Callable[[Scope], Path],
        readonly_files: Callable[[Scope], tuple[Path, ...]],
        readonly_folders: Callable[[Scope], tuple[Path, ...]] = lambda scope: (),
    ) -> None:
        self._sandbox = sandbox
        self._folder_of = folder_of
        self._readonly_files = readonly_files
        self._readonly_folders = readonly_folders

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def scope(self, arguments: ShellArguments) -> PathScope | None:
        return None  # a command may touch anything in the folder

    async def run(self, arguments: ShellArguments, context: ToolContext) -> ToolOutput:
        verdict = classify(arguments.command)
        if isinstance(verdict, Blocked):
            log.warning("shell_command_refused", reason=verdict.reason)
            return ToolOutput(f"The command was refused and not run: it {verdict.reason}.", is_error=True)
        folder = self._folder_of(context.scope)
        workdir = await asyncio.to_thread(_find_workdir, folder, arguments.workdir)
        if workdir is None:
            return ToolOutput("workdir must be an existing folder below the working folder.", is_error=True)
        request = SandboxRequest(
            command=arguments.command,
            folder=folder,
            workdir=workdir,
            readonly=self._readonly_files(context.scope),
            readonly_folders=self._readonly_folders(context.scope),
            hidden=hidden_folders(context.scope, folder),
            timeout=timedelta(seconds=arguments.timeout),
        )
        return _report(await self._sandbox.run(request), arguments.timeout)


def approval_of(verdict: Verdict) -> Approval:
    """Who must agree. A command that is refused anyway asks nobody."""
    match verdict:
        case Blocked() | Rated(level=Level.LOW):
            return Approval.NEVER
        case Rated(level=Level.MEDIUM):
            return Approval.UNLESS_ALWAYS
        case Rated():
            return Approval.ALWAYS
        case unreachable:
            assert_never(unreachable)


def _assess(arguments: ShellArguments) -> Approval:
    return approval_of(classify(arguments.command))


_SPEC = ToolSpec(
    name="shell",
    description="Run a command line in the working folder.",
    arguments=ShellArguments,
    effect=Effect.OUTSIDE,
    approval=Approval.ALWAYS,
    assess=_assess,
    timeout=timedelta(seconds=MAX_TIMEOUT_SECONDS + 60),
    rate=RateLimit(per_minute=30, per_hour=300),
    local=True,
)


def _report(outcome: Outcome, timeout: int) -> ToolOutput:
    match outcome:
        case Finished(exit_code=code, output=output, refusals=refusals):
            text = f"exit code {code}\n{output}" if output else f"exit code {code}, no output"
            return ToolOutput(text + _said(refusals))
        case TimedOut(output=output, refusals=refusals):
            text = f"Stopped after {timeout} s, with everything it had started.\n{output}"
            return ToolOutput(text + _said(refusals), is_error=True)
        case NotRun(reason=reason):
            return ToolOutput(f"The command was not run: {reason}.", is_error=True)
        case unreachable:
            assert_never(unreachable)


def _said(refusals: Sequence[str]) -> str:
    """What a command asked of the network in vain: programs seldom show a proxy's answer."""
    return f"\n[The sandbox refused the network: {'; '.join(refusals)}.]" if refusals else ""


def hidden_folders(scope: Scope, folder: Path) -> tuple[Path, ...]:
    """Folders inside this one that are somebody else's."""
    match scope:
        case OperatorScope():
            return tuple(folder / name for name in _OTHERS_FOLDERS)
        case GroupScope():
            return (folder / _NOTES_ON_MEMBERS,)
        case PersonScope():
            return ()
        case unreachable:
            assert_never(unreachable)


def _find_workdir(folder: Path, given: str | None) -> PurePosixPath | None:
    """`given` relative to `folder`, if it is a folder inside it once links are followed."""
    if not given or "\x00" in given:
        return None if given else PurePosixPath()
    path = PurePosixPath(given)
    if path.is_relative_to(WORKSPACE):  # what `pwd` says in the sandbox
        path = path.relative_to(WORKSPACE)
    if path.is_absolute() or ".." in path.parts:
        return None
    try:
        place = (folder / path).resolve()
        inside = place.is_dir() and place.is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links, a name that is too long
        return None
    return path if inside else None
