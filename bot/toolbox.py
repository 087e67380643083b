"""Builds the tools that come with the bot and act outside of a conversation: the web, pictures, skills, the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from agent.credentials.store import CredentialStore
from agent.extensions.services import HttpCredentials, ServiceBook
from agent.llm.images import OpenAIImages
from agent.llm.metered import Guard
from agent.llm.openai import DEFAULT_MODEL
from agent.llm.settings import OpenAISettings
from agent.llm.speech import OpenAISpeech
from agent.safety.layer import SafetyLayer
from agent.skills.folders import skill_folders
from agent.skills.install import SkillInstaller
from agent.skills.shelf import SkillLimits, SkillShelf, means_of_this_machine
from agent.tools.base import ToolContext
from agent.tools.builtin.http import Http, send_to_the_web
from agent.tools.builtin.images import ImageAnalyze, ImageDesk, ImageEdit, ImageGenerate
from agent.tools.builtin.posting import Outbox
from agent.tools.builtin.restart import Restart
from agent.tools.builtin.skills import SkillInstall, SkillList, SkillRemove, SkillSearch, fetch_from_the_web
from agent.tools.builtin.web_fetch import WebFetch, get_from_the_web
from agent.tools.registry import AnyTool
from config.settings import LocalToolsFor, Settings


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools, and what has to be closed at the end."""

    tools: tuple[AnyTool, ...]
    images: OpenAIImages


def build_shelf(settings: Settings) -> SkillShelf:
    """The skills of the workspace, of the operator, and installed ones."""
    return SkillShelf(
        skill_folders(settings.workspace, settings.home),
        means_of_this_machine(settings.set_names.__contains__),
        SkillLimits(settings.skills.max_active, settings.skills.max_context_tokens),
    )


def build_toolbox(
    settings: Settings,
    safety: SafetyLayer,
    guard: Guard,
    outbox: Outbox,
    shelf: SkillShelf,
    vault: CredentialStore,
    book: ServiceBook,
    restart: Callable[[timedelta], None] | None,
) -> Toolbox:
    """The tools for these settings. Without `restart` the program cannot begin anew, and there is no tool for it."""
    installer = SkillInstaller(shelf)
    images = _images(settings, guard)
    desk = ImageDesk(images, settings.workspace, outbox, safety.contains_secret)

    def may_save(context: ToolContext) -> bool:
        is_for_all = settings.agent.local_tools_for is LocalToolsFor.EVERYONE
        return settings.agent.allow_local_tools and (context.is_operator or is_for_all)

    tools: list[AnyTool] = [
        WebFetch(get_from_the_web, safety.contains_secret),
        Http(send_to_the_web, HttpCredentials(book, vault), safety.contains_secret, settings.workspace, may_save),
        ImageGenerate(desk),
        ImageEdit(desk),
        ImageAnalyze(desk),
        SkillList(shelf),
        SkillSearch(shelf),
        SkillInstall(installer, fetch_from_the_web, safety.contains_secret),
        SkillRemove(installer),
    ]
    if restart is not None:
        tools.append(Restart(restart))
    return Toolbox(tuple(tools), images)


def build_speech(settings: Settings, guard: Guard) -> OpenAISpeech:
    """What writes down recordings; without a key it takes none."""
    return OpenAISpeech(_openai(settings), guard, timeout=settings.llm.timeout)


def _images(settings: Settings, guard: Guard) -> OpenAIImages:
    openai = _openai(settings)
    seeing = settings.llm.model if settings.llm.provider == "openai" else None
    return OpenAIImages(
        openai,
        guard,
        model=openai.image_model,
        seeing_model=seeing or DEFAULT_MODEL,
        timeout=max(settings.llm.timeout, timedelta(minutes=4)),
    )


def _openai(settings: Settings) -> OpenAISettings:
    openai = settings.providers["openai"]
    assert isinstance(openai, OpenAISettings)  # the registry says so
    return openai
