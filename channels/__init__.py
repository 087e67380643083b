"""Platform adapters. The registry holds import strings: an SDK loads only if its channel is enabled."""

from __future__ import annotations

CHANNELS: dict[str, str] = {
    "telegram": "channels.telegram:TelegramChannel",
    "slack": "channels.slack:SlackChannel",
    "discord": "channels.discord:DiscordChannel",
    "console": "channels.console:ConsoleChannel",
    "web": "channels.web:WebChannel",
    "webhook": "channels.webhook:WebhookChannel",
}
