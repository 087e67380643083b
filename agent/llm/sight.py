"""Which models see pictures. Pure."""

from __future__ import annotations

import re

# Anthropic, "Vision": all models from the third generation on.
_BLIND_CLAUDE = re.compile(r"claude-(?:2|instant)")

# OpenAI, "Images and vision", and the names under which servers that speak its language offer models that see.
_SEES = re.compile(
    r"(?:^|/)(?:gpt-(?:4o|4\.[15]|[5-9])|chatgpt-4o|o(?:1|3|4-mini)(?!-(?:mini|preview))|claude-(?!2|instant)|gemini)"
    r"|llava|vision|pixtral|\bvl\b|-vl-|vl:|gemma-?3|llama-?4|moondream|minicpm-v"
)


def sees_pictures(provider: str, model: str) -> bool:
    """Whether a model of a provider takes pictures. Of providers that are not ours, and small ones, none does."""
    match provider:
        case "anthropic":
            return _BLIND_CLAUDE.match(model) is None
        case "openai":
            return _SEES.search(model.lower()) is not None
        case _:
            return False
