"""What a skill is: instructions for one kind of task, and when a message calls for them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from enum import StrEnum

from agent.skills.patterns import Pattern

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a skill may be called. Nothing of it can lead out of a folder."""

DEFAULT_TOKENS = 2000
_BYTES_PER_TOKEN = 4


class Trust(StrEnum):
    """Whose words a skill holds: the operator's own, or those of somebody it was installed from."""

    TRUSTED = "TRUSTED"
    INSTALLED = "INSTALLED"


@dataclass(frozen=True, slots=True)
class Activation:
    """Which messages a skill is for. Words are folded (`folded`); `max_context_tokens` is what its author declares."""

    keywords: tuple[str, ...] = ()
    exclude_keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = field(default=(), compare=False, repr=False)
    max_context_tokens: int = DEFAULT_TOKENS


@dataclass(frozen=True, slots=True)
class Requires:
    """What must be there for a skill to be of use: programs, environment variables, settings."""

    bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A loaded skill. `folder` is the name of its folder, for display; empty for a file that lies by itself.

    `warnings`: which parts of the file were left out, and why.
    """

    name: str
    version: str
    description: str
    activation: Activation
    requires: Requires
    body: str
    sha256: str
    trust: Trust
    folder: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def cost_tokens(self) -> int:
        """What it takes of a prompt: as declared, unless its size is more than twice that."""
        declared = self.activation.max_context_tokens
        rough = len(self.body.encode()) // _BYTES_PER_TOKEN
        return max(1, rough if rough > 2 * declared else declared)


def folded(text: str) -> str:
    """`text` as words are compared: lower case, composed characters, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def name_key(name: str) -> str:
    """What two names share that some file system takes for the same."""
    return name.lower()
