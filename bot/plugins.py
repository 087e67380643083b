"""Plug-ins: installed packages that bring tools, hooks, channels or model providers.

Each is an entry point of the group `optimclaw.plugins` and names a function `register(plugins: Registrar) -> None`.
They are loaded once, before the settings are read, because channels and providers bring settings of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import structlog

from agent.hooks.base import SOURCE_MARK, Hook, ToolHooks
from agent.llm import PROVIDERS
from agent.llm.settings import PROVIDER_SETTINGS
from channels import CHANNELS
from channels.settings import CHANNEL_SETTINGS
from config.options import Extensions, catalogue
from config.rules import AUTO
from config.settings import AccessSettings, Extension

if TYPE_CHECKING:
    from agent.tools.registry import AnyTool
    from channels.base import Channel

log = structlog.get_logger(__name__)

GROUP = "optimclaw.plugins"
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class ChannelPlug:
    """A channel's class, as an import string, and its settings."""

    target: str
    settings: type[AccessSettings]


@dataclass(frozen=True, slots=True)
class ProviderPlug:
    """A model provider's class, as an import string, and its settings."""

    target: str
    settings: type[Extension]


@dataclass(frozen=True, slots=True)
class Plugins:
    """What all plug-ins brought. `warnings` are sentences for the log; `absent` names what is installed and left out.

    `absent` holds plug-ins and the channels and providers they were about to bring.
    """

    names: tuple[str, ...] = ()
    tools: tuple[AnyTool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    tool_hooks: tuple[ToolHooks, ...] = ()
    channels: Mapping[str, ChannelPlug] = field(default_factory=dict)
    providers: Mapping[str, ProviderPlug] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()

    @property
    def extensions(self) -> Extensions:
        """The settings of all channels and providers, the built-in ones included."""
        return Extensions(
            channels={**CHANNEL_SETTINGS, **{name: plug.settings for name, plug in self.channels.items()}},
            providers={**PROVIDER_SETTINGS, **{name: plug.settings for name, plug in self.providers.items()}},
            absent=self.absent,
        )

    @property
    def channel_targets(self) -> dict[str, str]:
        """The import strings of the channels."""
        return {name: plug.target for name, plug in self.channels.items()}

    @property
    def provider_targets(self) -> dict[str, str]:
        """The import strings of all providers, the built-in ones included."""
        return {**PROVIDERS, **{name: plug.target for name, plug in self.providers.items()}}


NO_PLUGINS = Plugins()


class Registrar:
    """Takes what one plug-in brings. A name that is taken is refused, and the operator is told.

    A wrong kind of thing raises TypeError or ValueError, as anything else that goes wrong while it registers: then the
    plug-in is left out as a whole.
    """

    def __init__(self, plugin: str, before: Plugins) -> None:
        self._plugin = plugin
        self._before = before
        self._now = before

    @property
    def result(self) -> Plugins:
        """What there is with this plug-in."""
        return replace(self._now, names=(*self._before.names, self._plugin))

    def without(self, reason: str) -> Plugins:
        """What there is without this plug-in, and why."""
        claimed = {*self._now.channels, *self._now.providers} - {*self._before.channels, *self._before.providers}
        return replace(
            self._before,
            warnings=(*self._before.warnings, f"the plug-in {self._plugin} is left out: {reason}"),
            absent=self._before.absent | claimed | {self._plugin},
        )

    def tool(self, tool: AnyTool) -> bool:
        """Bring a tool."""
        from agent.tools.registry import ToolRegistry

        name = tool.spec.name
        if not ToolRegistry(()).register(tool) or any(name == other.spec.name for other in self._now.tools):
            return self._refuse(f"a tool {name}")
        self._now = replace(self._now, tools=(*self._now.tools, tool))
        return True

    def hook(self, hook: Hook) -> bool:
        """Bring a hook. It is registered as `plugin::name`."""
        if not isinstance(hook, Hook):
            raise TypeError("hook() takes an agent.hooks.base.Hook")
        named = replace(hook, name=self._plugin + SOURCE_MARK + hook.name)
        if any(named.name == other.name for other in self._now.hooks):
            return self._refuse(f"a hook {hook.name}")
        self._now = replace(self._now, hooks=(*self._now.hooks, named))
        return True

    def tool_hooks(self, hooks: ToolHooks) -> bool:
        """Bring hooks around the run of tools. They are registered as `plugin::name`."""
        if not isinstance(hooks, ToolHooks):
            raise TypeError("tool_hooks() takes an agent.hooks.base.ToolHooks")
        named = replace(hooks, name=self._plugin + SOURCE_MARK + hooks.name)
        if any(named.name == other.name for other in self._now.tool_hooks):
            return self._refuse(f"tool hooks {hooks.name}")
        self._now = replace(self._now, tool_hooks=(*self._now.tool_hooks, named))
        return True

    def channel(self, name: str, target: str, settings: type[AccessSettings]) -> bool:
        """Bring a channel: `target` is `module:Class`, imported only if the settings enable the channel."""
        _check(name, target)
        if not issubclass(settings, AccessSettings):
            raise TypeError("a channel's settings derive from channels.settings.ChannelSettings")
        plugged = replace(self._now, channels={**self._now.channels, name: ChannelPlug(target, settings)})
        if name in CHANNELS or name in self._now.channels or _collides(plugged):
            return self._refuse(f"a channel {name}")
        self._now = plugged
        return True

    def provider(self, name: str, target: str, settings: type[Extension]) -> bool:
        """Bring a model provider: `target` is `module:Class`, imported only if the settings choose it."""
        _check(name, target)
        if not issubclass(settings, Extension):
            raise TypeError("a provider's settings derive from agent.llm.settings.ProviderSettings")
        plugged = replace(self._now, providers={**self._now.providers, name: ProviderPlug(target, settings)})
        if name == AUTO or name in PROVIDERS or name in self._now.providers or _collides(plugged):
            return self._refuse(f"a provider {name}")
        self._now = plugged
        return True

    def _refuse(self, what: str) -> bool:
        warning = f"the plug-in {self._plugin} brings {what}, but that name is taken: it is left out"
        self._now = replace(self._now, warnings=(*self._now.warnings, warning))
        return False


def installed_plugins() -> tuple[EntryPoint, ...]:
    """The plug-ins that are installed, by name. Loads none."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)))


def load_plugins(installed: Iterable[EntryPoint], disabled: frozenset[str]) -> Plugins:
    """What the plug-ins bring that are not `disabled`. Those that fail are left out."""
    found = Plugins()
    for point in installed:
        registrar = Registrar(point.name, found)
        if point.name in disabled:
            found = replace(found, absent=found.absent | {point.name})
        elif not _PLUGIN_NAME.fullmatch(point.name):
            found = registrar.without("its name may hold letters, digits, - and _")
        elif point.name in found.names:
            found = registrar.without("another one has this name")
        else:
            found = _loaded(point, registrar)
    return found


def build_plugged_channel(name: str, plug: ChannelPlug, settings: AccessSettings) -> Channel | None:
    """A plug-in's channel; None, and an error in the log, if it cannot be made."""
    module, _, class_name = plug.target.partition(":")
    try:
        channel: Channel = getattr(import_module(module), class_name)(settings)
    except Exception as error:  # noqa: BLE001 - a supervised place: whatever a plug-in does, the bot starts
        log.error("plugin_channel_left_out", channel=name, error=type(error).__name__)
        return None
    return channel


def _loaded(point: EntryPoint, registrar: Registrar) -> Plugins:
    try:
        point.load()(registrar)
    except Exception as error:  # noqa: BLE001 - a supervised place: whatever a plug-in does, the bot starts
        detail = " ".join(str(error).split())[:_LONGEST_SHOWN]
        reason = f"{type(error).__name__}{f': {detail}' if detail else ''}"
        return registrar.without(f"{reason}. Update or uninstall it, or name it in PLUGINS_DISABLED")
    return registrar.result


def _check(name: str, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError("a name begins with a letter and holds small letters and digits only, at most 32")
    if not _TARGET.fullmatch(target):
        raise ValueError("a class is named as module:Class")


def _collides(plugins: Plugins) -> bool:
    """Whether two settings would share a variable, or a table would take the place of another or of a setting."""
    known = catalogue(plugins.extensions)
    own = catalogue(Extensions({}, {}))
    tables = {name for name, *_ in own.models}
    of_models = {place[1] for place in own.by_place if place[0] == "llm"}
    return (
        len(known.by_env) != len(known.by_place)
        or not tables.isdisjoint({*plugins.channels, *plugins.providers})
        or not of_models.isdisjoint(plugins.providers)
    )
