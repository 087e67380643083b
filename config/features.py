"""Settings that are accepted although what they steer does not exist yet, so that the start can say so."""

from __future__ import annotations

from typing import Final

from config.settings import Settings

NOT_BUILT_YET: Final = frozenset(
    {
        "DATABASE_URL",
    }
)


def without_effect(settings: Settings) -> tuple[str, ...]:
    """The settings that were set and do nothing yet, in alphabetical order."""
    return tuple(sorted(settings.set_names & NOT_BUILT_YET))
