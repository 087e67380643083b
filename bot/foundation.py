"""Builds what all else stands on: the model, the screens, the folder, the outbox. One object of each for a process."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from agent.clock import Clock
from agent.conversation.hooked import ScreenedHooks
from agent.credentials.keys import load_master_key, system_keychain
from agent.credentials.store import CredentialStore
from agent.extensions.services import ServiceBook
from agent.hooks.runner import HookRunner
from agent.llm import PROVIDERS
from agent.llm.base import LLMProvider
from agent.llm.chain import BareProviders, build_chain
from agent.llm.speech import OpenAISpeech
from agent.loop.cost_guard import CostGuard, Limits
from agent.media.reader import AttachmentReader
from agent.media.seeing import SeeingProvider
from agent.safety.layer import SafetyLayer
from agent.skills.shelf import SkillShelf
from agent.store.base import Store
from agent.workspace.identity import Identity
from agent.workspace.workspace import FolderWorkspace
from bot.archive import OutputArchive, StoreLedger
from bot.extended import service_book
from bot.gateway import Gateway
from bot.hooks import build_hooks
from bot.memory_vectors import MemoryVectors, build_vectors
from bot.notifier import OperatorNotifier, Targets
from bot.plugins import Plugins
from bot.posting import Directory, StoreOutbox
from bot.sandboxed import LateSandbox, late_sandbox
from bot.toolbox import build_shelf, build_speech
from channels.base import Channel
from channels.web import OPERATOR_ID
from config.settings import Settings

MakeProvider = Callable[[Settings, str | None], LLMProvider]


@dataclass(frozen=True, slots=True)
class Foundation:
    """What tools, conversations, jobs and routines share."""

    settings: Settings
    store: Store
    clock: Clock
    gateway: Gateway
    safety: SafetyLayer
    guard: CostGuard
    hooks: HookRunner
    screened_hooks: ScreenedHooks
    llm: LLMProvider
    cheap: LLMProvider
    speech: OpenAISpeech
    attachments: AttachmentReader
    workspace: FolderWorkspace
    identity: Identity
    archive: OutputArchive
    sandbox: LateSandbox
    book: ServiceBook
    vault: CredentialStore
    notifier: OperatorNotifier
    vectors: MemoryVectors | None
    outbox: StoreOutbox
    shelf: SkillShelf

    @property
    def places(self) -> Directory:
        """Where messages can go."""
        return Directory(self.gateway, self.notifier)


def lay_foundation(
    settings: Settings,
    store: Store,
    channels: Mapping[str, Channel],
    clock: Clock,
    make_provider: MakeProvider | None,
    plugins: Plugins,
) -> Foundation:
    """All of it for these settings and channels."""
    gateway = Gateway(channels, store, clock)
    safety = SafetyLayer(
        secrets_of(settings),
        settings.safety.max_output_length,
        injection_check=settings.safety.injection_check_enabled,
    )
    limits = Limits(settings.limits.max_cost_per_day_cents, settings.limits.max_actions_per_hour)
    guard = CostGuard(limits, StoreLedger(store), clock)
    hooks = build_hooks(plugins, settings.workspace, clock)
    make = make_provider or partial(build_provider, targets=plugins.provider_targets)
    models = build_chain(_bare_providers(settings, make), settings.llm, guard, clock, random.SystemRandom())
    speech = build_speech(settings, guard)
    attachments = AttachmentReader(gateway, settings.workspace, safety, speech, clock)
    workspace = FolderWorkspace(settings.workspace, clock)
    book = service_book(settings)
    load_key = partial(load_master_key, settings.secrets.master_key, settings.home, system_keychain())
    return Foundation(
        settings=settings,
        store=store,
        clock=clock,
        gateway=gateway,
        safety=safety,
        guard=guard,
        hooks=hooks,
        screened_hooks=ScreenedHooks(hooks, safety),
        llm=SeeingProvider(models.main, attachments.load),
        cheap=models.cheap,
        speech=speech,
        attachments=attachments,
        workspace=workspace,
        identity=Identity(workspace, clock),
        archive=OutputArchive(store, clock),
        sandbox=late_sandbox(settings),
        book=book,
        vault=CredentialStore(store, clock, load_key, book.terms_for),
        notifier=OperatorNotifier(_targets(settings, channels), gateway, store, clock),
        vectors=build_vectors(settings, store, clock, guard, safety.contains_secret),
        outbox=StoreOutbox(store, clock, gateway),
        shelf=build_shelf(settings),
    )


def secrets_of(settings: Settings) -> list[str]:
    """Every secret value in the settings, for the log and the safety layer to mask."""
    found: list[str] = []
    extensions = (*settings.channels.values(), *settings.providers.values())
    for section in (*extensions, settings.web, settings.secrets, settings.memory):
        for name in type(section).model_fields:
            value = getattr(section, name)
            if hasattr(value, "get_secret_value"):
                found.append(value.get_secret_value())
    if settings.database_url:
        found.append(settings.database_url)
    return found


def build_provider(settings: Settings, model: str | None, targets: Mapping[str, str] = PROVIDERS) -> LLMProvider:
    """The chosen provider, bare. Building it loads no SDK."""
    chosen = settings.llm
    module, _, name = targets[chosen.provider].partition(":")
    provider: LLMProvider = getattr(importlib.import_module(module), name)(
        settings.providers[chosen.provider], model=model, timeout=chosen.timeout
    )
    return provider


def _bare_providers(settings: Settings, make: MakeProvider) -> BareProviders:
    chosen = settings.llm
    return BareProviders(
        make(settings, chosen.model),
        make(settings, chosen.cheap_model) if chosen.cheap_model else None,
        tuple(make(_choosing(settings, ref.provider), ref.model) for ref in chosen.fallback),
    )


def _choosing(settings: Settings, provider: str) -> Settings:
    """The settings as they were if this provider had been chosen."""
    return settings.model_copy(update={"llm": settings.llm.model_copy(update={"provider": provider})})


def _targets(settings: Settings, channels: Mapping[str, Channel]) -> Targets:
    owners = {name: each.owner_id for name, each in settings.channels.items() if each.owner_id}
    if "web" in channels:
        owners["web"] = OPERATOR_ID
    return Targets(settings.heartbeat.notify_channel, settings.heartbeat.notify_user, owners)
