"""How what came with a message is put to the model: one element a file, closed against what the file says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.llm.messages import ImageRef
from agent.media.text import as_data
from channels.message import Attachment

MOST_CHARACTERS = 20_000
MOST_CHARACTERS_TOGETHER = 60_000
"""How much text of one file, and of all files of a turn, stands in the prompt."""

NOT_AVAILABLE = "content not available"
_HARMLESS = str.maketrans('<>[]"@', "‹›()' ")


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What became of a file. `note` is the program's word on it; `text`, screened, is the file's own.

    `path` is where it was kept and `more_at` where all of its text stands, both empty where there is none; `size` its
    true size, if it came; `image` the picture that the model is shown.
    """

    attachment: Attachment
    note: str
    size: int | None = None
    path: str = ""
    text: str = ""
    is_whole: bool = True
    more_at: str = ""
    image: ImageRef | None = None


def attachments_blocks(messages: Sequence[Sequence[ReadFile]]) -> list[str]:
    """The `<attachments>` element of each message of a turn, empty where it has no files; they are numbered through."""
    index, budget = 0, MOST_CHARACTERS_TOGETHER
    blocks: list[str] = []
    for files in messages:
        elements: list[str] = []
        for file in files:
            index += 1
            shown = file.text[: min(budget, MOST_CHARACTERS)]
            budget -= len(shown)
            elements.append(_element(index, file, shown))
        blocks.append("\n".join(["<attachments>", *elements, "</attachments>"]) if elements else "")
    return blocks


def plain(text: str, limit: int = 200) -> str:
    """A name as data: one line, no markup, bounded."""
    return " ".join(text.split()).translate(_HARMLESS)[:limit]


def _element(index: int, file: ReadFile, shown: str) -> str:
    item = file.attachment
    size = file.size if file.size is not None else item.size_bytes
    facts = [("index", str(index)), ("kind", item.kind.value), ("type", plain(item.mime_type))]
    if item.filename:
        facts.append(("name", plain(item.filename)))
    if size is not None:
        facts.append(("bytes", str(size)))
    if file.path:
        facts.append(("path", file.path))
    head = " ".join(f'{name}="{value}"' for name, value in facts)
    lines = list(_inside(file, shown))
    body = lines[0] if not file.text else "\n" + "\n".join(lines) + "\n"
    return f"<attachment {head}>{body}</attachment>"


def _inside(file: ReadFile, shown: str) -> Iterator[str]:
    if file.note or not file.text:
        yield file.note or NOT_AVAILABLE
    if not file.text:
        return
    if shown:
        yield f"<content>\n{as_data(shown)}\n</content>"
    if len(shown) < len(file.text) or not file.is_whole:
        where = f"; all of it stands in {file.more_at} (read_file or memory_read)" if file.more_at else ""
        yield f"The first {len(shown):,} characters are shown{where}."
