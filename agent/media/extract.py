"""Takes the text out of a document. A program of its own: the document comes on stdin, its text goes to stdout.

Documents are made by strangers, and readers of such formats can be led to eat memory, time or each other. So this runs
apart from the bot, under limits it sets itself before it reads a byte, and knows nothing of the bot: it is started by
its path, in isolated mode, and imports the standard library and, for PDF, `pypdf` alone.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

MOST_CHARACTERS = 200_000
MOST_PAGES = 300
_MOST_UNPACKED = 40_000_000
_MOST_MEMBERS = 3_000
_MOST_DEPTH = 200
_MEMORY_BYTES = 700_000_000
_CPU_SECONDS = 12

BROKEN, MISSING, PROTECTED, TOO_MUCH = 1, 3, 4, 5
"""Exit codes: it cannot be read; the library for it is missing; it wants a password; it wants too much memory."""

_TEXT_TAGS = frozenset({"t", "delText"})  # of Word, PowerPoint and Excel
_ENDS_LINE = frozenset({"p", "h", "br", "line-break", "row", "table-row"})
_ENDS_CELL = frozenset({"tab", "tc", "table-cell", "c"})


class Unreadable(Exception):
    """The document is not what it says, or more than is read of one."""


class Protected(Exception):
    """The document wants a password."""


def main() -> int:
    """Read, extract, write; the exit code says how it went."""
    _limit_ourselves()
    out = sys.stdout.buffer
    try:
        text = extract(sys.argv[1], sys.stdin.buffer.read())
    except ModuleNotFoundError:
        return MISSING
    except Protected:
        return PROTECTED
    except MemoryError:
        return TOO_MUCH
    except Exception:  # noqa: BLE001 - a reader of hostile files fails in any way; the process ends with it
        return BROKEN
    out.write(text.encode("utf-8", "replace"))
    out.flush()
    return 0


def extract(kind: str, data: bytes) -> str:
    """The text of a document of this kind: "pdf", "word", "sheet", "slides" or "open". Raises in many ways."""
    pieces = _pdf(data) if kind == "pdf" else _office(kind, data)
    return _joined(pieces)


def _joined(pieces: Iterable[str]) -> str:
    found: list[str] = []
    length = 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > MOST_CHARACTERS:
            break
    text = re.sub(r"(?<![ \t])[ \t]+\n", "\n", "".join(found)[:MOST_CHARACTERS])
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _pdf(data: bytes) -> Iterator[str]:
    from pypdf import PdfReader
    from pypdf.errors import FileNotDecryptedError, WrongPasswordError

    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Protected
        for number in range(min(len(reader.pages), MOST_PAGES)):
            yield f"{reader.pages[number].extract_text()}\n\n"
    except (FileNotDecryptedError, WrongPasswordError) as error:
        raise Protected from error


def _office(kind: str, data: bytes) -> Iterator[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        if len(names) > _MOST_MEMBERS:
            raise Unreadable
        if any(info.flag_bits & 1 for info in archive.infolist()):
            raise Protected
        budget = _Budget(_MOST_UNPACKED)

        def read(name: str) -> bytes:
            with archive.open(name) as member:
                return budget.read(member)

        match kind:
            case "word":
                yield _words(read("word/document.xml"))
            case "slides":
                for name in _in_order(names, r"ppt/slides/slide(\d+)\.xml"):
                    yield _words(read(name)) + "\n\n"
            case "sheet":
                shared = _shared(read("xl/sharedStrings.xml")) if "xl/sharedStrings.xml" in names else []
                for name in _in_order(names, r"xl/worksheets/sheet(\d+)\.xml"):
                    yield from _rows(read(name), shared)
                    yield "\n"
            case _:
                yield _words(read("content.xml"), every_text=True)


class _Budget:
    """How much may still be unpacked, of all members together."""

    def __init__(self, left: int) -> None:
        self._left = left

    def read(self, member: IO[bytes]) -> bytes:
        data = member.read(self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable
        return data


def _in_order(names: Iterable[str], pattern: str) -> list[str]:
    found = [(int(match[1]), name) for name in names if (match := re.fullmatch(pattern, name)) and len(match[1]) < 6]
    return [name for _, name in sorted(found)]


def _words(xml: bytes, *, every_text: bool = False) -> str:
    """The texts of a document's body. `every_text`: text stands in paragraphs, not in elements of its own."""
    found: list[str] = []
    inside = [0]

    def start(tag: str, _: dict[str, str]) -> None:
        inside[0] += tag in ({"p", "h"} if every_text else _TEXT_TAGS)

    def end(tag: str) -> None:
        inside[0] -= tag in ({"p", "h"} if every_text else _TEXT_TAGS)
        if tag in _ENDS_LINE:
            found.append("\n")
        elif tag in _ENDS_CELL:
            found.append("\t")
        elif tag == "s":
            found.append(" ")

    def text(piece: str) -> None:
        if inside[0] > 0:
            found.append(piece)

    _parse(xml, start, end, text)
    return "".join(found)


def _shared(xml: bytes) -> list[str]:
    """The table of texts that the cells of a sheet point into."""
    found: list[str] = []
    inside = [False]

    def start(tag: str, _: dict[str, str]) -> None:
        if tag == "si":
            found.append("")
        inside[0] = tag == "t"

    def end(tag: str) -> None:
        inside[0] = False

    def text(piece: str) -> None:
        if inside[0] and found:
            found[-1] += piece

    _parse(xml, start, end, text)
    return found


def _rows(xml: bytes, shared: list[str]) -> Iterator[str]:
    """The rows of a sheet, cells parted by tabs."""
    rows: list[str] = []
    cells: list[str] = []
    state = {"type": "", "in": ""}

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "c":
            state["type"] = attributes.get("t", "")
            cells.append("")
        elif tag in {"v", "t"}:
            state["in"] = tag

    def end(tag: str) -> None:
        if tag in {"v", "t"}:
            state["in"] = ""
        elif tag == "c" and cells and state["type"] == "s":
            number = cells[-1].strip()
            cells[-1] = shared[int(number)] if number.isdigit() and int(number[:9]) < len(shared) else ""
        elif tag == "row":
            rows.append("\t".join(cells).rstrip("\t") + "\n")
            cells.clear()

    def text(piece: str) -> None:
        if state["in"] and cells:
            cells[-1] += piece

    _parse(xml, start, end, text)
    return iter(rows)


def _parse(
    xml: bytes,
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None],
    text: Callable[[str], None],
) -> None:
    """Walk through XML. A document type, and so any entity of its own, is refused; so is what is nested too deeply."""
    from xml.parsers import expat

    parser = expat.ParserCreate()
    depth = [0]

    def refuse(*_: object) -> None:
        raise Unreadable

    def open_element(name: str, attributes: dict[str, str]) -> None:
        depth[0] += 1
        if depth[0] > _MOST_DEPTH:
            raise Unreadable
        start(name.rpartition(":")[2], attributes)

    def close_element(name: str) -> None:
        depth[0] -= 1
        end(name.rpartition(":")[2])

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    parser.CharacterDataHandler = text
    parser.buffer_text = True
    parser.Parse(xml, True)


def _limit_ourselves() -> None:
    """Give up memory, time, files and children that reading a document does not need."""
    try:
        import resource
    except ModuleNotFoundError:  # no such limits on this system; the bot's own time limit stands
        return
    wanted = (("RLIMIT_AS", _MEMORY_BYTES), ("RLIMIT_CPU", _CPU_SECONDS), ("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0))
    for name, most in wanted:
        limit = getattr(resource, name, None)
        if limit is not None:
            try:
                resource.setrlimit(limit, (most, most))
            except (ValueError, OSError):  # macOS refuses some; the others stand
                continue


if __name__ == "__main__":
    sys.exit(main())
