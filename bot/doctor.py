"""`optimclaw check`: what is wrong with an installation and how to cure it, without changing anything."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

import aiohttp
import click

from agent.llm.errors import AuthenticationFailed, LLMError, ModelUnavailable
from agent.store.open import DATABASE_NAME, HEAD
from agent.tools.sandbox import RefusingSandbox, choose_sandbox
from bot.foundation import build_provider, secrets_of
from bot.log import configure_logging
from bot.plugins import Plugins
from channels.settings import DiscordSettings, SlackSettings, TelegramSettings
from config.features import without_effect
from config.settings import LogLevel, SandboxBackend, Settings, WebSettings

TIMEOUT_SECONDS = 10
MODEL_SECONDS = 30
LOW_DISK_BYTES = 200 * 1024 * 1024
CLOCK_TOLERANCE_SECONDS = 60
SHORTEST_SECRET = 16
DISCORD_API = "https://discord.com/api/v10"
# Discord, "Application Flags": GATEWAY_MESSAGE_CONTENT and its LIMITED twin for small bots.
_MESSAGE_CONTENT_FLAGS = (1 << 18) | (1 << 19)


class Grade(StrEnum):
    """How a thing stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report. `cure` says what to do where it is not ok."""

    name: str
    grade: Grade
    found: str
    cure: str = ""


def run_check(settings: Settings, plugins: Plugins, *, as_json: bool) -> int:
    """Print the report; 1 if anything fails."""
    quiet = settings.log.model_copy(update={"level": LogLevel.ERROR})
    configure_logging(quiet, secrets_of(settings))  # the report says it all, and standard output is for it alone
    results = asyncio.run(_all(settings, plugins))
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=1))
    else:
        for result in results:
            cure = f"  -> {result.cure}" if result.cure else ""
            click.echo(f"{result.grade.value:<4}  {result.name}: {result.found}{cure}")
    return int(any(result.grade is Grade.FAIL for result in results))


async def _all(settings: Settings, plugins: Plugins) -> list[Result]:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        checks: list[Awaitable[Result]] = [
            _config(settings),
            asyncio.to_thread(_database, settings.home),
            asyncio.to_thread(_disk, settings.home),
            _model(settings, plugins),
            _sandbox(settings),
        ]
        if settings.web.webhook_secret is not None:
            checks.append(_webhook(settings.web))
        for channel in settings.channels.values():
            match channel:
                case TelegramSettings():
                    checks.append(_telegram(http, channel))
                case SlackSettings():
                    checks.append(_slack(http, channel))
                case DiscordSettings():
                    checks.append(_discord(http, channel))
        return list(await asyncio.gather(*checks))


async def _config(settings: Settings) -> Result:
    doubts = [*settings.warnings]
    if idle := without_effect(settings):
        doubts.append(f"without effect yet: {', '.join(idle)}")
    if doubts:
        return Result("config", Grade.WARN, "; ".join(doubts), "correct or remove these settings")
    return Result("config", Grade.OK, f"{len(settings.set_names)} settings, all valid")


def _database(home: Path) -> Result:
    path = home / DATABASE_NAME
    if not path.exists():
        return Result("database", Grade.OK, "none yet; it is made at the first start")
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5) as database:
            version = database.execute("SELECT version_num FROM alembic_version").fetchone()
            sound = database.execute("PRAGMA quick_check").fetchone()
    except sqlite3.Error as error:
        return Result("database", Grade.FAIL, f"cannot be read: {error}", "restore a backup, or move the file away")
    if sound != ("ok",):
        return Result("database", Grade.FAIL, "is damaged", "restore a backup")
    if version != (HEAD,):
        return Result("database", Grade.WARN, f"is at version {version}", "it is brought up to date at the next start")
    return Result("database", Grade.OK, f"sound, version {HEAD}")


def _disk(home: Path) -> Result:
    place = home if home.exists() else next(parent for parent in home.parents if parent.exists())
    if not os.access(place, os.W_OK):
        return Result("disk", Grade.FAIL, "the home cannot be written", "change its owner, or set OPTIMCLAW_HOME")
    free = shutil.disk_usage(place).free
    grade = Grade.OK if free > LOW_DISK_BYTES else Grade.WARN
    return Result("disk", grade, f"{free // 2**20} MiB free", "" if grade is Grade.OK else "make room")


async def _model(settings: Settings, plugins: Plugins) -> Result:
    chosen = settings.llm.provider
    provider = build_provider(settings, settings.llm.model, plugins.provider_targets)
    try:
        async with asyncio.timeout(MODEL_SECONDS):
            await provider.warm_up()
            models = await provider.list_models()
    except (AuthenticationFailed, ModelUnavailable) as error:
        return Result("model", Grade.FAIL, f"{chosen}: {error.detail}", "check the key, LLM_PROVIDER and LLM_MODEL")
    except LLMError as error:
        return Result("model", Grade.FAIL, f"{chosen} does not answer: {error.detail}", "check the address and network")
    except TimeoutError:
        return Result(
            "model", Grade.FAIL, f"{chosen} did not answer in {MODEL_SECONDS} s", "check the address and network"
        )
    finally:
        await provider.close()
    if not provider.supports_tools:
        cure = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL for an agent with tools"
        return Result("model", Grade.WARN, f"{provider.model}: the small local model, chat only", cure)
    if models and provider.model not in models:
        return Result("model", Grade.WARN, f"{chosen} does not list {provider.model}", f"choose one of {models[:5]}")
    return Result("model", Grade.OK, f"{provider.model} ({chosen})")


async def _sandbox(settings: Settings) -> Result:
    backend = settings.sandbox.backend
    if not settings.agent.allow_local_tools:
        return Result("sandbox", Grade.OK, "not needed: shell and file tools are off")
    if backend is SandboxBackend.OFF:
        return Result("sandbox", Grade.WARN, "off: the shell runs bare", "remove SANDBOX_BACKEND=off")
    sandbox = await choose_sandbox(backend.value)
    if isinstance(sandbox, RefusingSandbox):
        return Result("sandbox", Grade.WARN, f"{sandbox.reason}; the shell refuses to run", "install bubblewrap")
    return Result("sandbox", Grade.OK, sandbox.name)


# -- channels ----------------------------------------------------------------------------------------------------
async def _webhook(settings: WebSettings) -> Result:
    if not settings.takes_webhooks:
        cure = "set WEB_ENABLED=true, or remove WEBHOOK_SECRET"
        return Result("webhook", Grade.WARN, "nothing listens: the web server is off or the secret is blank", cure)
    secret = settings.webhook_secret
    if secret is not None and len(secret.get_secret_value()) < SHORTEST_SECRET:
        cure = "make a longer one: openssl rand -hex 32"
        return Result("webhook", Grade.WARN, f"WEBHOOK_SECRET has less than {SHORTEST_SECRET} characters", cure)
    return Result("webhook", Grade.OK, "POST /webhook takes signed posts")


async def _telegram(http: aiohttp.ClientSession, settings: TelegramSettings) -> Result:
    base = f"{settings.api_base_url}/bot{settings.bot_token.get_secret_value()}"
    try:
        async with http.get(f"{base}/getMe") as answer:
            me = await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return _unreachable("telegram")
    if not me.get("ok"):
        return Result(
            "telegram", Grade.FAIL, "the token is refused", "get a new one from @BotFather: TELEGRAM_BOT_TOKEN"
        )
    name = me["result"].get("username")
    if not me["result"].get("can_read_all_group_messages") and settings.group_trigger == "all":
        cure = "turn privacy mode off with /setprivacy at @BotFather, then add the bot to the group again"
        return Result("telegram", Grade.WARN, f"@{name} does not see ordinary group messages", cure)
    return Result("telegram", Grade.OK, f"@{name}")


async def _slack(http: aiohttp.ClientSession, settings: SlackSettings) -> Result:
    headers = {"Authorization": f"Bearer {settings.bot_token.get_secret_value()}"}
    try:
        async with http.post(f"{settings.api_base_url}auth.test", headers=headers) as answer:
            me, scopes = await answer.json(content_type=None), answer.headers.get("X-OAuth-Scopes", "")
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return _unreachable("slack")
    if not me.get("ok"):
        return Result("slack", Grade.FAIL, f"the token is refused ({me.get('error')})", "check SLACK_BOT_TOKEN")
    wanted = {"app_mentions:read", "chat:write", "im:history"}
    if scopes and (missing := wanted - {scope.strip() for scope in scopes.split(",")}):
        cure = "add them under OAuth & Permissions and install the app again"
        return Result("slack", Grade.WARN, f"missing scopes: {', '.join(sorted(missing))}", cure)
    return Result("slack", Grade.OK, f"{me.get('user')} in {me.get('team')}{await _skew(answer.headers)}")


async def _discord(http: aiohttp.ClientSession, settings: DiscordSettings) -> Result:
    headers = {"Authorization": f"Bot {settings.bot_token.get_secret_value()}"}
    base = settings.api_base_url or DISCORD_API
    try:
        async with http.get(f"{base}/applications/@me", headers=headers) as answer:
            status, app = answer.status, await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return _unreachable("discord")
    if status == 401:
        return Result(
            "discord", Grade.FAIL, "the token is refused", "reset it in the developer portal: DISCORD_BOT_TOKEN"
        )
    if not int(app.get("flags") or 0) & _MESSAGE_CONTENT_FLAGS:
        cure = "turn on Message Content Intent under Bot in the developer portal"
        return Result("discord", Grade.WARN, "server messages arrive without text", cure)
    return Result("discord", Grade.OK, str(app.get("name")))


def _unreachable(name: str) -> Result:
    return Result(name, Grade.FAIL, "cannot be reached", "check the network and the API base URL")


async def _skew(headers: Mapping[str, str]) -> str:
    """A clock that is off makes signed deliveries fail; the platform's answer tells its time."""
    if not (stamp := headers.get("Date")):
        return ""
    off = time.time() - parsedate_to_datetime(stamp).timestamp()
    return f"; the machine's clock is {off:.0f} s off" if abs(off) > CLOCK_TOLERANCE_SECONDS else ""
