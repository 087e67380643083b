"""Models: one protocol, one file per provider. Importing this loads no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "anthropic": "agent.llm.anthropic:AnthropicProvider",
        "openai": "agent.llm.openai:OpenAIProvider",
        "local": "agent.llm.local:LocalProvider",
    }
)
"""Where each provider's class lives. Its constructor takes `(settings, *, model, timeout)`."""
