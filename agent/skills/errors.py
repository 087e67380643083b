"""What can go wrong with a skill.

SkillError
├── SkillInvalid       the text is no skill: correct it as the message says
├── SkillRefused       it may not be installed or removed so; nothing was changed
└── SkillsUnavailable  the disk refused; nothing was changed

Messages are written for the model and for people. They name skills, never a path of the host.
"""

from __future__ import annotations


class SkillError(Exception):
    """Base of the faults of skills."""


class SkillInvalid(SkillError):
    """A text, or an archive, that holds no usable skill."""


class SkillRefused(SkillError):
    """A skill that may not be installed or removed as asked."""


class SkillsUnavailable(SkillError):
    """The folder of the skills cannot be read or written. `reason` is the system's own word for it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The skills folder could not be used: {reason}. Nothing was changed.")
        self.reason = reason
