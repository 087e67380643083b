from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel

from agent.hooks.base import (
    Change,
    Event,
    Hook,
    InboundEvent,
    OutboundEvent,
    Outcome,
    Passed,
    Point,
    Stopped,
    ToolEvent,
    ToolHooks,
)
from agent.llm.settings import ProviderSettings
from agent.model.ids import UserId
from agent.model.tool_call import ToolOutput
from agent.tools.base import Effect, PathScope, ToolContext, ToolSpec
from bot.hooks import build_hooks
from bot.plugins import GROUP, Plugins, Registrar, build_plugged_channel, load_plugins
from channels.settings import ChannelSettings
from config.errors import ConfigError
from config.load import disabled_plugins, load_settings
from config.settings import AccessSettings
from tests.support.fake_clock import FakeClock

ANN = UserId("telegram:5")


class NoArguments(BaseModel):
    """No arguments."""


class Probe:
    """A tool."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, "Probe.", NoArguments, Effect.READ)

    def scope(self, arguments: NoArguments) -> PathScope:
        return PathScope.nothing()

    async def run(self, arguments: NoArguments, context: ToolContext) -> ToolOutput:
        return ToolOutput("")


class MatrixSettings(ChannelSettings):
    """`MATRIX_*`."""

    room: str = "here"


class OllamaSettings(ProviderSettings):
    """`OLLAMA_*`."""

    enabled_by: ClassVar = ("base_url",)
    base_url: str | None = None


class Box:
    """What stands for a channel's class."""

    def __init__(self, settings: AccessSettings) -> None:
        if settings.owner_id == "9":
            raise RuntimeError


async def sign(event: Event) -> Outcome:
    assert isinstance(event, OutboundEvent)
    return Change(event.content + "!")


async def never(tool: str, arguments: object) -> str | None:
    return "never"


HERE = "tests.unit.bot.test_plugins"


# -- what plug-ins register ----------------------------------------------------------------------------------------
def everything(plugins: Registrar) -> None:
    assert plugins.tool(Probe("probe"))
    assert plugins.hook(Hook("sign", frozenset({Point.BEFORE_OUTBOUND}), sign))
    assert plugins.tool_hooks(ToolHooks("guard", veto=never))
    assert plugins.channel("matrix", f"{HERE}:Box", MatrixSettings)
    assert plugins.provider("ollama", f"{HERE}:Box", OllamaSettings)


def names_of_the_bot(plugins: Registrar) -> None:
    assert not plugins.tool(Probe("shell"))
    for channel in ("telegram", "console", "web", "agent", "llm"):
        assert not plugins.channel(channel, f"{HERE}:Box", MatrixSettings)
    for provider in ("openai", "auto", "model", "web"):
        assert not plugins.provider(provider, f"{HERE}:Box", OllamaSettings)
    assert plugins.tool(Probe("mine"))


def raises_late(plugins: Registrar) -> None:
    plugins.tool(Probe("late"))
    plugins.channel("latecomer", f"{HERE}:Box", MatrixSettings)
    raise RuntimeError("the \n licence\n expired")


def wrong_hook(plugins: Registrar) -> None:
    plugins.hook(ToolHooks("x"))  # type: ignore[arg-type]  # a plug-in whose author checks no types


def wrong_settings(plugins: Registrar) -> None:
    plugins.channel("matrix", f"{HERE}:Box", OllamaSettings)  # type: ignore[arg-type]  # likewise


def wrong_name(plugins: Registrar) -> None:
    plugins.channel("Ma-trix", f"{HERE}:Box", MatrixSettings)


def wrong_target(plugins: Registrar) -> None:
    plugins.provider("ollama", "os.system('x')", OllamaSettings)


def wrong_tool(plugins: Registrar) -> None:
    plugins.tool(object())  # type: ignore[arg-type]  # likewise


def point(function: str, name: str = "sample") -> EntryPoint:
    return EntryPoint(name, f"{HERE}:{function}", GROUP)


def loaded(*points: EntryPoint, disabled: frozenset[str] = frozenset()) -> Plugins:
    return load_plugins(points, disabled)


# -- loading -------------------------------------------------------------------------------------------------------
def test_plugin_brings_all_kinds_of_things() -> None:
    found = loaded(point("everything"))

    assert found.names == ("sample",)
    assert found.warnings == ()
    assert [tool.spec.name for tool in found.tools] == ["probe"]
    assert [hook.name for hook in found.hooks] == ["sample::sign"]
    assert [hooks.name for hooks in found.tool_hooks] == ["sample::guard"]
    assert found.channels["matrix"].target == f"{HERE}:Box"
    assert found.provider_targets["ollama"] == f"{HERE}:Box"
    assert "anthropic" in found.provider_targets


async def test_hooks_of_plugins_and_of_files_stand_beside_the_audit(tmp_path: Path) -> None:
    folder = tmp_path / "hooks"
    folder.mkdir()
    (folder / "hooks.json").write_text('{"rules": [{"name": "r", "points": ["beforeInbound"], "append": "!"}]}')
    hooks = build_hooks(loaded(point("everything")), tmp_path, FakeClock())

    assert await hooks.inbound(InboundEvent(ANN, "telegram", "hi", "t1")) == Passed("hi!")
    assert hooks.names == ("audit", "hooks.json::r", "sample::guard", "sample::sign")
    assert await hooks.outbound(OutboundEvent(ANN, "telegram", "hi", "t1")) == Passed("hi!")
    assert await hooks.before_tool(ToolEvent("echo", {}, ANN, "chat")) == Stopped("never")


def test_names_that_are_taken_are_refused_one_by_one_and_said() -> None:
    found = loaded(point("names_of_the_bot"))

    assert [tool.spec.name for tool in found.tools] == ["mine"]
    assert (found.channels, found.providers) == ({}, {})
    assert len(found.warnings) == 10
    assert all("sample" in warning and "taken" in warning for warning in found.warnings)


def test_second_plugin_does_not_get_what_the_first_has() -> None:
    def again(plugins: Registrar) -> None:
        assert not plugins.tool(Probe("probe"))
        assert not plugins.channel("matrix", f"{HERE}:Box", MatrixSettings)
        assert not plugins.provider("ollama", f"{HERE}:Box", OllamaSettings)
        assert not plugins.provider("matrix", f"{HERE}:Box", OllamaSettingsWithToken)
        assert plugins.hook(Hook("sign", frozenset({Point.BEFORE_OUTBOUND}), sign))

    registrar = Registrar("other", loaded(point("everything")))
    again(registrar)

    assert registrar.result.names == ("sample", "other")
    assert [hook.name for hook in registrar.result.hooks] == ["sample::sign", "other::sign"]


class OllamaSettingsWithToken(ProviderSettings):
    """Shares a variable with the channel `matrix`."""

    bot_token: str | None = None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("raises_late", "RuntimeError: the licence expired"),
        ("wrong_hook", "TypeError"),
        ("wrong_settings", "TypeError"),
        ("wrong_name", "ValueError"),
        ("wrong_target", "ValueError"),
        ("wrong_tool", "AttributeError"),
        ("no_such_function", "AttributeError"),
    ],
)
def test_plugin_that_fails_is_left_out_as_a_whole_and_the_others_are_loaded(function: str, said: str) -> None:
    found = loaded(point(function, "broken"), point("everything"))

    assert found.names == ("sample",)
    assert len(found.tools) == 1
    (warning,) = found.warnings
    assert warning.startswith("the plug-in broken is left out: ")
    assert said in warning
    assert "PLUGINS_DISABLED" in warning


def test_module_that_is_not_there_leaves_its_plugin_out() -> None:
    found = loaded(EntryPoint("gone", "no_such_module_anywhere:register", GROUP))

    assert found.names == ()
    assert "ModuleNotFoundError" in found.warnings[0]


def test_plugin_with_a_name_that_is_none_or_taken_is_left_out() -> None:
    found = loaded(point("names_of_the_bot", "a::b"), point("everything"), point("everything"))

    assert found.names == ("sample",)
    assert len(found.warnings) == 2


def test_plugin_that_is_switched_off_is_not_loaded_and_no_doubt() -> None:
    found = loaded(point("raises_late", "broken"), point("everything"), disabled=frozenset({"broken"}))

    assert found.names == ("sample",)
    assert found.warnings == ()
    assert found.absent == {"broken"}


def test_channel_that_cannot_be_made_is_left_out() -> None:
    plug = loaded(point("everything")).channels["matrix"]

    assert build_plugged_channel("matrix", plug, MatrixSettings(bot_token="x")) is not None
    assert build_plugged_channel("matrix", plug, MatrixSettings(bot_token="x", owner_id="9")) is None
    gone = replace(plug, target="no_such_module_anywhere:Box")
    assert build_plugged_channel("matrix", gone, MatrixSettings(bot_token="x")) is None


# -- their settings ------------------------------------------------------------------------------------------------
def test_settings_of_plugins_are_settings(tmp_path: Path) -> None:
    variables = {"OPTIMCLAW_HOME": str(tmp_path), "MATRIX_BOT_TOKEN": "x", "OLLAMA_BASE_URL": "http://127.0.0.1"}
    extensions = loaded(point("everything")).extensions

    settings = load_settings({**variables, "LLM_PROVIDER": "ollama"}, extensions=extensions, cwd=None)

    assert list(settings.channels) == ["matrix"]
    assert settings.llm.provider == "ollama"


@pytest.mark.parametrize("table", ["channels.broken", "channels.latecomer", "llm.broken"])
def test_table_of_a_plugin_that_is_left_out_is_a_warning_and_no_fault(tmp_path: Path, table: str) -> None:
    (tmp_path / "config.toml").write_text(f'[{table}]\nbot_token = "x"\n')
    variables = {"OPTIMCLAW_HOME": str(tmp_path)}
    extensions = loaded(point("raises_late", "broken")).extensions

    settings = load_settings(variables, extensions=extensions, cwd=None)

    assert any(f"[{table}] belongs to a plug-in" in warning for warning in settings.warnings)
    with pytest.raises(ConfigError, match="no such section"):
        load_settings(variables, extensions=Plugins().extensions, cwd=None)


def test_plugins_are_switched_off_by_variable_or_file_before_other_settings_are_judged(tmp_path: Path) -> None:
    variables = {"OPTIMCLAW_HOME": str(tmp_path)}
    file = tmp_path / "config.toml"
    assert disabled_plugins(variables, tmp_path) == frozenset()

    file.write_text('[plugins]\ndisabled = ["dice", "box"]\n[channels.unknown]\nx = 1\n')
    assert disabled_plugins(variables, tmp_path) == {"dice", "box"}
    assert disabled_plugins({**variables, "PLUGINS_DISABLED": "matrix, dice"}, tmp_path) == {"matrix", "dice"}

    file.write_text("[plugins]\ndisabled = 5\n")
    assert disabled_plugins(variables, tmp_path) == frozenset()
    file.write_text("[plugins\n")
    assert disabled_plugins(variables, tmp_path) == frozenset()
