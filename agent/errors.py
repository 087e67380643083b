"""The agent's own faults; models, tools and stores draw their trees in their own `errors.py`.

AgentError
├── InvalidTransition   a thread was asked to do what its state forbids: a defect of the caller
├── Fenced              another runner took over the thread: throw this work away
├── RoutineRefused      a routine cannot be made, changed or run so: tell why
└── NotYours            the thread, job or file belongs to somebody else: answer as if it did not exist
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of the agent's faults."""


class InvalidTransition(AgentError):
    """An event that the present state forbids."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"a thread that is {state} cannot take {event!r}")
        self.state = state
        self.event = event


class Fenced(AgentError):
    """The thread's epoch has moved on; what this runner did must not be committed."""


class NotYours(AgentError):
    """The caller does not own the thing named."""


class RoutineRefused(AgentError):
    """A routine that cannot be made, changed or run so. The text is for the model and for people."""
