"""What can be wrong with a schedule.

RoutineRefused (agent.errors)
└── InvalidSchedule   it cannot be read, or never comes; the text says so to a model or a person
"""

from __future__ import annotations

from agent.errors import RoutineRefused


class InvalidSchedule(RoutineRefused):
    """A schedule that is no cron expression, or that has no time to come."""
