"""How tools say something in a chat before the answer: what they need of the outbox, and the short way to use it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from agent.store.blobs import Blob
from agent.tools.base import ToolContext
from channels.message import Address


class Outbox(Protocol):
    """What is to be said, until the platform has it."""

    async def post(self, context: ToolContext, address: Address, text: str, files: Sequence[Blob] = ()) -> bool:
        """Hand one message over for delivery, text and files in one write; False if this very call did so before.

        It leaves after what the chat is still to get. Whether it arrives is not known here. Raises `StoreError`.
        """
        ...


async def show_files(outbox: Outbox, context: ToolContext, files: Mapping[str, bytes], text: str = "") -> bool:
    """Hand files (name to content) over to the conversation in which a tool was called, below `text` if there is one.

    As `Outbox.post` says; the one who made the files keeps them in the folder of the one who asked.
    """
    blobs = await asyncio.to_thread(lambda: [Blob.of(name, data) for name, data in files.items()])
    return await outbox.post(context, context.address, text, blobs)
