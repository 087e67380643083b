"""Gives a model the pictures of a conversation along with each request."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import structlog

from agent.llm.base import Completion, CompletionRequest, LLMProvider, OnText
from agent.llm.errors import RequestRefused
from agent.llm.messages import ImageRef
from agent.llm.wire.pictures import images_of
from agent.media.pictures import shown

log = structlog.get_logger(__name__)

Load = Callable[[ImageRef], bytes | None]
"""Reads a picture; None where it is gone or another. Blocks."""

_MOST_REMEMBERED = 10_000


class SeeingProvider:
    """Stands in front of all other wrappers. Pictures are read anew for each request: nothing of them stays in memory.

    A provider that refuses a request because of a picture would refuse the conversation for good. So a refused request
    is asked again without the pictures that no request has succeeded with, and these are left out from then on.
    """

    def __init__(self, inner: LLMProvider, load: Load) -> None:
        self._inner = inner
        self._load = load
        self._proven: set[str] = set()
        self._refused: set[str] = set()

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def context_limit(self) -> int | None:
        return self._inner.context_limit

    @property
    def supports_tools(self) -> bool:
        return self._inner.supports_tools

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`, shown the pictures in its messages as far as bounds allow."""
        images = [image for message in request.messages for image in images_of(message)]
        wanted = shown([image for image in images if image.digest not in self._refused]) if images else frozenset()
        if not wanted:
            return await self._inner.complete(request, on_text)
        pictures = await asyncio.to_thread(_read, self._load, {i.digest: i for i in images if i.digest in wanted})
        try:
            completion = await self._inner.complete(replace(request, pictures=pictures), on_text)
        except RequestRefused:
            suspects = frozenset(pictures.keys() - self._proven or pictures)
            rest = {digest: data for digest, data in pictures.items() if digest not in suspects}
            completion = await self._inner.complete(replace(request, pictures=rest), on_text)
            log.warning("pictures_refused", count=len(suspects))
            _note(self._refused, suspects)
        else:
            _note(self._proven, pictures.keys())
        return completion

    async def list_models(self) -> tuple[str, ...]:
        return await self._inner.list_models()

    async def warm_up(self) -> None:
        await self._inner.warm_up()

    async def close(self) -> None:
        await self._inner.close()


def _note(known: set[str], digests: Iterable[str]) -> None:
    if len(known) > _MOST_REMEMBERED:
        known.clear()
    known.update(digests)


def _read(load: Load, images: Mapping[str, ImageRef]) -> dict[str, bytes]:
    found = {digest: load(image) for digest, image in images.items()}
    return {digest: base64.b64encode(data) for digest, data in found.items() if data is not None}
