"""What an operator can set for each chat platform. Imports no SDK."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, SecretStr

from config.fields import Allowed, HttpUrl, SocketUrl, Word
from config.settings import AccessSettings, DmPolicy, GroupPolicy, GroupTrigger

__all__ = [
    "CHANNEL_SETTINGS",
    "AccessSettings",
    "ChannelSettings",
    "DiscordSettings",
    "DmPolicy",
    "GroupPolicy",
    "GroupTrigger",
    "SlackSettings",
    "TelegramMode",
    "TelegramSettings",
    "UncertainSend",
]


class ChannelSettings(AccessSettings):
    """What every platform needs: a bot token, which enables the channel, and who may talk to it."""

    enabled_by: ClassVar = ("bot_token",)

    bot_token: Annotated[SecretStr, Field(description="enables the channel")]


class TelegramMode(Word):
    """How updates arrive: we ask for them, or Telegram posts them to `webhook_url`."""

    POLLING = "polling"
    WEBHOOK = "webhook"


class UncertainSend(Word):
    """What to do with a message whose sending a crash cut off: lose it or risk it twice."""

    SKIP = "skip"
    RESEND = "resend"


def _webhook_secret(value: SecretStr) -> SecretStr:
    # Telegram Bot API, setWebhook, secret_token: 1-256 characters A-Z, a-z, 0-9, _ and -.
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", value.get_secret_value()):
        raise ValueError("not such a secret")
    return value


_WebhookSecret = Annotated[
    SecretStr, AfterValidator(_webhook_secret), Allowed("1 to 256 letters, digits, underscores and hyphens")
]


class TelegramSettings(ChannelSettings):
    """`[channels.telegram]`, `TELEGRAM_*`."""

    api_base_url: Annotated[
        HttpUrl,
        AfterValidator(lambda url: url.rstrip("/")),
        Field(description="the Bot API server, such as one of your own"),
    ] = "https://api.telegram.org"
    mode: Annotated[TelegramMode, Field(description="whether the bot asks for updates or Telegram posts them")] = (
        TelegramMode.POLLING
    )
    webhook_url: Annotated[HttpUrl | None, Field(description="where Telegram posts updates in mode webhook")] = None
    webhook_secret: Annotated[_WebhookSecret | None, Field(description="by which those posts are known")] = None
    uncertain_send: Annotated[
        UncertainSend, Field(description="what becomes of a message whose sending a crash cut off")
    ] = UncertainSend.SKIP

    @classmethod
    def gaps(cls, given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """A webhook needs an address and a secret."""
        if "bot_token" in given and str(given.get("mode", "")).lower() == TelegramMode.WEBHOOK:
            for needed in ("webhook_url", "webhook_secret"):
                if needed not in given:
                    yield needed, "TELEGRAM_MODE webhook needs it"


class SlackSettings(ChannelSettings):
    """`[channels.slack]`, `SLACK_*`. Socket Mode with an app token, else the Events API with `signing_secret`."""

    app_token: Annotated[SecretStr | None, Field(description="for Socket Mode")] = None
    signing_secret: Annotated[SecretStr | None, Field(description="for the Events API at /slack/events")] = None
    api_base_url: Annotated[
        HttpUrl,
        AfterValidator(lambda url: url.rstrip("/") + "/"),  # slack_sdk joins method names to it
        Field(description="the Web API server"),
    ] = "https://slack.com/api/"

    @classmethod
    def gaps(cls, given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """A bot token works only with an app token or a signing secret, and neither works without it."""
        halves = [name for name in ("app_token", "signing_secret") if name in given]
        if halves and "bot_token" not in given:
            yield "bot_token", f"SLACK_{halves[0].upper()} does nothing without it"
        if "bot_token" in given and not halves:
            yield "app_token", "SLACK_BOT_TOKEN works only with it (Socket Mode) or with SLACK_SIGNING_SECRET"


class DiscordSettings(ChannelSettings):
    """`[channels.discord]`, `DISCORD_*`. An address that is None is the library's own, Discord's."""

    api_base_url: Annotated[
        Annotated[HttpUrl, AfterValidator(lambda url: url.rstrip("/"))] | None,
        Field(description="the REST server; not set: Discord's"),
    ] = None
    gateway_url: Annotated[SocketUrl | None, Field(description="the gateway; not set: Discord's")] = None


CHANNEL_SETTINGS: Mapping[str, type[ChannelSettings]] = MappingProxyType(
    {"telegram": TelegramSettings, "slack": SlackSettings, "discord": DiscordSettings}
)
