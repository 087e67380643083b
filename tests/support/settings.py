"""Settings for tests, from variables alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.llm.settings import PROVIDER_SETTINGS
from channels.settings import CHANNEL_SETTINGS
from config.load import Extensions, load_settings
from config.settings import Settings

EXTENSIONS = Extensions(CHANNEL_SETTINGS, PROVIDER_SETTINGS)


def make_settings(home: Path, variables: Mapping[str, str] | None = None) -> Settings:
    """The settings of a bot with this home and these variables, and nothing of the machine's."""
    return load_settings(
        {"TZ": "UTC", "OPTIMCLAW_HOME": str(home), **(variables or {})}, extensions=EXTENSIONS, cwd=None
    )
