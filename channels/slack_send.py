"""How an outgoing message reaches Slack: part by part, once each, with a plain fallback; and how drafts are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog

from channels.base import Delivery, Uncertain
from channels.errors import ChannelError, RateLimited, Rejected, Unavailable
from channels.files import refused_notice, too_large_notice
from channels.message import Address, Draft, OutgoingFile, OutgoingMessage, ReplyKind
from channels.pacing import Clock
from channels.slack_api import DRAFT, MESSAGE_GONE, REFUSED_FORMAT, Content, SlackApi
from channels.slack_events import NAME, Me
from channels.slack_memory import Drafts, Shown
from channels.slack_render import MAX_SECTION, MAX_TEXT, Part, choice_blocks, plain_pieces, render_draft, render_parts
from channels.slack_uploads import MAX_FILE_BYTES, SCOPE, is_file_id, is_shared, share, share_again, upload

log = structlog.get_logger(__name__)


class SlackSender:
    """Posts and edits messages. Every post carries the id of its message and the number of its part as metadata."""

    def __init__(self, api: SlackApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._drafts = Drafts(clock)

    async def send(self, message: OutgoingMessage, delivery: Delivery, me: Me) -> str:
        """Send what is missing of a message; the id of its last post.

        The first part replaces the draft of the answer, if one is shown.
        """
        parts = await _parts_of(message)
        if not parts and not message.files:
            raise Rejected(NAME, "the message is empty")
        try:
            if message.kind is ReplyKind.AMENDMENT and message.edits is not None and parts:
                return await self._amend(message, message.edits, parts)
            shown = self._drafts.of(message.id)
            async with shown.lock:
                shown.is_final = True
                edits = message.edits or await self._shown_draft(message, shown, me)
                return await self._send_parts(message, parts, edits, delivery)
        except RateLimited as error:
            self._drafts.rest(error.retry_after)
            raise

    async def show(self, draft: Draft) -> str | None:
        """Post or edit the draft of an answer, at most once a second; its id if it is visible. Never raises."""
        shown = self._drafts.of(draft.id)
        shown.ts = draft.platform_id or shown.ts
        text = render_draft(draft.text)
        if shown.is_final or shown.lock.locked() or not text or text == shown.text:
            return shown.ts
        if not self._drafts.may_show(draft.address.chat_id):
            return shown.ts
        async with shown.lock:
            try:
                shown.in_doubt = shown.ts is None
                shown.ts = await self._put(draft.address, Content(text, (), draft.id, DRAFT), shown.ts)
                shown.text, shown.in_doubt = text, False
            except RateLimited as error:
                shown.in_doubt = False
                self._drafts.rest(error.retry_after)
            except ChannelError as error:
                shown.in_doubt = shown.in_doubt and isinstance(error, Unavailable) and error.maybe_sent
                log.debug("slack_draft_not_shown", reason=type(error).__name__)
        return shown.ts

    async def settle(self, message: OutgoingMessage, delivery: Delivery, me: Me) -> Uncertain:
        """Look a message up by its metadata; parts that are found are recorded, so that only the rest is sent again."""
        if message.kind is ReplyKind.AMENDMENT:
            return Uncertain.RESEND  # the same edit twice is one edit
        posted = [_id_of(each) for each in delivery.sent if not is_file_id(each)]
        since = posted[-1] if posted else self._long_ago()
        whole, begun = _progress(delivery.sent)[0], _begun(delivery.sent)
        try:
            found = dict(await self._api.find_parts(message.address, message.id, me, since=since))
            if begun is not None and await is_shared(self._api, message.address, begun, me, since=since):
                found[whole] = begun
        except ChannelError as error:
            log.warning("slack_message_not_looked_up", reason=type(error).__name__)
            return Uncertain.SKIP
        last = len(await _parts_of(message)) + len(message.files) - 1
        if last in found:
            return Uncertain.SENT
        for number in range(whole, last):
            if number not in found:
                break
            await delivery.record(found[number])
        return Uncertain.RESEND

    def _long_ago(self) -> str:
        return f"{(self._clock.now() - _LOOK_BACK).timestamp():.6f}"

    async def _shown_draft(self, message: OutgoingMessage, shown: Shown, me: Me) -> str | None:
        """The draft of a message; one whose posting was cut off is looked for, so that it does not stay behind."""
        if shown.ts is None and shown.in_doubt:
            found = await self._api.find_parts(message.address, message.id, me, since=self._long_ago())
            shown.ts, shown.in_doubt = found.get(DRAFT), False
        return shown.ts

    async def _amend(self, message: OutgoingMessage, edits: str, parts: Sequence[Part]) -> str:
        """Edit the post that carries the buttons, the last one of its message."""
        content = _content(message, parts, len(parts) - 1)
        try:
            return await self._api.update(message.address.chat_id, edits, content)
        except Rejected as error:
            if error.reason not in MESSAGE_GONE:
                raise
            log.info("slack_amendment_dropped", reason=error.reason)
            return edits

    async def _send_parts(
        self, message: OutgoingMessage, parts: Sequence[Part], edits: str | None, delivery: Delivery
    ) -> str:
        first, pieces = _progress(delivery.sent)
        posted = delivery.sent[-1] if delivery.sent else ""
        for number in range(first, len(parts) + len(message.files)):
            if number > first:
                await delivery.record(posted)
            if number >= len(parts):
                posted = await self._send_file(message, number, message.files[number - len(parts)], delivery)
                continue
            target = edits if number == 0 else None
            posted = await self._send_part(message, parts, number, target, delivery, pieces if number == first else 0)
        return posted

    async def _send_part(
        self,
        message: OutgoingMessage,
        parts: Sequence[Part],
        number: int,
        edits: str | None,
        delivery: Delivery,
        pieces: int,
    ) -> str:
        """Send one part; `pieces` of its plain form have arrived already."""
        if not pieces:
            try:
                return await self._put(message.address, _content(message, parts, number), edits)
            except Rejected as error:
                if error.reason not in REFUSED_FORMAT:
                    raise
                log.warning("slack_format_refused", reason=error.reason, length=len(parts[number].mrkdwn))
        *before, last = plain_pieces(parts[number])
        for piece_number, piece in enumerate(before):
            if piece_number >= pieces:
                target = edits if piece_number == 0 else None
                ts = await self._put(message.address, Content(piece, (), message.id, DRAFT), target)
                await delivery.record(f"{ts}{_PIECE}")
        return await self._put(message.address, Content(last, (), message.id, number), None if before else edits)

    async def _send_file(self, message: OutgoingMessage, number: int, file: OutgoingFile, delivery: Delivery) -> str:
        """Show a file in the chat, or post the line that says why not, which carries the mark of its part.

        An upload is noted before it is shown: after a crash that one is looked for, and shown if it is not there.
        """
        if file.size_bytes > MAX_FILE_BYTES:
            return await self._say_why_not(message, number, too_large_notice(file, _TITLE, MAX_FILE_BYTES))
        try:
            begun = _begun(delivery.sent)
            if begun is not None and await share_again(self._api, message.address, begun, file.filename):
                return begun
            file_id = await upload(self._api, file, await delivery.read_file(file))
            await delivery.record(f"{file_id}{_PIECE}")
            await share(self._api, message.address, file_id, file.filename)
            return file_id
        except Rejected as error:
            log.warning("slack_file_refused", reason=error.reason, size_bytes=file.size_bytes)
            cure = error.reason if SCOPE in error.reason else ""
            return await self._say_why_not(message, number, refused_notice(file, _TITLE, cure))

    async def _say_why_not(self, message: OutgoingMessage, number: int, text: str) -> str:
        [line] = render_parts(text, MAX_TEXT)
        return await self._api.post(message.address, Content(line.mrkdwn, (), message.id, number))

    async def _put(self, address: Address, content: Content, edits: str | None) -> str:
        """Edit a post, or make a new one where it is gone."""
        if edits is not None:
            try:
                return await self._api.update(address.chat_id, edits, content)
            except Rejected as error:
                if error.reason not in MESSAGE_GONE:
                    raise
        return await self._api.post(address, content)


_TITLE = "Slack"
# Marks the id of a post that holds a piece of a part, not the whole of it; and of a file that is not shown yet.
_PIECE = "~"
# A text up to this length is rendered in about 10 ms; longer ones would hold up everybody else.
_QUICK = 4000
# How old a message can be whose sending is still to be settled.
_LOOK_BACK = timedelta(days=7)


async def _parts_of(message: OutgoingMessage) -> tuple[Part, ...]:
    limit = MAX_SECTION if message.choices else MAX_TEXT
    if len(message.text) <= _QUICK:
        return render_parts(message.text, limit)
    return await asyncio.to_thread(render_parts, message.text, limit)


def _content(message: OutgoingMessage, parts: Sequence[Part], number: int) -> Content:
    text = parts[number].mrkdwn
    choices = message.choices if number == len(parts) - 1 else ()
    return Content(text, choice_blocks(text, choices), message.id, number)


def _progress(sent: Sequence[str]) -> tuple[int, int]:
    """How many whole parts have arrived, and how many pieces of the next."""
    whole = sum(not ts.endswith(_PIECE) for ts in sent)
    pieces = next((n for n, ts in enumerate(reversed(sent)) if not ts.endswith(_PIECE)), len(sent))
    return whole, pieces


def _begun(sent: Sequence[str]) -> str | None:
    """The upload that was made for the next part, if that is a file."""
    last = sent[-1] if sent else ""
    return _id_of(last) if last.endswith(_PIECE) and is_file_id(last) else None


def _id_of(platform_id: str) -> str:
    return platform_id.removesuffix(_PIECE)
