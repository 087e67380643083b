"""A tool call as the model asked for it, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JsonValue = object  # a value that `json.loads` can give


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for. `malformed` holds the raw arguments where they were no JSON object."""

    id: str
    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    malformed: str | None = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool returned, as text for the model. An error is an outcome the model can act on, not a fault of ours."""

    text: str
    is_error: bool = False
