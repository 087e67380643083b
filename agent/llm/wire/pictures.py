"""Pictures of a person's message on the wire: what goes along, and the words where one does not. Pure.

They are not kept in encoded form: a few large ones would push the whole conversation out of the encoder's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.llm.base import CompletionRequest
from agent.llm.messages import ChatMessage, ImageRef, UserText
from agent.llm.sight import sees_pictures


@dataclass(frozen=True, slots=True)
class Attached:
    """A picture that goes along, in base64."""

    media_type: bytes
    data: bytes


def images_of(message: ChatMessage) -> Sequence[ImageRef]:
    """The pictures of a message."""
    return message.images if isinstance(message, UserText) else ()


def visible(request: CompletionRequest, provider: str, model: str) -> Mapping[str, bytes]:
    """The pictures of a request that this model is shown."""
    return request.pictures if request.pictures and sees_pictures(provider, model) else {}


def pieces(images: Sequence[ImageRef], pictures: Mapping[str, bytes]) -> Iterator[str | Attached]:
    """Words and pictures in the order in which they follow the text."""
    for image in images:
        data = pictures.get(image.digest)
        if data is None:
            yield f"[the picture {image.path} is not shown here; image_analyze can look at it]"
        else:
            yield f"[the picture {image.path}:]"
            yield Attached(image.media_type.encode(), data)
