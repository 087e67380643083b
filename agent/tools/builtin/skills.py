"""Skills from the model's side: list and find them, and for the operator install and remove them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Protocol

from pydantic import Field

from agent.model.tool_call import ToolOutput
from agent.net.address import Unreachable, check_url, holds_credential, spellings
from agent.net.page import Page
from agent.skills.describe import details, fault_line, skill_line
from agent.skills.errors import SkillError
from agent.skills.folders import Fault
from agent.skills.skill import NAME, Skill
from agent.tools.base import Approval, Effect, PathScope, ToolContext, ToolSpec
from agent.tools.schema import Arguments

Fetch = Callable[[str], Awaitable[bytes]]
"""Reads what is at an https address. Raises agent.net.address.Unreachable."""

NO_REGISTRY = "Only skills on this machine were searched: there is no registry of others to search."
_MOST_FOUND = 10


class Shelf(Protocol):
    """The skills that are there."""

    async def list(self) -> tuple[Skill, ...]: ...

    async def search(self, query: str) -> tuple[Skill | Fault, ...]: ...

    @property
    def faults(self) -> tuple[Fault, ...]: ...


class Installer(Protocol):
    """What changes the folder of installed skills. Both raise SkillError and have changed nothing then."""

    async def install(self, data: bytes, expected_name: str) -> Skill: ...

    async def remove(self, name: str) -> None: ...


class SkillListArguments(Arguments):
    """Arguments of `skill_list`."""

    verbose: bool = False


class SkillList:
    """Names the skills. Which were passed over and why is told to the operator."""

    spec: ClassVar = ToolSpec(
        "skill_list",
        "List the skills: instructions that are added when a message calls for them.",
        SkillListArguments,
        Effect.READ,
        rare=True,
    )

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def scope(self, arguments: SkillListArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SkillListArguments, context: ToolContext) -> ToolOutput:
        skills = await self._shelf.list()
        lines = [f"{skill_line(skill)} {details(skill) if arguments.verbose else ''}".rstrip() for skill in skills]
        if _is_told_faults(context) and (faults := self._shelf.faults):
            lines += ["Passed over:", *map(fault_line, faults)]
        return ToolOutput("\n".join(lines) or "There are no skills.")


class SkillSearchArguments(Arguments):
    """Arguments of `skill_search`."""

    query: str


class SkillSearch:
    """Finds skills by their words."""

    spec: ClassVar = ToolSpec(
        "skill_search", "Find a skill on this machine by words.", SkillSearchArguments, Effect.READ, rare=True
    )

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def scope(self, arguments: SkillSearchArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SkillSearchArguments, context: ToolContext) -> ToolOutput:
        found = await self._shelf.search(arguments.query)
        shown = [each for each in found if isinstance(each, Skill) or _is_told_faults(context)][:_MOST_FOUND]
        lines = [skill_line(each) if isinstance(each, Skill) else f"{fault_line(each)} (passed over)" for each in shown]
        return ToolOutput("\n".join([*(lines or ["No skill was found."]), NO_REGISTRY]))


class SkillInstallArguments(Arguments):
    """Arguments of `skill_install`."""

    name: str = Field(description="as in the skill's own file")
    url: str | None = Field(default=None, description="https address of a SKILL.md or a ZIP archive with one")
    content: str | None = Field(default=None, description="the text of SKILL.md, instead of url")


def _assess(arguments: SkillInstallArguments) -> Approval:
    carries = arguments.url is not None and holds_credential(arguments.url)
    return Approval.ALWAYS if carries else Approval.UNLESS_ALWAYS


def _check(arguments: SkillInstallArguments) -> str | None:
    if not NAME.fullmatch(arguments.name):
        return "'name' must be 1 to 64 letters, digits, '.', '_' or '-'. Nothing was installed."
    if (arguments.url is None) == (arguments.content is None):
        return "give 'url' or 'content', one of them. Nothing was installed."
    try:
        if arguments.url is not None:
            check_url(arguments.url)
    except Unreachable as error:
        return f"{error} Nothing was installed."
    return None


class SkillInstall:
    """Puts a skill into the folder of installed ones, where it never counts as the operator's own words."""

    spec: ClassVar = ToolSpec(
        "skill_install",
        "Install a skill from an address or from its text.",
        SkillInstallArguments,
        Effect.OUTSIDE,
        assess=_assess,
        check=_check,
        operator_only=True,
        rare=True,
    )

    def __init__(self, installer: Installer, fetch: Fetch, contains_secret: Callable[[str], bool]) -> None:
        self._installer = installer
        self._fetch = fetch
        self._contains_secret = contains_secret

    def scope(self, arguments: SkillInstallArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SkillInstallArguments, context: ToolContext) -> ToolOutput:
        if (fault := _check(arguments)) is not None:
            return _error(fault)
        if arguments.url is not None and self._contains_secret(spellings(arguments.url)):
            return _error("the address holds what looks like a credential. It was not asked, nothing was installed.")
        try:
            skill = await self._installer.install(await self._package(arguments), arguments.name)
        except Unreachable as error:
            return _error(f"the address was not read: {error} Nothing was installed.")
        except SkillError as error:
            return _error(f"{str(error).rstrip('.')}. Nothing was installed.")
        return ToolOutput(
            f"Installed {skill_line(skill)}. It is used from the next message that calls for it, or that begins with "
            f"/{skill.name}. While it is in use, only reading tools are available."
        )

    async def _package(self, arguments: SkillInstallArguments) -> bytes:
        if arguments.content is not None:
            return arguments.content.encode(errors="replace")
        return await self._fetch(arguments.url or "")


class SkillRemoveArguments(Arguments):
    """Arguments of `skill_remove`."""

    name: str


class SkillRemove:
    """Deletes an installed skill."""

    spec: ClassVar = ToolSpec(
        "skill_remove",
        "Delete an installed skill.",
        SkillRemoveArguments,
        Effect.WRITE,
        Approval.ALWAYS,
        operator_only=True,
        rare=True,
    )

    def __init__(self, installer: Installer) -> None:
        self._installer = installer

    def scope(self, arguments: SkillRemoveArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: SkillRemoveArguments, context: ToolContext) -> ToolOutput:
        try:
            await self._installer.remove(arguments.name)
        except SkillError as error:
            return _error(f"{str(error).rstrip('.')}. Nothing was removed.")
        return ToolOutput("Removed. Conversations that it was used in still hold its text.")


async def fetch_from_the_web(url: str) -> bytes:
    """Asks the internet. The HTTP client loads at the first call."""
    from agent.net.client import WebClient

    return package_in(await WebClient().get(url))


def package_in(page: Page) -> bytes:
    """What a server answered, if it can be a skill or an archive. Raises Unreachable."""
    if page.status >= 400:
        raise Unreachable(f"the server answered {page.status}.")
    if page.media_type == "text/html":
        raise Unreachable("it is a web page, no SKILL.md and no archive; use the address of the raw file.")
    return page.body


def _is_told_faults(context: ToolContext) -> bool:
    """What was passed over is the operator's matter, in private."""
    return context.is_operator and not context.is_shared


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
