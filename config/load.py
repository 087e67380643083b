"""Settings from the defaults, the file in the home and the environment, each winning over those before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from config.errors import ConfigError, Fault
from config.masking import mask_shapes
from config.options import Catalogue, Extensions, Option, Place, catalogue
from config.paths import CONFIG_FILE, resolve_home
from config.rules import (
    AUTO,
    agent_warnings,
    choose_provider,
    fallback_faults,
    heartbeat_faults,
    heartbeat_warnings,
    is_enabled,
    memory_faults,
    provider_faults,
    web_faults,
)
from config.settings import (
    SECTIONS,
    AccessSettings,
    AgentSettings,
    HeartbeatSettings,
    PluginSettings,
    Section,
    Settings,
)
from config.sources import Given, read_defaults, read_environment, read_file, take_variables

__all__ = ["Extensions", "disabled_plugins", "load_settings"]

_LONGEST_SHOWN = 80
_FALLBACK = ("llm", "fallback")
_PROVIDER = ("llm", "provider")
_DISABLED = ("plugins", "disabled")
_THRESHOLD = ("agent", "compaction_threshold")
_ZONE = ("agent", "timezone")

S = TypeVar("S", bound=Section)


def load_settings(environ: Mapping[str, str], *, extensions: Extensions, cwd: Path | None) -> Settings:
    """The settings; `.env` is read from `cwd` unless that is None. Relative paths start there.

    Raises ConfigError with every fault at once.
    """
    known = catalogue(extensions)
    defaults = read_defaults(known)
    folder = cwd or Path.cwd()
    variables, faults = read_environment(environ, cwd)
    home = resolve_home(variables.get("OPTIMCLAW_HOME") or defaults.home, variables, folder)
    file = read_file(home / CONFIG_FILE, known)
    environment = take_variables(variables, known, folder)
    faults += [*file.faults, *environment.faults]
    chosen = file.values | environment.values

    build = _Builder(known, _derived(chosen, variables) | defaults.values | chosen, faults)
    channels = build.channels(extensions.channels)
    providers = {name: build.section(("llm", name), model) for name, model in extensions.providers.items()}
    build.choose_provider(extensions)
    sections = {name: build.section((name,), model) for name, model in SECTIONS.items()}
    faults += _faults_across(build, extensions)
    if faults:
        raise ConfigError(dict.fromkeys(faults))

    warnings = (*file.warnings, *environment.warnings, *_warnings_across(sections, channels, build))
    extra = {"home": home, "channels": channels, "providers": providers, "warnings": warnings}
    names = {known.by_place[place].env for place in chosen} | ({"OPTIMCLAW_HOME"} & variables.keys())
    return Settings.model_validate({**sections, **extra, "set_names": frozenset(names)})


def disabled_plugins(environ: Mapping[str, str], cwd: Path) -> frozenset[str]:
    """The plug-ins that are switched off, read before all other settings: plug-ins bring settings of their own.

    What is wrong here is said by `load_settings`.
    """
    known = catalogue(Extensions({}, {}))
    defaults = read_defaults(known)
    variables, _ = read_environment(environ, cwd)
    home = resolve_home(variables.get("OPTIMCLAW_HOME") or defaults.home, variables, cwd)
    values = read_file(home / CONFIG_FILE, known).values | take_variables(variables, known, cwd).values
    try:
        given = values[_DISABLED].value
        return frozenset(PluginSettings.model_validate({"disabled": given}).disabled)
    except (KeyError, ValidationError):
        return frozenset()


def machine_zone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> str:
    """The IANA name of the machine's time zone; UTC if it cannot be told."""
    for name in (environ.get("TZ", "").removeprefix(":"), str(localtime.resolve()).partition("/zoneinfo/")[2]):
        try:
            if name:
                return ZoneInfo(name).key
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return "UTC"


def _derived(chosen: Mapping[Place, Given], variables: Mapping[str, str]) -> dict[Place, Given]:
    """Defaults that depend on the machine or on other settings."""
    zone = chosen.get(_ZONE) or Given(machine_zone(variables), "AGENT_TIMEZONE")
    is_port_set = ("web", "port") in chosen
    return {
        _ZONE: zone,
        ("heartbeat", "timezone"): zone,
        ("web", "port_is_explicit"): Given(is_port_set, "WEB_PORT"),
    }


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes sections of the values in force, and puts what is wrong with them into `faults`."""

    known: Catalogue
    values: dict[Place, Given]
    faults: list[Fault]

    def given(self, table: Place) -> dict[str, Given]:
        """The values of one table by field."""
        options = {option.place: option.field for option in self.known.options_of(table)}
        return {options.get(place, place[-1]): given for place, given in self.values.items() if place[:-1] == table}

    def section(self, table: Place, model: type[S], *, is_on: bool = True) -> S | None:
        """The section of one table, or None if there is anything wrong with it or it is not on."""
        given = self.given(table)
        try:
            built = model.model_validate({name: value.value for name, value in given.items()})
        except ValidationError as error:
            options = {option.field: option for option in self.known.options_of(table)}
            for detail in error.errors(include_url=False, include_input=False, include_context=False):
                name = str(detail["loc"][0])
                # An extension whose token is missing is off; its other settings are checked all the same.
                if name in given:
                    self.faults.append(_fault(given[name], options[name]))
            return None
        return built if is_on else None

    def channels(self, models: Mapping[str, type[AccessSettings]]) -> dict[str, AccessSettings]:
        """The channels that are enabled."""
        enabled: dict[str, AccessSettings] = {}
        for name, model in models.items():
            table = ("channels", name)
            given = self.given(table)
            for field, reason in model.gaps({key: value.value for key, value in given.items()}):
                option = next(option for option in self.known.options_of(table) if option.field == field)
                self.faults.append(Fault(option.env, f"not set, but {reason}"))
            if built := self.section(table, model, is_on=is_enabled(model, given)):
                enabled[name] = built
        return enabled

    def providers_given(self, extensions: Extensions) -> dict[str, frozenset[str]]:
        """What is set for each provider."""
        return {name: frozenset(self.given(("llm", name))) for name in extensions.providers}

    def choose_provider(self, extensions: Extensions) -> None:
        """Check the provider that was asked for, or choose one."""
        given = self.providers_given(extensions)
        asked = self.values[_PROVIDER]
        provider = str(asked.value).lower()
        if provider == AUTO:
            provider = choose_provider(extensions, given)
        self.values[_PROVIDER] = Given(provider, asked.name)
        self.faults.extend(provider_faults(asked.name, provider, extensions, given))


def _faults_across(build: _Builder, extensions: Extensions) -> Iterator[Fault]:
    yield from web_faults(build.given(("web",)))
    yield from heartbeat_faults(build.given(("heartbeat",)))
    yield from memory_faults(build.given(("memory",)), build.given(("llm", "openai")))
    yield from fallback_faults(build.values[_FALLBACK], extensions, build.providers_given(extensions))


def _warnings_across(
    sections: Mapping[str, Section | None], channels: Collection[str], build: _Builder
) -> Iterator[str]:
    for section in sections.values():
        match section:
            case AgentSettings():
                yield from agent_warnings(section, build.values[_THRESHOLD])
            case HeartbeatSettings():
                yield from heartbeat_warnings(section, channels)


def _fault(given: Given, option: Option) -> Fault:
    """What was found and what is allowed, without the secret if it is one."""
    if option.is_secret:
        found = f"a hidden value of {len(str(given.value))} characters"
    else:
        shown = mask_shapes(repr(given.value))
        found = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[: _LONGEST_SHOWN - 1]}…"
    return Fault(given.name, f"found {found}; allowed: {option.allowed}")
