"""Pictures: made, changed and looked at by a model of OpenAI's, kept in the folder of the one who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import ClassVar, Protocol

from pydantic import Field

from agent.llm.errors import BudgetExceeded, LLMError, RequestRefused
from agent.llm.images import Picture
from agent.model.tool_call import ToolOutput
from agent.store.errors import StoreError
from agent.tools.base import Effect, PathScope, RateLimit, ToolContext, ToolSpec
from agent.tools.builtin.files import read_bytes, save_file
from agent.tools.builtin.posting import Outbox, show_files
from agent.tools.schema import Arguments
from agent.workspace.errors import WorkspaceError

MOST_BYTES = 20_000_000
_TIMEOUT = timedelta(minutes=5)
_RATE = RateLimit(per_minute=5, per_hour=30)
_SIZE = r"auto|[1-9]\d{2,3}x[1-9]\d{2,3}"
_NO_KEY = (
    "pictures are made and looked at by OpenAI's models, and OPENAI_API_KEY is not set. Nothing was done. Tell the "
    "person that the operator can set it."
)


class ImageModel(Protocol):
    """What draws and sees. Raises LLMError."""

    @property
    def is_available(self) -> bool: ...

    async def draw(self, prompt: str, size: str, account: str) -> Picture: ...

    async def redraw(self, prompt: str, picture: Picture, account: str) -> Picture: ...

    async def describe(self, question: str, picture: Picture, account: str) -> str: ...


class ImageDesk:
    """What the three tools share: the model, the folder, the chat the picture is shown in."""

    def __init__(self, model: ImageModel, root: Path, outbox: Outbox, contains_secret: Callable[[str], bool]) -> None:
        self.model = model
        self._root = root
        self._outbox = outbox
        self._contains_secret = contains_secret

    async def serve(self, prompt: str, work: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        """What `work` gives, if the model may be asked; its faults as errors that the model can act on."""
        if not self.model.is_available:
            return _error(_NO_KEY)
        if self._contains_secret(prompt):
            return _error("the text holds what looks like a key, token or password. Nothing was sent.")
        try:
            return await work()
        except LLMError as error:
            return _fault(error)
        except WorkspaceError as error:
            return _error(str(error))

    async def picture(self, context: ToolContext, path: str) -> Picture:
        """The picture in a file. Raises WorkspaceError, also for what is none."""
        data = await asyncio.to_thread(read_bytes, self._root, context.scope, path, MOST_BYTES)
        media_type = picture_type(data)
        if media_type is None:
            raise NoPicture(f"{path!r} is no PNG, JPEG, WebP or GIF picture.")
        return Picture(media_type, data)

    async def keep(self, context: ToolContext, picture: Picture) -> ToolOutput:
        """Save a picture and show it in the conversation."""
        name = f"{context.now:%Y-%m-%d}-{context.turn.hex[:8]}-{_plain(context.call_id)}.png"
        path = await asyncio.to_thread(save_file, self._root, context.scope, f"images/{name}", picture.data, MOST_BYTES)
        try:
            await show_files(self._outbox, context, {name: picture.data})
        except StoreError:
            return ToolOutput(f"Saved to {path}. It could not be shown in the chat.")
        return ToolOutput(f"Saved to {path} and shown in this conversation. Do not describe it at length.")


class NoPicture(WorkspaceError):
    """The file is no picture."""


class ImageGenerateArguments(Arguments):
    """Arguments of `image_generate`."""

    prompt: str = Field(min_length=1, max_length=32_000)
    size: str = Field(default="auto", pattern=f"^(?:{_SIZE})$", description="auto or WIDTHxHEIGHT")


class ImageGenerate:
    """Makes a picture from words."""

    spec: ClassVar = ToolSpec(
        "image_generate", "Make a picture from a description and show it here.", ImageGenerateArguments, Effect.OUTSIDE,
        timeout=_TIMEOUT, rate=_RATE, rare=True,
    )  # fmt: skip

    def __init__(self, desk: ImageDesk) -> None:
        self._desk = desk

    def scope(self, arguments: ImageGenerateArguments) -> PathScope:
        return PathScope.of("images")

    async def run(self, arguments: ImageGenerateArguments, context: ToolContext) -> ToolOutput:
        async def work() -> ToolOutput:
            picture = await self._desk.model.draw(arguments.prompt, arguments.size, str(context.turn))
            return await self._desk.keep(context, picture)

        return await self._desk.serve(arguments.prompt, work)


class ImageEditArguments(Arguments):
    """Arguments of `image_edit`."""

    prompt: str = Field(min_length=1, max_length=32_000, description="what to change")
    image_path: str = Field(description="a picture in your folder")


class ImageEdit:
    """Makes a changed copy of a picture."""

    spec: ClassVar = ToolSpec(
        "image_edit", "Change a picture as described and show the result here.", ImageEditArguments, Effect.OUTSIDE,
        timeout=_TIMEOUT, rate=_RATE, rare=True,
    )  # fmt: skip

    def __init__(self, desk: ImageDesk) -> None:
        self._desk = desk

    def scope(self, arguments: ImageEditArguments) -> PathScope:
        return PathScope(frozenset({PurePosixPath("/images"), PurePosixPath("/", arguments.image_path)}))

    async def run(self, arguments: ImageEditArguments, context: ToolContext) -> ToolOutput:
        async def work() -> ToolOutput:
            before = await self._desk.picture(context, arguments.image_path)
            picture = await self._desk.model.redraw(arguments.prompt, before, str(context.turn))
            return await self._desk.keep(context, picture)

        return await self._desk.serve(arguments.prompt, work)


class ImageAnalyzeArguments(Arguments):
    """Arguments of `image_analyze`."""

    image_path: str = Field(description="a picture in your folder")
    question: str = Field(default="What is in this picture?", min_length=1, max_length=8_000)


class ImageAnalyze:
    """Answers a question about a picture."""

    spec: ClassVar = ToolSpec(
        "image_analyze", "Ask something about a picture in your folder.", ImageAnalyzeArguments, Effect.OUTSIDE,
        timeout=_TIMEOUT, rate=_RATE, rare=True,
    )  # fmt: skip

    def __init__(self, desk: ImageDesk) -> None:
        self._desk = desk

    def scope(self, arguments: ImageAnalyzeArguments) -> PathScope:
        return PathScope.of(arguments.image_path)

    async def run(self, arguments: ImageAnalyzeArguments, context: ToolContext) -> ToolOutput:
        async def work() -> ToolOutput:
            picture = await self._desk.picture(context, arguments.image_path)
            return ToolOutput(await self._desk.model.describe(arguments.question, picture, str(context.turn)))

        return await self._desk.serve(arguments.question, work)


def picture_type(data: bytes) -> str | None:
    """The media type of a picture by its first bytes; None for what is none, whatever its name says."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/gif" if data[:6] in (b"GIF87a", b"GIF89a") else None


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isascii() and character.isalnum())[-12:] or "0"


def _fault(error: LLMError) -> ToolOutput:
    match error:
        case BudgetExceeded():
            return _error("the budget of this installation is used up. Nothing was done.")
        case RequestRefused():
            return _error("the model did not accept this request. Try other words.")
        case _:
            return _error("the model for pictures is not answering at the moment. Try again later.")


def _error(text: str) -> ToolOutput:
    return ToolOutput(text, is_error=True)
