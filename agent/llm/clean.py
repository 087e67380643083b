"""What of a model's text people may see: no thinking, no tags of tools, no internal notes.

One reader serves whole texts and streams, so a streamed answer ends as the whole one would. It gives out only what can
no longer turn out to be the beginning of a tag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

_THINKING = "thinking|think|thoughts|thought|antthinking|reasoning|reflection|scratchpad|inner_monologue"
_TOOL = "tool_calls|tool_call|tool_use|function_calls|function_call|tool_result|tool_response"
_NAMES = f"{_THINKING}|{_TOOL}|final"
# <think>, </think>, < Think foo="x" >, <|think|>, <|/think|>
_TAG = re.compile(
    rf"<\s{{0,4}}(/?)\s{{0,4}}\|?\s{{0,4}}(/?)\s{{0,4}}({_NAMES})(?![\w-])([^<>]{{0,200}})>", re.IGNORECASE
)
_LONGEST_TAG = 240
_TAG_HEAD = re.compile(rf"<[\s/|]{{0,20}}(?:({_NAMES})(?![\w-])[^<>]{{0,200}}|([a-z_]{{0,16}}))\Z", re.IGNORECASE)
_FINAL = re.compile(r"<\s{0,4}\|?\s{0,4}final(?![\w-])[^<>]{0,200}>", re.IGNORECASE)
_PREFIXES = frozenset(name[:end] for name in _NAMES.split("|") for end in range(len(name) + 1))
_NOTE_HEAD = "[called tool"
_NOTE = re.compile(r"\[called tool\b(?:[^\[\]\n]|\[[^\[\]\n]*\])*\]?", re.IGNORECASE)
_CANDIDATE = re.compile(r"[<\[`~]")
_FENCE_INDENT = " \t>"


class _State(Enum):
    TEXT = auto()
    FENCE = auto()  # in a code block: nothing is a tag
    SKIP = auto()  # in thinking or a tool's tag: nothing is shown


@dataclass(frozen=True, slots=True)
class _Wait:
    """What follows decides; nothing from here on may be shown yet."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Read up to `end`; show `shown`."""

    end: int
    shown: str = ""


def clean(text: str) -> str:
    """The part of a whole answer that people may see; empty if nothing is left."""
    cleaner = StreamCleaner()
    cleaner.feed(text)
    return cleaner.finish()


class StreamCleaner:
    """Cleans an answer while it arrives."""

    def __init__(self) -> None:
        self._raw = ""
        self._position = 0
        self._state = _State.TEXT
        self._fence = ""
        self._skipped = ""
        self._scanned = 0
        self._ended = False
        self._outside = _Output()
        self._inside: _Output | None = None  # what stands in <final> tags, once there was one
        self._in_final = False

    def feed(self, piece: str) -> str:
        """Take the next piece; gives all that may be shown so far."""
        self._raw += piece
        self._read()
        return self.visible

    def finish(self) -> str:
        """Take the end; gives the answer."""
        self._ended = True
        self._read()
        return self.visible

    @property
    def visible(self) -> str:
        """All that may be shown so far."""
        return (self._inside or self._outside).text

    def _read(self) -> None:
        while self._position < len(self._raw):
            match self._state:
                case _State.TEXT:
                    step = self._read_text()
                case _State.FENCE:
                    step = self._read_fence()
                case _State.SKIP:
                    step = self._read_skipped()
            if isinstance(step, _Wait):
                return
            self._position = step.end

    def _show(self, text: str, *, code: bool = False) -> None:
        output = self._inside if self._in_final and self._inside is not None else self._outside
        output.add(text, code=code)

    def _read_text(self) -> _Step | _Wait:
        found = _CANDIDATE.search(self._raw, self._position)
        if found is None:
            self._show(self._raw[self._position :])
            return _Step(len(self._raw))
        start = found.start()
        self._show(self._raw[self._position : start])
        self._position = start
        match found.group():
            case "<":
                return self._read_tag(start)
            case "[":
                return self._read_note(start)
            case mark:
                return self._read_marks(start, mark)

    def _read_tag(self, start: int) -> _Step | _Wait:
        tag = _TAG.match(self._raw, start)
        if tag is None:
            return self._read_unfinished_tag(start)
        closes = bool(tag.group(1) or tag.group(2))
        name = tag.group(3).lower()
        empty = tag.group(4).rstrip(" |").endswith("/")
        if name == "final":
            self._in_final = not closes
            if not closes:
                self._inside = self._inside or _Output()
                self._inside.part()
        elif not closes and not empty:
            self._state, self._skipped, self._scanned = _State.SKIP, name, tag.end()
        return _Step(tag.end())

    def _read_unfinished_tag(self, start: int) -> _Step | _Wait:
        head = _TAG_HEAD.match(self._raw, start)
        if head is not None and (head.group(1) or (head.group(2) or "").lower() in _PREFIXES):
            if not self._ended:
                return _Wait()
            if head.group(1):  # the answer was cut inside a tag
                return _Step(len(self._raw))
        self._show("<")
        return _Step(start + 1)

    def _read_note(self, start: int) -> _Step | _Wait:
        head = self._raw[start : start + len(_NOTE_HEAD)].lower()
        if not _NOTE_HEAD.startswith(head):
            self._show("[")
            return _Step(start + 1)
        if not self._ended and self._raw.find("\n", start) < 0:
            return _Wait()
        note = _NOTE.match(self._raw, start)
        if note is None:
            self._show("[")
            return _Step(start + 1)
        return _Step(note.end())

    def _read_marks(self, start: int, mark: str) -> _Step | _Wait:
        """Backticks or tildes: a code block if they begin a line, code within a line if they are closed there."""
        end = start
        while end < len(self._raw) and self._raw[end] == mark:
            end += 1
        if end == len(self._raw) and not self._ended:
            return _Wait()
        run = self._raw[start:end]
        if mark == "`":
            line_end = self._raw.find("\n", end)
            is_whole = line_end >= 0 or self._ended
            line = self._raw[end : line_end if line_end >= 0 else len(self._raw)]
            # The closing run is known to be whole when something follows it.
            closing = re.search(rf"(?<!`){run}(?!`)" if is_whole else rf"(?<!`){run}(?=[^`])", line)
            if closing is not None:
                self._show(self._raw[start : end + closing.end()], code=True)
                return _Step(end + closing.end())
            if not is_whole:
                return _Wait()
            opens = "`" not in line
        else:
            opens = True
        begins_line = not self._raw[self._raw.rfind("\n", 0, start) + 1 : start].strip(_FENCE_INDENT)
        if len(run) >= 3 and begins_line and opens:
            self._state, self._fence = _State.FENCE, run
        self._show(run, code=self._state is _State.FENCE)
        return _Step(end)

    def _read_fence(self) -> _Step | _Wait:
        line_end = self._raw.find("\n", self._position)
        if line_end < 0:
            line = self._raw[self._position :]
            if not self._ended:
                return _Wait()
            self._show(line, code=True)
            return _Step(len(self._raw))
        line = self._raw[self._position : line_end]
        marks = line.strip(_FENCE_INDENT)
        self._show(self._raw[self._position : line_end + 1], code=True)
        if len(marks) >= len(self._fence) and not marks.strip(self._fence[0]):
            self._state = _State.TEXT
        return _Step(line_end + 1)

    def _read_skipped(self) -> _Step | _Wait:
        for tag in _TAG.finditer(self._raw, self._scanned):
            if (tag.group(1) or tag.group(2)) and tag.group(3).lower() == self._skipped:
                self._state = _State.TEXT
                return _Step(tag.end())
        if not self._ended:
            self._scanned = max(self._scanned, len(self._raw) - _LONGEST_TAG)
            return _Wait()
        # Never closed: lost, but for a final answer that stands inside.
        self._state = _State.TEXT
        final = _FINAL.search(self._raw, self._position)
        return _Step(final.start() if final is not None else len(self._raw))


class _Output:
    """Text to be shown: no blank at either end, and no more than one blank line in a row outside code."""

    def __init__(self) -> None:
        self._text = ""
        self._newlines = 0

    @property
    def text(self) -> str:
        return self._text.rstrip()

    def part(self) -> None:
        """Begin another part on a line of its own."""
        if self._text:
            self.add("\n")

    def add(self, text: str, *, code: bool = False) -> None:
        if not self._text:
            text = text.lstrip()
        if not code:
            text = self._without_gaps(text)
        elif text:
            self._newlines = len(text) - len(text.rstrip("\n"))
        self._text += text

    def _without_gaps(self, text: str) -> str:
        kept: list[str] = []
        for character in re.findall(r"\n|[^\n]+", text):
            self._newlines = self._newlines + 1 if character == "\n" else 0
            if self._newlines <= 2:
                kept.append(character)
        return "".join(kept)
