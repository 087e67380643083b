"""Files on their way to Telegram: a small image as a photo, everything else as a document."""

from __future__ import annotations

import structlog
from telegram import Bot, InputFile, ReplyParameters
from telegram.error import BadRequest

from channels.message import OutgoingFile

log = structlog.get_logger(__name__)

# Telegram Bot API, sending files: photos of up to 10 MB, other files of up to 50 MB.
MAX_PHOTO_BYTES, MAX_FILE_BYTES = 10_000_000, 50_000_000

_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})  # as a photo, a GIF would stand still


async def upload(
    bot: Bot, chat_id: str, topic: int | None, reply: ReplyParameters | None, file: OutgoingFile, data: bytes
) -> str:
    """Send one file; the id of its message. Raises the library's errors.

    An image that Telegram refuses as a photo, for its sides for instance, goes as a document.
    """
    if file.mime_type in _PHOTOS and file.size_bytes <= MAX_PHOTO_BYTES:
        photo = InputFile(data, file.filename)
        try:
            sent = await bot.send_photo(chat_id, photo, message_thread_id=topic, reply_parameters=reply)
        except BadRequest:
            log.info("telegram_photo_refused", size_bytes=file.size_bytes)
        else:
            return str(sent.message_id)
    sent = await bot.send_document(
        chat_id,
        InputFile(data, file.filename),
        disable_content_type_detection=True,
        message_thread_id=topic,
        reply_parameters=reply,
    )
    return str(sent.message_id)
