"""Brings what people send to the model: fetched from the platform, kept in their folder, its text screened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import structlog

from agent.clock import Clock
from agent.llm.errors import LLMError
from agent.llm.messages import ImageRef
from agent.llm.speech import Recording
from agent.media import shelf
from agent.media.block import MOST_CHARACTERS, ReadFile
from agent.media.documents import DocumentText, NoText, document_kind, document_text
from agent.media.errors import NoRoom, NotKept
from agent.media.names import looks_like_credentials, safe_name
from agent.media.pictures import MOST_BYTES, picture_in, refusal
from agent.media.ports import Fetcher, Listener, Unfetched
from agent.media.shelf import Kept
from agent.media.text import PlainText, decode_text
from agent.safety.layer import BLOCKED_OUTPUT, SafetyLayer
from agent.workspace.scope import Scope
from channels.files import size_words
from channels.message import Attachment, AttachmentKind, IncomingMessage

log = structlog.get_logger(__name__)

MOST_FILES = 10
MOST_BYTES_OF_ONE = 20_000_000
MOST_BYTES_TOGETHER = 50_000_000
TIME_TO_FETCH = timedelta(seconds=30)
TIME_TO_READ = timedelta(seconds=60)
"""How long all files of a turn may take to arrive, and then each to be read, the wait for its turn included."""
_PAUSES = tuple(timedelta(seconds=seconds) for seconds in (1, 2, 4, 8))
"""Waits before a platform that was away is asked again: after a start it may not be connected yet."""
_READ_AT_ONCE = 2
_ASSUMED_BYTES = 5_000_000  # of a file whose size the platform does not tell
_MARGIN = 4_096  # text beyond what is shown that is screened with it: no half of a secret stays at the cut

_AWAY = "not read: the platform did not hand it over in time. Ask for it to be sent again."
_REFUSED = "not read: the platform does not hand it over; it may be gone or too large. It can be sent again."
_TOO_MANY = f"not read: of one turn's files the first {MOST_FILES} are taken. The others can be sent again."
_TOO_LARGE = f"not read: it is larger than {size_words(MOST_BYTES_OF_ONE)}, the most that is taken."
_TOO_MUCH = (
    f"not read: the files of one turn may have {size_words(MOST_BYTES_TOGETHER)} together. It can be sent again alone."
)
_CREDENTIALS = (
    "neither read nor kept: by its name it holds keys or credentials. Tell the sender that such files are not taken."
)
_NO_ROOM = (
    f"not kept: the files in attachments/ have {size_words(shelf.MOST_BYTES_OF_A_SCOPE)} together, the most there may "
    "be. Older ones have to be deleted first."
)
_NOT_KEPT = "not kept: it could not be saved."
_SECRET = "Its text is withheld: it holds what looks like a secret key or token."
_SEEN = "You are shown this picture below. Look at it yourself; do not call image_analyze for it."
_UNSEEN = "You are not shown this picture{why}. image_analyze (tool_search finds it) answers questions about it."
_NO_TRANSCRIPT = "There is no transcript of this recording, so its words are not known to you. Ask for them in writing."
_TRANSCRIPT = "A transcript of the recording, made by a program:"
_SILENT = "Nothing is said in this recording."
_KEPT = "It was kept; its content is no text that can be shown here."


@dataclass(frozen=True, slots=True)
class Desk:
    """For whom files are read: their folder, the day under which they are kept, and the turn that pays."""

    scope: Scope
    day: date
    model_sees: bool
    account: str


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A file as it came."""

    attachment: Attachment
    data: bytes


class AttachmentReader:
    """Reads the files of a turn. Nothing that is wrong with one fails the turn: the model is told instead."""

    def __init__(self, fetcher: Fetcher, root: Path, safety: SafetyLayer, listener: Listener, clock: Clock) -> None:
        self._fetcher = fetcher
        self._root = root
        self._safety = safety
        self._listener = listener
        self._clock = clock
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)

    async def read(self, messages: Sequence[IncomingMessage], desk: Desk) -> tuple[tuple[ReadFile, ...], ...]:
        """What became of the files of each message, in their order. Reading them again changes nothing."""
        wanted = [(message.address.channel, item) for message in messages for item in message.attachments]
        if not wanted:
            return tuple(() for _ in messages)
        fetched = await self._fetch_all(wanted)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._take(each, desk)) for each in fetched]
        files = iter([task.result() for task in tasks])
        found = tuple(tuple(next(files) for _ in message.attachments) for message in messages)
        told = [file for each in found for file in each]
        log.info("attachments_read", files=len(told), kept=sum(bool(file.path) for file in told))
        return found

    def load(self, image: ImageRef) -> bytes | None:
        """The bytes of a picture that was kept, if they are still there. Blocks."""
        return shelf.read_back(self._root, image.place, image.digest, MOST_BYTES)

    # -- fetching ------------------------------------------------------------------------------------------------
    async def _fetch_all(self, wanted: Sequence[tuple[str, Attachment]]) -> list[_Fetched | ReadFile]:
        deadline = asyncio.get_running_loop().time() + TIME_TO_FETCH.total_seconds()
        left = MOST_BYTES_TOGETHER
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[_Fetched | ReadFile]] = []
            for number, (channel, item) in enumerate(wanted):
                note = _unwanted(number, item, left)
                limit = min(MOST_BYTES_OF_ONE, left)
                if note is None:
                    left -= item.size_bytes if item.size_bytes is not None else _ASSUMED_BYTES
                    work = self._fetch(channel, item, limit, deadline)
                else:
                    work = _refused(item, note)
                tasks.append(group.create_task(work))
        return _within_bounds([task.result() for task in tasks])

    async def _fetch(self, channel: str, item: Attachment, limit: int, deadline: float) -> _Fetched | ReadFile:
        try:
            async with asyncio.timeout_at(deadline):
                got = await self._fetcher.fetch(channel, item, limit)
                for pause in _PAUSES:
                    if got is not Unfetched.AWAY:
                        break
                    await self._clock.sleep(pause)
                    got = await self._fetcher.fetch(channel, item, limit)
        except TimeoutError:
            return ReadFile(item, _AWAY)
        match got:
            case bytes():
                return _Fetched(item, got)
            case Unfetched.AWAY:
                return ReadFile(item, _AWAY)
            case Unfetched.REFUSED:
                return ReadFile(item, _REFUSED)

    # -- keeping and reading -------------------------------------------------------------------------------------
    async def _take(self, fetched: _Fetched | ReadFile, desk: Desk) -> ReadFile:
        if isinstance(fetched, ReadFile):
            return fetched
        item, data = self._without_secret_name(fetched.attachment), fetched.data
        kept = await asyncio.to_thread(self._keep, desk, safe_name(item), data)
        file = ReadFile(item, "", len(data), kept.path if isinstance(kept, Kept) else "")
        file = await self._told(file, data, kept if isinstance(kept, Kept) else None, desk)
        return file if isinstance(kept, Kept) else replace(file, note=f"{kept} {file.note}".strip())

    def _without_secret_name(self, item: Attachment) -> Attachment:
        named = item.filename is not None and self._safety.contains_secret(item.filename)
        return item.model_copy(update={"filename": None}) if named else item

    def _keep(self, desk: Desk, name: str, data: bytes) -> Kept | str:
        try:
            return shelf.keep(self._root, desk.scope, desk.day, name, data)
        except NoRoom:
            log.warning("attachments_folder_full")
            return f"{_NO_ROOM}"
        except NotKept:
            log.warning("attachment_not_kept")
            return _NOT_KEPT

    async def _told(self, file: ReadFile, data: bytes, kept: Kept | None, desk: Desk) -> ReadFile:
        if (picture := await asyncio.to_thread(picture_in, data)) is not None:
            why = refusal(picture, len(data))
            if not desk.model_sees or kept is None or why is not None:
                return replace(file, note=_UNSEEN.format(why=f": {why}" if why and desk.model_sees else ""))
            image = ImageRef(kept.digest, picture.media_type, kept.path, kept.place, len(data))
            return replace(file, note=_SEEN, image=image)
        is_recording = file.attachment.kind is AttachmentKind.AUDIO
        text = await (self._words if is_recording else self._text)(file.attachment, data, desk)
        match text:
            case None if is_recording:
                return replace(file, note=_NO_TRANSCRIPT)
            case NoText():
                return replace(file, note=f"{text[0].upper()}{text[1:]}.")
            case None:
                return replace(file, note=_KEPT)
            case PlainText() | DocumentText():
                return await asyncio.to_thread(self._screened, file, data, text, desk)

    async def _words(self, item: Attachment, data: bytes, desk: Desk) -> PlainText | None:
        """What is said in a recording; None where nobody can tell."""
        if not self._listener.takes(item.mime_type):
            return None
        try:
            async with asyncio.timeout(TIME_TO_READ.total_seconds()):
                return PlainText(await self._listener.transcribe(Recording(item.mime_type, data), desk.account))
        except (LLMError, TimeoutError) as error:
            log.warning("recording_not_transcribed", error=type(error).__name__)
            return None

    async def _text(self, item: Attachment, data: bytes, desk: Desk) -> PlainText | DocumentText | NoText | None:
        kind = await asyncio.to_thread(document_kind, data)
        if kind is None:
            return await asyncio.to_thread(decode_text, data, item.mime_type)
        try:
            async with asyncio.timeout(TIME_TO_READ.total_seconds()), self._reading:
                return await document_text(kind, data)
        except TimeoutError:
            return NoText.TOO_HARD
        except OSError:
            log.warning("document_reader_not_started")
            return NoText.BROKEN

    def _screened(self, file: ReadFile, data: bytes, text: PlainText | DocumentText, desk: Desk) -> ReadFile:
        head = text.text[: MOST_CHARACTERS + _MARGIN]
        if not head.strip():
            return replace(file, note="It is empty." if file.attachment.kind is not AttachmentKind.AUDIO else _SILENT)
        clean = self._safety.clean_output("attachment", head)
        if clean == BLOCKED_OUTPUT:
            return replace(file, note=_SECRET)
        is_whole = text.is_whole and len(text.text) <= MOST_CHARACTERS
        more_at = "" if is_whole else self._whole_text(file, data, text, desk)
        note = _TRANSCRIPT if file.attachment.kind is AttachmentKind.AUDIO else ""
        return replace(file, note=note, text=clean[:MOST_CHARACTERS], is_whole=is_whole, more_at=more_at)

    def _whole_text(self, file: ReadFile, data: bytes, text: PlainText | DocumentText, desk: Desk) -> str:
        """Where the whole text can be read on: the file itself, or a copy of its text beside it."""
        if isinstance(text, PlainText) and data.startswith(text.text.encode("utf-8", "replace")):
            return file.path
        if not file.path:
            return ""
        kept = self._keep(desk, f"{Path(file.path).name}.txt", text.text.encode("utf-8", "replace"))
        return kept.path if isinstance(kept, Kept) else ""


async def _refused(item: Attachment, note: str) -> ReadFile:
    return ReadFile(item, note)


def _unwanted(number: int, item: Attachment, left: int) -> str | None:
    """Why a file is not even fetched, or None."""
    if number >= MOST_FILES:
        return _TOO_MANY
    if looks_like_credentials(item):
        return _CREDENTIALS
    if item.size_bytes is not None and item.size_bytes > MOST_BYTES_OF_ONE:
        return _TOO_LARGE
    return _TOO_MUCH if left <= 0 or (item.size_bytes or 0) > left else None


def _within_bounds(found: Sequence[_Fetched | ReadFile]) -> list[_Fetched | ReadFile]:
    """The files with those left out that go over what they may have together: sizes are what platforms say."""
    kept: list[_Fetched | ReadFile] = []
    total = 0
    for each in found:
        if isinstance(each, _Fetched):
            total += len(each.data)
            if total > MOST_BYTES_TOGETHER:
                each = ReadFile(each.attachment, _TOO_MUCH)
        kept.append(each)
    return kept
