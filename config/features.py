"""Settings that are accepted although what they steer does not exist yet, so that the start can say so."""

from __future__ import annotations

from typing import Final

from config.settings import Settings

NOT_BUILT_YET: Final = frozenset(
    {
        "AGENT_MAX_PARALLEL_JOBS",
        "DATABASE_URL",
        "ROUTINES_CRON_INTERVAL",
        "ROUTINES_DEFAULT_COOLDOWN",
        "ROUTINES_ENABLED",
        "ROUTINES_LIGHTWEIGHT_MAX_ITERATIONS",
        "ROUTINES_LIGHTWEIGHT_TOOLS",
        "ROUTINES_MAX_CONCURRENT",
        "ROUTINES_MAX_TOKENS",
        "WEBHOOK_SECRET",
    }
)


def without_effect(settings: Settings) -> tuple[str, ...]:
    """The settings that were set and do nothing yet, in alphabetical order."""
    return tuple(sorted(settings.set_names & NOT_BUILT_YET))
