"""Telegram: receives by long polling or webhook, sends through python-telegram-bot's `Bot`."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import ClassVar, TypeVar
from urllib.parse import urlencode, urlsplit

import structlog
from telegram import Bot, User
from telegram.error import Conflict, InvalidToken, TelegramError
from yarl import URL

from channels.base import Accept, ChannelHealth, ChannelLimits, ChannelState, Delivery, OnMigration, Uncertain
from channels.download import check_size
from channels.errors import RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Attachment, Draft, EarlierMessage, IncomingMessage, OutgoingMessage
from channels.pacing import Clock, SystemClock, backoff
from channels.settings import GroupTrigger, TelegramMode, TelegramSettings, UncertainSend
from channels.telegram_albums import Albums
from channels.telegram_normalize import (
    ALLOWED_UPDATES,
    CHANNEL,
    JsonObject,
    Me,
    album_of,
    readable,
    update_id_of,
)
from channels.telegram_receive import Receiver
from channels.telegram_render import MAX_TEXT
from channels.telegram_request import AiohttpRequest, FloodWait
from channels.telegram_send import CURE, TelegramSender, translated

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

_POLL_SECONDS = 25
_POLL_GRACE_SECONDS = 10
_ALBUM_GATHER = timedelta(seconds=0.4)  # the pictures of an album arrive within some tenths of a second
_ALBUM_ROUNDS = 3
_ACKNOWLEDGE_SECONDS = 5
_PRIVACY_CURE = "turn it off with /setprivacy at @BotFather, then remove the bot from the group and add it again"
_CONFLICT = "conflict: something else asks Telegram for this bot's messages (another instance with this token?)"
# Telegram Bot API, answerCallbackQuery: text of 0-200 characters.
_MOST_TOAST = 200


class TelegramChannel:
    """A bot on Telegram.

    `commands` (name without slash, what it does) become the menu of the platform's clients. `on_migration` is told when
    a group gets a new id, by the notice of the old chat and by that of the new one.
    """

    name: ClassVar[str] = CHANNEL
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=MAX_TEXT, buttons=True, threads=True)

    def __init__(
        self,
        settings: TelegramSettings,
        *,
        clock: Clock | None = None,
        commands: Sequence[tuple[str, str]] = (),
    ) -> None:
        # The library writes tokens and message texts to its log at level debug.
        logging.getLogger("telegram").setLevel(logging.WARNING)
        self.on_migration: OnMigration | None = None
        self._settings = settings
        self._clock: Clock = clock or SystemClock()
        self._commands = tuple(commands)
        self._request = AiohttpRequest()
        self._bot = Bot(
            settings.bot_token.get_secret_value(),
            base_url=f"{settings.api_base_url}/bot",
            base_file_url=f"{settings.api_base_url}/file/bot",
            request=self._request,
            get_updates_request=self._request,
        )
        self._sender = TelegramSender(self._bot, self._clock, streaming=settings.streaming)
        self._health = ChannelHealth(ChannelState.STARTING)
        self._connected = asyncio.Event()
        self._refused: Unauthorized | None = None
        self._albums: Albums | None = None
        self._notice = ""
        self._offset = 0

    @property
    def health(self) -> ChannelHealth:
        """The state of the connection; where it is good, the reason may still hold advice to the operator."""
        return self._health

    @property
    def webhook_path(self) -> str | None:
        """Where the web server hands deliveries to `handle_webhook`; None when polling."""
        url = self._settings.webhook_url
        if self._settings.mode is not TelegramMode.WEBHOOK or url is None:
            return None
        return urlsplit(url).path or "/"

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled. Faults that pass are waited out; raises `Unauthorized`, which is final."""
        await self._request.initialize()
        try:
            me = await self._introduce()
            receiver = Receiver(me, accept, self._acknowledge, self._migrated, self._clock)
            self._connected.set()
            if self._settings.mode is TelegramMode.WEBHOOK:
                self._albums = Albums(receiver.take, self._clock)
                await self._persist(self._register_webhook)
                await self._set_commands()
                await asyncio.Event().wait()
            else:
                await self._persist(self._bot.delete_webhook)
                await self._set_commands()
                await self._poll(receiver)
        except InvalidToken:
            self._refused = Unauthorized(CHANNEL, CURE)
            self._health = ChannelHealth(ChannelState.OFF, CURE)
            raise self._refused from None
        finally:
            self._albums = None
            if self._refused is None:
                self._connected.clear()
                self._health = ChannelHealth(ChannelState.OFF)
            else:
                self._connected.set()  # whoever waits to send must learn that it is off
            await self._request.shutdown()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Send one message as `Channel` says. A blank text is not sent and gives an empty id."""
        await self._connected.wait()
        if self._refused is not None:
            raise self._refused
        return await self._sender.send(message, delivery)

    async def show(self, draft: Draft) -> str | None:
        """Show a draft as `Channel` says: natively in private chats, by edits elsewhere, never above our pace."""
        if self._refused is not None or not self._connected.is_set():
            return draft.platform_id
        return await self._sender.show(draft)

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        """Telegram can't be asked what it has got, so the operator has chosen."""
        match self._settings.uncertain_send:
            case UncertainSend.RESEND:
                return Uncertain.RESEND
            case UncertainSend.SKIP:
                return Uncertain.SKIP

    async def open_private_chat(self, user_id: str) -> str:
        """The private chat with a person has the person's id; raises `Rejected` for what is no id."""
        if not (user_id.isascii() and user_id.isdigit()):
            raise Rejected(CHANNEL, "a private chat is named by the numeric id of its user")
        return user_id

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        """Nothing: Telegram shows a bot no history."""
        return ()

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        """Read a file as `Channel` says. Telegram hands bots files of up to 20 MB."""
        check_size(CHANNEL, attachment.size_bytes, limit_bytes)
        if not attachment.source:
            raise Rejected(CHANNEL, "a file without a handle")
        try:
            file = await self._bot.get_file(attachment.source)
            check_size(CHANNEL, file.file_size, limit_bytes)
            # A Bot API server in local mode names files of its machine: these are not ours to open.
            if not (file.file_path or "").startswith(f"{self._bot.base_file_url}/"):
                raise Rejected(CHANNEL, "the server has no address for this file")
            return await self._request.download(CHANNEL, URL(file.file_path or ""), limit_bytes)
        except TelegramError as error:
            raise _about_file(error) from None  # an address in its text would hold the token

    async def handle_webhook(self, body: bytes, secret: str | None) -> int:
        """Take one delivery of Telegram's and give the HTTP status to answer with.

        `secret` is the header X-Telegram-Bot-Api-Secret-Token. 200 means that the update is durably ours or of no use;
        what `accept` raises goes up, so that the server answers 500 and Telegram delivers again.
        """
        expected = self._settings.webhook_secret
        if expected is None or not hmac.compare_digest(
            (secret or "").encode("utf-8", "surrogatepass"), expected.get_secret_value().encode()
        ):
            return 401
        albums = self._albums
        if albums is None:
            return 503
        try:
            updates = readable([json.loads(body)])
        except ValueError:
            updates = []
        if not updates:
            return 400
        await albums.take(updates[0])
        return 200

    async def _introduce(self) -> Me:
        user = await self._persist(self._bot.get_me)
        hears_all = self._settings.group_trigger is GroupTrigger.ALL
        self._notice = _privacy_notice(user) if hears_all else ""
        if not user.can_read_all_group_messages:
            log.warning(
                "telegram_privacy_mode",
                delivered="not all messages of groups",
                expected="all" if hears_all else "those addressed to the bot",
                cure=_PRIVACY_CURE,
            )
        self._health = ChannelHealth(ChannelState.CONNECTED, self._notice)
        log.info("telegram_connected", bot=user.username, mode=self._settings.mode.value)
        return Me(user.id, user.username or "", hears_all)

    async def _set_commands(self) -> None:
        if not self._commands:
            return
        try:
            await self._bot.set_my_commands(self._commands)
        except TelegramError as error:
            log.warning("telegram_menu_not_set", reason=str(error))

    async def _register_webhook(self) -> bool:
        secret = self._settings.webhook_secret
        try:
            return await self._bot.set_webhook(
                self._settings.webhook_url or "",
                allowed_updates=ALLOWED_UPDATES,
                secret_token=secret.get_secret_value() if secret else None,
            )
        except Conflict:
            await self._bot.delete_webhook()
            raise

    async def _poll(self, receiver: Receiver) -> None:
        failures = 0
        while True:
            batch = await self._persist(self._next_batch)
            stuck = await receiver.take_batch(batch)
            if batch:
                following = max(map(update_id_of, batch)) + 1 if stuck is None else stuck
                self._offset = max(self._offset, following)
            if stuck is None:
                failures = 0
                continue
            failures += 1
            self._health = ChannelHealth(ChannelState.DEGRADED, "messages can't be stored; Telegram keeps them")
            await self._clock.sleep(backoff(failures))

    async def _next_batch(self) -> list[JsonObject]:
        """The next updates. An album that may still be arriving is waited for: nothing is confirmed meanwhile."""
        recovering = self._health.state is not ChannelState.CONNECTED
        batch = await self._get_updates(0 if recovering else _POLL_SECONDS)  # to know soon whether it works again
        for _ in range(_ALBUM_ROUNDS):
            if not any(map(album_of, batch)):
                break
            await self._clock.sleep(_ALBUM_GATHER)
            longer = await self._get_updates(0)
            if len(longer) <= len(batch):
                break
            batch = longer
        return batch

    async def _get_updates(self, seconds: int) -> list[JsonObject]:
        # Raw: `Bot.get_updates` builds an object for each update, and one it can't build takes all others with it.
        query = {"timeout": seconds, "offset": self._offset, "allowed_updates": json.dumps(ALLOWED_UPDATES)}
        try:
            found = await self._request.post(
                f"{self._bot.base_url}/getUpdates?{urlencode(query)}", read_timeout=seconds + _POLL_GRACE_SECONDS
            )
        except Conflict as error:
            if "webhook" in str(error).lower():
                await self._bot.delete_webhook()
            raise
        return readable(found)

    async def _acknowledge(self, query_id: str, note: str | None) -> None:
        try:
            await self._bot.answer_callback_query(
                query_id, note[:_MOST_TOAST] if note else None, read_timeout=_ACKNOWLEDGE_SECONDS
            )
        except TelegramError as error:  # it may be too old; its press counted all the same
            log.info("button_not_acknowledged", reason=str(error))

    async def _migrated(self, old_chat_id: str, new_chat_id: str) -> None:
        log.info("telegram_chat_migrated", old_chat_id=old_chat_id, new_chat_id=new_chat_id)
        if self.on_migration is not None:
            await self.on_migration(old_chat_id, new_chat_id)

    async def _persist(self, step: Callable[[], Awaitable[Result]]) -> Result:
        """Take a step until it succeeds, and keep the health up to date. A refused token is not waited out."""
        failures = 0
        while True:
            try:
                result = await step()
            except InvalidToken:
                raise
            except TelegramError as error:
                failures += 1
                wait = error.wait if isinstance(error, FloodWait) else backoff(failures)
                reason = _CONFLICT if isinstance(error, Conflict) else str(error)
                self._health = ChannelHealth(ChannelState.DEGRADED, reason)
                log.warning("telegram_not_available", reason=reason, failures=failures, wait=wait.total_seconds())
                await self._clock.sleep(wait)
            else:
                if self._health.state is not ChannelState.CONNECTED:
                    self._health = ChannelHealth(ChannelState.CONNECTED, self._notice)
                return result


def _privacy_notice(user: User) -> str:
    """What an operator must know who wants every message of a group answered. Says only what getMe reports."""
    return "" if user.can_read_all_group_messages else f"getMe reports privacy mode: {_PRIVACY_CURE}"


def _about_file(error: TelegramError) -> Rejected | Unavailable:
    """A fault while a file was fetched: it can be had later, or never."""
    match translated(error):
        case RateLimited() | Unavailable():
            return Unavailable(CHANNEL, f"no file ({type(error).__name__})")
        case refusal:
            return Rejected(CHANNEL, str(refusal))
