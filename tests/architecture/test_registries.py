"""Every registered name loads and has what its protocol asks for."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping

import pytest

from agent import llm
from agent.llm.base import LLMProvider
from agent.llm.settings import PROVIDER_SETTINGS
from channels import CHANNELS
from channels.base import Channel
from channels.settings import CHANNEL_SETTINGS

PROVIDERS: Mapping[str, str] = getattr(llm, "PROVIDERS", {})


def load(target: str) -> type:
    module, _, name = target.partition(":")
    loaded = getattr(importlib.import_module(module), name)
    assert isinstance(loaded, type)
    return loaded


def members(protocol: type) -> set[str]:
    return {name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_")}


def differences(implementation: type, protocol: type) -> list[str]:
    """What an implementation lacks, or takes by other names."""
    found = []
    for name in sorted(members(protocol)):
        asked, given = inspect.getattr_static(protocol, name, None), getattr(implementation, name, None)
        if given is None and name not in inspect.get_annotations(implementation):
            found.append(f"{name} is missing")
        elif inspect.isfunction(asked) and inspect.isfunction(given):
            if inspect.iscoroutinefunction(asked) != inspect.iscoroutinefunction(given):
                found.append(f"{name} is not async as asked")
            asked_names, given_names = list(inspect.signature(asked).parameters), inspect.signature(given).parameters
            if asked_names != list(given_names)[: len(asked_names)]:
                found.append(f"{name} takes {list(given_names)}, not {asked_names}")
    return found


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the SDKs, at import
def test_registered_channel_loads_and_is_a_channel(name: str) -> None:
    channel = load(CHANNELS[name])

    assert differences(channel, Channel) == []
    assert getattr(channel, "name", None) == name


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_registered_provider_loads_and_is_a_provider(name: str) -> None:
    assert differences(load(PROVIDERS[name]), LLMProvider) == []


def test_settings_belong_to_registered_channels_and_providers() -> None:
    assert set(CHANNEL_SETTINGS) <= set(CHANNELS)
    assert set(PROVIDER_SETTINGS) == set(PROVIDERS or PROVIDER_SETTINGS)


def test_differences_are_noticed() -> None:
    class Deaf:
        name = "deaf"

        def run(self, accept: object) -> None: ...

        async def send(self, message: object) -> str:
            return ""

    found = differences(Deaf, Channel)

    assert "run is not async as asked" in found
    assert "settle is missing" in found
    assert "send takes ['self', 'message'], not ['self', 'message', 'delivery']" in found
