"""Sending to Telegram: messages in parts, drafts while they are written, and what Telegram's refusals mean."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

import structlog
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, TelegramError

from channels.base import Delivery
from channels.errors import ChannelError, Migrated, RateLimited, Rejected, Unauthorized, Unavailable
from channels.files import refused_notice, too_large_notice
from channels.message import Address, Choice, Draft, OutgoingFile, OutgoingMessage, ReplyKind
from channels.pacing import Clock, Holds
from channels.telegram_files import MAX_FILE_BYTES, upload
from channels.telegram_normalize import CHANNEL
from channels.telegram_render import Entity, EntityKind, Part, halves, render, render_draft
from channels.telegram_request import FloodWait, NeverSent, ServerFault

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

CURE = "set TELEGRAM_BOT_TOKEN to the token that @BotFather shows for this bot"

_TITLE = "Telegram"
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_DRAFT_PACE = timedelta(seconds=1)
_TYPING_PACE = timedelta(seconds=4)  # Telegram Bot API, sendChatAction: the sign is shown for 5 seconds or less
_RESPLITS = 2
_DRAFTS_REMEMBERED = 512


def translated(error: TelegramError, chat_id: str = "") -> ChannelError:
    """The channel error that says what a caller can do about an error of the library."""
    match error:
        case FloodWait():
            return RateLimited(CHANNEL, error.wait)
        case InvalidToken():
            return Unauthorized(CHANNEL, CURE)
        case ChatMigrated():
            return Migrated(CHANNEL, chat_id, str(error.new_chat_id))
        case Forbidden() | BadRequest():
            return Rejected(CHANNEL, str(error))
        case NeverSent():
            return Unavailable(CHANNEL, str(error))
        case ServerFault():
            return Unavailable(CHANNEL, str(error), maybe_sent=not error.refused)
        case _:
            return Unavailable(CHANNEL, str(error), maybe_sent=True)


class TelegramSender:
    """Sends and shows through one bot. Keeps the pauses Telegram asked for, chat by chat, in memory."""

    def __init__(self, bot: Bot, clock: Clock, *, streaming: bool) -> None:
        self._bot = bot
        self._clock = clock
        self._streaming = streaming
        self._native_drafts = True
        self._floods: Holds[str] = Holds()
        self._paces: Holds[str] = Holds()
        self._typed: Holds[tuple[str, str | None]] = Holds()
        # The last part shown of each draft; None once the message itself has been sent.
        self._drafts: OrderedDict[UUID, Part | None] = OrderedDict()

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Send what `delivery` does not have yet; the platform id of the last part. Raises `ChannelError`."""
        parts = render(message.text)
        if not parts and not message.files:
            return ""
        chat_id = message.address.chat_id
        pause = self._floods.remaining(chat_id, self._clock.now())
        if pause:
            raise RateLimited(CHANNEL, pause)
        if message.kind is ReplyKind.AMENDMENT and parts:
            return await self._amend(message, parts[-1])
        platform_id = delivery.sent[-1] if delivery.sent else ""
        count = len(parts) + len(message.files)
        for number in range(len(delivery.sent), count):
            if number < len(parts):
                is_last = number == len(parts) - 1
                platform_id = await self._put(message, parts[number], is_first=number == 0, is_last=is_last)
            else:
                file = message.files[number - len(parts)]
                platform_id = await self._put_file(message, file, delivery, is_first=number == 0)
            if number < count - 1:
                await delivery.record(platform_id)
        self._remember(message.id, None)
        return platform_id

    async def show(self, draft: Draft) -> str | None:
        """Show the typing sign or the text so far, if Telegram lets us now. Raises no `ChannelError`."""
        try:
            return await self._show(draft)
        except (ChannelError, TelegramError) as error:
            log.debug("draft_not_shown", reason=type(error).__name__)
            return draft.platform_id

    async def _amend(self, message: OutgoingMessage, part: Part) -> str:
        """Replace a message and take its buttons away. One that is gone needs no amendment."""
        if message.edits is not None:
            await self._edit(message.address, message.edits, part, None)
        return message.edits or ""

    async def _put(self, message: OutgoingMessage, part: Part, *, is_first: bool, is_last: bool) -> str:
        keyboard = _keyboard(message.choices) if is_last and message.choices else None
        if is_first and message.edits is not None:
            if keyboard is None and self._drafts.get(message.id) == part:
                return message.edits
            if await self._edit(message.address, message.edits, part, keyboard):
                return message.edits
        return await self._post(message.address, part, message.reply_to if is_first else None, keyboard)

    async def _put_file(
        self, message: OutgoingMessage, file: OutgoingFile, delivery: Delivery, *, is_first: bool
    ) -> str:
        """Send a file, or the line that says why not. What is wrong with the chat comes out with that line."""
        address, reply_to = message.address, message.reply_to if is_first else None
        if file.size_bytes > MAX_FILE_BYTES:
            return await self._post_notice(address, too_large_notice(file, _TITLE, MAX_FILE_BYTES), reply_to)
        try:
            data = await delivery.read_file(file)
            return await self._calling(
                address.chat_id,
                upload(self._bot, address.chat_id, _topic(address), _reply(reply_to), file, data),
            )
        except (BadRequest, Rejected) as error:
            log.warning("telegram_file_refused", reason=str(error), size_bytes=file.size_bytes)
            return await self._post_notice(address, refused_notice(file, _TITLE), reply_to)

    async def _post_notice(self, address: Address, text: str, reply_to: str | None) -> str:
        return await self._post(address, render(text)[-1], reply_to)

    async def _post(
        self,
        address: Address,
        part: Part,
        reply_to: str | None = None,
        keyboard: InlineKeyboardMarkup | None = None,
        resplits: int = _RESPLITS,
    ) -> str:
        """Send one part; what Telegram refuses for its form is sent once more in the form that it cannot refuse."""
        try:
            return await self._sent(address, part, reply_to, keyboard)
        except BadRequest as error:
            refusal = str(error).lower()
            if "too long" in refusal and resplits and len(part.text) > 1:
                *rest, last = halves(part)
                for piece in rest:
                    await self._post(address, piece, reply_to, None, resplits - 1)
                    reply_to = None
                return await self._post(address, last, None, keyboard, resplits - 1)
            if "entit" in refusal:
                retry = Part(part.text), reply_to
            elif reply_to is not None and "repl" in refusal:
                retry = part, None
            else:
                raise translated(error, address.chat_id) from error
        try:
            return await self._sent(address, *retry, keyboard)
        except BadRequest as error:
            raise translated(error, address.chat_id) from error

    async def _sent(
        self, address: Address, part: Part, reply_to: str | None, keyboard: InlineKeyboardMarkup | None
    ) -> str:
        message = await self._calling(
            address.chat_id,
            self._bot.send_message(
                address.chat_id,
                part.text,
                entities=_entities(part.entities),
                message_thread_id=_topic(address),
                reply_parameters=_reply(reply_to),
                reply_markup=keyboard,
                link_preview_options=_NO_PREVIEW,
            ),
        )
        return str(message.message_id)

    async def _edit(
        self, address: Address, platform_id: str, part: Part, keyboard: InlineKeyboardMarkup | None
    ) -> bool:
        """Whether the message now says `part`; False if it is gone or cannot be edited any more."""
        for entities in (_entities(part.entities), None):
            try:
                await self._calling(
                    address.chat_id,
                    self._bot.edit_message_text(
                        part.text,
                        address.chat_id,
                        int(platform_id),
                        entities=entities,
                        reply_markup=keyboard,
                        link_preview_options=_NO_PREVIEW,
                    ),
                )
            except BadRequest as error:
                refusal = str(error).lower()
                if "entit" in refusal:
                    continue
                return "not modified" in refusal
            return True
        return False

    async def _show(self, draft: Draft) -> str | None:
        address, now = draft.address, self._clock.now()
        if self._floods.remaining(address.chat_id, now):
            return draft.platform_id
        if not (self._streaming and draft.text.strip()):
            await self._show_typing(address)
            return draft.platform_id
        finished = draft.id in self._drafts and self._drafts[draft.id] is None
        if finished or self._paces.remaining(address.chat_id, now):
            return draft.platform_id
        part = render_draft(draft.text)
        if part is None or part == self._drafts.get(draft.id):
            return draft.platform_id
        self._paces.hold(address.chat_id, now + _DRAFT_PACE)
        platform_id = await self._show_text(draft, part)
        if not (draft.id in self._drafts and self._drafts[draft.id] is None):
            self._remember(draft.id, part)
        return platform_id

    async def _show_text(self, draft: Draft, part: Part) -> str | None:
        address = draft.address
        if not address.chat_id.startswith("-"):  # people have positive ids, and drafts are for private chats only
            await self._show_native(draft, part)
            return draft.platform_id
        if draft.platform_id is None:
            return await self._post(address, part, draft.reply_to)
        await self._edit(address, draft.platform_id, part, None)
        return draft.platform_id

    async def _show_native(self, draft: Draft, part: Part) -> None:
        if not self._native_drafts:
            await self._show_typing(draft.address)
            return
        try:
            await self._calling(
                draft.address.chat_id,
                self._bot.send_message_draft(
                    int(draft.address.chat_id),
                    draft.id.int % (2**31 - 1) + 1,
                    part.text,
                    message_thread_id=_topic(draft.address),
                    entities=_entities(part.entities),
                ),
            )
        except Unauthorized:  # Bot API servers answer methods they do not know as they do wrong tokens
            self._native_drafts = False
            log.info("native_drafts_unknown_to_server")

    async def _show_typing(self, address: Address) -> None:
        place, now = (address.chat_id, address.thread_id), self._clock.now()
        if self._typed.remaining(place, now):
            return
        self._typed.hold(place, now + _TYPING_PACE)
        await self._calling(
            address.chat_id,
            self._bot.send_chat_action(address.chat_id, "typing", message_thread_id=_topic(address)),
        )

    async def _calling(self, chat_id: str, call: Awaitable[Result]) -> Result:
        """Await a call; its faults become ours, but for refusals of its form (`BadRequest`), which the caller reads."""
        try:
            return await call
        except BadRequest:
            raise
        except TelegramError as error:
            if isinstance(error, FloodWait):
                self._floods.hold(chat_id, self._clock.now() + error.wait)
            raise translated(error, chat_id) from error

    def _remember(self, draft_id: UUID, part: Part | None) -> None:
        self._drafts[draft_id] = part
        self._drafts.move_to_end(draft_id)
        if len(self._drafts) > _DRAFTS_REMEMBERED:
            self._drafts.popitem(last=False)


def _topic(address: Address) -> int | None:
    return int(address.thread_id) if address.thread_id is not None else None


def _reply(reply_to: str | None) -> ReplyParameters | None:
    if reply_to is None or not reply_to.isdigit():  # a tapped button has no message of its own to reply to
        return None
    return ReplyParameters(int(reply_to), allow_sending_without_reply=True)


def _keyboard(choices: Sequence[Choice]) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(c.label, callback_data=c.data) for c in choices]])


def _entities(entities: Sequence[Entity]) -> list[MessageEntity] | None:
    return [_entity(entity) for entity in entities] or None


def _entity(entity: Entity) -> MessageEntity:
    kind, detail = entity.style.kind, entity.style.detail or None
    return MessageEntity(
        kind.value,
        entity.offset,
        entity.length,
        url=detail if kind is EntityKind.LINK else None,
        language=detail if kind is EntityKind.PRE else None,
    )
