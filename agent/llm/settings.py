"""What an operator can set for each model provider. Imports no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import Field, SecretStr

from config.fields import HttpUrl
from config.settings import Extension


class ProviderSettings(Extension):
    """Base of the providers' settings. A provider can be used if any of `enabled_by` is set."""


class AnthropicSettings(ProviderSettings):
    """`[llm.anthropic]`, `ANTHROPIC_*`. No address: the SDK's own."""

    enabled_by: ClassVar = ("api_key",)

    api_key: Annotated[SecretStr | None, Field(description="the account's key")] = None
    base_url: Annotated[HttpUrl | None, Field(description="another server; not set: Anthropic's")] = None


class OpenAISettings(ProviderSettings):
    """`[llm.openai]`, `OPENAI_*`: OpenAI, or any server that speaks its protocol and may need no key."""

    enabled_by: ClassVar = ("api_key", "base_url")

    api_key: Annotated[SecretStr | None, Field(description="the account's key")] = None
    base_url: Annotated[
        HttpUrl | None, Field(description="a server that speaks OpenAI's protocol; not set: OpenAI's")
    ] = None
    image_model: Annotated[str | None, Field(description="the model that draws; not set: the newest known")] = None


class LocalSettings(ProviderSettings):
    """`[llm.local]`: the bundled small model has nothing to set."""


# The order is the order of preference where no provider was chosen.
PROVIDER_SETTINGS: Mapping[str, type[ProviderSettings]] = MappingProxyType(
    {"anthropic": AnthropicSettings, "openai": OpenAISettings, "local": LocalSettings}
)
