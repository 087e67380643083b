"""What settings ask of each other: pure functions from what was given to faults."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Final

from config.errors import Fault
from config.fields import model_refs
from config.options import Extensions, nearest
from config.settings import AgentSettings, Extension, HeartbeatSettings
from config.sources import Given

AUTO: Final = "auto"
"""The provider's name that leaves the choice to us."""

# What pydantic takes for false: https://docs.pydantic.dev/latest/api/standard_library_types/#booleans
_NO: Final = frozenset({"false", "f", "no", "n", "off", "0"})


def is_enabled(model: type[Extension], given: Collection[str]) -> bool:
    """Whether what is given suffices to use a channel or a provider."""
    return not model.enabled_by or any(name in given for name in model.enabled_by)


def choose_provider(extensions: Extensions, given: Mapping[str, Collection[str]]) -> str:
    """The first provider that can be used as it is set; one that needs nothing only if no other can."""
    usable = [name for name, model in extensions.providers.items() if is_enabled(model, given.get(name, ()))]
    usable.sort(key=lambda name: not extensions.providers[name].enabled_by)
    return usable[0]


def provider_faults(
    name: str, provider: str, extensions: Extensions, given: Mapping[str, Collection[str]]
) -> Iterator[Fault]:
    """What is wrong with a provider that was asked for by the setting `name`."""
    model = extensions.providers.get(provider)
    if model is None:
        yield Fault(name, f"found {provider!r}; allowed: {', '.join((AUTO, *extensions.providers))}")
    elif not is_enabled(model, given.get(provider, ())):
        needed = " or ".join(f"{provider}_{key}".upper() for key in model.enabled_by)
        yield Fault(name, f"found {provider!r}, which needs {needed}; allowed: set it, or another provider")


def fallback_faults(fallback: Given, extensions: Extensions, given: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    """Fallbacks must be usable."""
    try:
        refs = model_refs(fallback.value)
    except ValueError:  # a fault of its own
        return
    for provider in dict.fromkeys(ref.provider for ref in refs):
        yield from provider_faults(fallback.name, provider, extensions, given)


def web_faults(given: Mapping[str, Given]) -> Iterator[Fault]:
    """Whoever can reach the page from elsewhere must know a token that the operator chose."""
    host = given["host"]
    if str(given["enabled"].value).lower() not in _NO and "token" not in given and not _is_loopback(str(host.value)):
        found = f"found {host.value!r} without WEB_TOKEN"
        yield Fault(host.name, f"{found}; allowed: 127.0.0.1, or any host with WEB_TOKEN")


def heartbeat_faults(given: Mapping[str, Given]) -> Iterator[Fault]:
    """Quiet hours have a start and an end."""
    for missing, other in (("quiet_start", "quiet_end"), ("quiet_end", "quiet_start")):
        if missing not in given and other in given:
            problem = f"not set, but {given[other].name} is; allowed: both or neither"
            yield Fault(f"HEARTBEAT_{missing.upper()}", problem)


def memory_faults(given: Mapping[str, Given], openai: Collection[str]) -> Iterator[Fault]:
    """Who is asked for vectors must be known."""
    provider = given["embedding_provider"]
    if str(provider.value).lower() == "openai" and not openai and "embedding_base_url" not in given:
        needed = "OPENAI_API_KEY, OPENAI_BASE_URL or MEMORY_EMBEDDING_BASE_URL"
        yield Fault(provider.name, f"found {provider.value!r}, which needs {needed}; allowed: set it, or off")


def agent_warnings(agent: AgentSettings, threshold: Given) -> Iterator[str]:
    """Values that were taken for others."""
    if float(str(threshold.value)) != agent.compaction_threshold:
        yield f"{threshold.name} is {threshold.value}, taken as {agent.compaction_threshold}"


def heartbeat_warnings(heartbeat: HeartbeatSettings, enabled: Iterable[str]) -> Iterator[str]:
    """Findings that would go nowhere."""
    places = (*enabled, "web", "console")
    channel = heartbeat.notify_channel
    if channel is not None and channel not in places:
        near = nearest(channel, places)
        hint = f"; did you mean {near}?" if near else ""
        yield f"HEARTBEAT_NOTIFY_CHANNEL is {channel!r}, and no such channel is enabled{hint}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
