"""The web server, wired to the agent, the platform deliveries, health and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

import click
import structlog
from pydantic import SecretStr

from agent.store.base import Transaction
from agent.store.errors import StoreError
from bot.compose import Core
from bot.metrics import registry_of
from bot.routines import webhook_route
from bot.web.deliveries import Route, slack_route, telegram_route
from bot.web.operations import Operations
from bot.web.server import WebServer
from bot.web_backend import StoreBackend
from channels.base import Channel
from channels.web import WebChannel
from config.settings import Settings

log = structlog.get_logger(__name__)


async def open_web(
    settings: Settings, stack: AsyncExitStack, page: WebChannel, core: Core, channels: Mapping[str, Channel]
) -> None:
    """Listen until the stack is left; prints the link once if the token was made up."""

    async def faults() -> Mapping[str, str]:
        found = core.gateway.faults()
        try:
            await core.store.read(_touch)
        except StoreError as error:
            found["store"] = str(error)
        return found

    operations = Operations(faults, registry_of(core) if settings.metrics.enabled else None)
    server = WebServer(
        settings.web,
        page,
        StoreBackend(core.store, core.clock),
        operations,
        _routes(settings, core, channels),
        core.clock,
    )
    url = await stack.enter_async_context(server.running())
    log.info("web_listening", url=url)
    if settings.web.token is None:
        click.echo(f"The page: {server.link}", err=True)


def _routes(settings: Settings, core: Core, channels: Mapping[str, Channel]) -> list[Route]:
    """What platforms and other programs post to us."""
    found: list[Route] = []
    telegram, slack = channels.get("telegram"), channels.get("slack")
    if telegram is not None and (path := getattr(telegram, "webhook_path", None)):
        found.append(telegram_route(path, telegram.handle_webhook))  # type: ignore[attr-defined]
    if slack is not None:
        found.append(slack_route(slack.handle_events))  # type: ignore[attr-defined]
    secret = settings.web.webhook_secret if settings.web.takes_webhooks else None
    if core.routines is not None and secret is not None:
        found.append(webhook_route(core.store, core.clock, core.routines.engine, secret))
    if "webhook" in channels and secret is not None:
        found.append(_posts_route(core, channels["webhook"], secret))
    return found


def _posts_route(core: Core, channel: Channel, secret: SecretStr) -> Route:
    """Where other programs talk to the bot; loaded only where they may."""
    from bot.web.webhook import WebhookPosts
    from bot.webhook_desk import StoreDesk
    from channels.webhook import WebhookChannel

    assert isinstance(channel, WebhookChannel)
    channel.desk = desk = StoreDesk(core.store, core.clock)
    return WebhookPosts(channel, desk, secret, core.clock).route


def _touch(tx: Transaction) -> None:
    tx.connection.exec_driver_sql("SELECT 1")
