"""The text of documents, read by a process of its own under limits (`extract.py`)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from agent.media import extract

TIME_LIMIT = timedelta(seconds=20)
_MOST_OUTPUT = 4 * extract.MOST_CHARACTERS  # UTF-8
_PDF = b"%PDF-"
_ZIP = b"PK\x03\x04"
_MARKS = ((b"word/document.xml", "word"), (b"xl/workbook", "sheet"), (b"ppt/presentation", "slides"))
_OPEN = b"mimetypeapplication/vnd.oasis.opendocument."
# The only variables that the process may see: where a Python finds its own libraries.
_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


class NoText(StrEnum):
    """Why a document gave no text."""

    EMPTY = "no text in it; it may be a scan, a picture of a page"
    BROKEN = "its text could not be read: it is damaged, or unpacks to far too much"
    TOO_HARD = "reading its text took too long or too much memory, so it was given up"
    PROTECTED = "it is protected by a password"
    MISSING = "no reader for PDF is installed; the operator can install one with `pip install 'optimclaw[documents]'`"


_MEANING = {
    extract.MISSING: NoText.MISSING,
    extract.PROTECTED: NoText.PROTECTED,
    extract.TOO_MUCH: NoText.TOO_HARD,
}


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What a document says. `is_whole`: nothing was left out at its end."""

    text: str
    is_whole: bool = True


def document_kind(data: bytes) -> str | None:
    """The kind of a document by its content, as `extract` names it; None for what is none that can be read."""
    if data[:1024].lstrip().startswith(_PDF):
        return "pdf"
    if not data.startswith(_ZIP):
        return None
    if _OPEN in data[:200]:
        return "open"
    return next((kind for mark, kind in _MARKS if mark in data), None)


async def document_text(kind: str, data: bytes, limit: timedelta = TIME_LIMIT) -> DocumentText | NoText:
    """The text of a document, as far as it is read: `extract.MOST_CHARACTERS` at most."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-X", "utf8", str(Path(extract.__file__)), kind,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        cwd="/",
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(limit.total_seconds()):
            output = await _talk(process, data)
            code = await process.wait()
    except TimeoutError:
        return NoText.TOO_HARD
    finally:
        await _end(process)
    return _outcome(code, output.decode("utf-8", "replace"))


def _outcome(code: int, text: str) -> DocumentText | NoText:
    if code == 0:
        return DocumentText(text, len(text) < extract.MOST_CHARACTERS) if text.strip() else NoText.EMPTY
    if code < 0:
        return NoText.TOO_HARD  # the system ended it at a limit
    return _MEANING.get(code, NoText.BROKEN)


async def _talk(process: asyncio.subprocess.Process, data: bytes) -> bytes:
    """Hand the document over and take the text, at most as much as there may be."""
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_feed(process.stdin, data))
        answer = group.create_task(_take(process.stdout))
    return answer.result()


async def _feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it has given up; its exit code says why
        stdin.write(data)
        await stdin.drain()
    stdin.close()


async def _take(stdout: asyncio.StreamReader) -> bytes:
    taken = bytearray()
    while (piece := await stdout.read(64 * 1024)) and len(taken) <= _MOST_OUTPUT:
        taken += piece
    return bytes(taken[:_MOST_OUTPUT])


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(5):
            await process.wait()
