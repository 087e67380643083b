"""Reads a shell command line into its simple commands, as bash would split it, without expanding anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_DEPTH = 8

_META = " \t\n;&|()<>"
_REDIRECT = re.compile(r"&>>?|(?:[0-9]*)(?:<<<|<<-?|<>|>>|>\||[<>]&|[<>])")
# Arithmetic that runs nothing; whatever else begins like it is not read.
_ARITHMETIC = re.compile(r"\$\(\((?:[\w \t+*/%<>=!&|^~?:,-]|\$(?!\()|\((?!\()|\)(?!\)))*\)\)", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_ANSI = re.compile(r"x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}


class Unparsable(Exception):
    """A line that is no complete shell script, or one beyond what we read (case, functions, deep nesting)."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its quotes removed. What the shell would compute stands in `text` as written.

    `expands`: holds a variable, a substitution or braces, so that its value, and how many words it makes, is not known.
    """

    text: str
    expands: bool = False
    globs: bool = False
    substitutes: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """`operator` without the descriptor's number. `body` is the text of a here-document."""

    operator: str
    target: Word
    body: str | None = None


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Words between two separators, reserved words included. Commands inside a substitution stand on their own.

    `piped`: its input comes from a pipe; `pipes`: its output goes to one.
    """

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    pipes: bool = False
    background: bool = False
    nested: bool = False


def parse_script(text: str, depth: int = 0) -> tuple[SimpleCommand, ...]:
    """The simple commands of `text`, inner ones before the one they stand in. Raises Unparsable."""
    return tuple(
        SimpleCommand(tuple(c.words), tuple(c.redirects), c.piped, c.pipes, c.background, c.nested)
        for c in _Parser(text, depth).read()
    )


@dataclass(slots=True, eq=False)
class _Open:
    """A command being read; a here-document reaches it when its line has ended."""

    piped: bool
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    pipes: bool = False
    background: bool = False
    nested: bool = False
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class _HereDocument:
    owner: _Open
    delimiter: str
    quoted: bool
    strip_tabs: bool


class _Parser:
    def __init__(self, text: str, depth: int) -> None:
        self.text = text
        self.depth = depth
        self.at = 0
        self.commands: list[_Open] = []
        self.heredocs: list[_HereDocument] = []

    def read(self) -> list[_Open]:
        self.read_list(until=None, piped=False)
        self._read_heredocs()
        return self.commands

    def read_list(self, until: str | None, *, piped: bool) -> None:
        """Read commands up to `until`; `piped`: what stands around them feeds them from a pipe."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unparsable
        command = _Open(piped)
        while True:
            self._skip_blanks()
            if self.at >= len(self.text):
                if until is not None:
                    raise Unparsable
                break
            char = self.text[self.at]
            if char == ")":
                if until != ")":
                    raise Unparsable
                self.at += 1
                break
            if char == "(":
                if command.words or command.grouped or self.text.startswith("((", self.at):
                    raise Unparsable  # a function, a pattern or arithmetic
                self.at += 1
                self.read_list(")", piped=command.piped)
                command.grouped = True
            elif self._at_process_substitution() or not (char in ";&|\n<>" or self._at_redirect()):
                if command.grouped:
                    raise Unparsable
                command.words.append(self._read_word())
            elif match := self._at_redirect():
                self._read_redirect(command, match)
            else:
                command = self._read_separator(command, piped=piped)
        self._close(command)
        self.depth -= 1

    # -- separators and redirections

    def _read_separator(self, command: _Open, *, piped: bool) -> _Open:
        two = self.text[self.at : self.at + 2]
        operator = two if two in ("&&", "||", "|&", ";;") else two[0]
        if operator == ";;":
            raise Unparsable
        self.at += len(operator)
        command.pipes = operator in ("|", "|&")
        command.background = operator == "&"
        self._close(command)
        if operator == "\n":
            self._read_heredocs()
        return _Open(piped or command.pipes)

    def _close(self, command: _Open) -> None:
        if command.words or command.redirects or command.background:
            self.commands.append(command)

    def _at_redirect(self) -> re.Match[str] | None:
        return _REDIRECT.match(self.text, self.at)

    def _at_process_substitution(self) -> bool:
        return self.text.startswith(("<(", ">("), self.at)

    def _read_redirect(self, command: _Open, match: re.Match[str]) -> None:
        operator = match[0].lstrip("0123456789")
        self.at = match.end()
        self._skip_blanks()
        start = self.at
        if self.at >= len(self.text) or (self.text[self.at] in _META and not self._at_process_substitution()):
            raise Unparsable
        target = self._read_word()
        if operator in ("<<", "<<-"):
            quoted = target.text != self.text[start : self.at]
            self.heredocs.append(_HereDocument(command, target.text, quoted, operator == "<<-"))
            command.redirects.append(Redirect("<<", target))
        else:
            command.redirects.append(Redirect(operator, target))

    def _read_heredocs(self) -> None:
        pending, self.heredocs = self.heredocs, []
        for heredoc in pending:
            body = self._take_body(heredoc)
            word = Word(body)
            if not heredoc.quoted:
                inner = _Parser(body, self.depth)
                word = inner.read_double_quoted(closing=None)
                self._adopt(inner.commands)
            heredoc.owner.redirects.append(Redirect("<<", word, body))

    def _take_body(self, heredoc: _HereDocument) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            line = self.text[self.at : end if end >= 0 else len(self.text)]
            self.at += len(line) + 1
            if (line.lstrip("\t") if heredoc.strip_tabs else line) == heredoc.delimiter:
                break
            lines.append(line)
        self.at = min(self.at, len(self.text))
        return "\n".join(lines)

    # -- words

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _read_word(self) -> Word:
        pieces = _Pieces()
        while self.at < len(self.text):
            char = self.text[self.at]
            if self._at_process_substitution() and not pieces.any:
                self._read_process_substitution(pieces)
            elif char in _META:
                break
            else:
                self._read_piece(char, pieces)
        return pieces.word()

    def _read_piece(self, char: str, pieces: _Pieces) -> None:
        if char == "\\":
            if not self.text.startswith("\\\n", self.at):
                pieces.add(self.text[self.at + 1 : self.at + 2] or "\\")
            self.at += 2
        elif char == "'":
            pieces.add(self._take_until("'"))
        elif char == '"':
            self.at += 1
            pieces.join(self.read_double_quoted(closing='"'))
        elif char == "$" or char == "`":
            self._read_expansion(pieces)
        else:
            pieces.add_plain(char)
            self.at += 1

    def read_double_quoted(self, closing: str | None) -> Word:
        """Read as between double quotes up to `closing`, or to the end."""
        pieces = _Pieces()
        pieces.any = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == closing:
                self.at += 1
                return pieces.word()
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                pieces.add(self.text[self.at + 1].replace("\n", ""))
                self.at += 2
            elif char in "$`":
                self._read_expansion(pieces, in_quotes=True)
            else:
                pieces.add(char)
                self.at += 1
        if closing is not None:
            raise Unparsable
        return pieces.word()

    def _read_expansion(self, pieces: _Pieces, *, in_quotes: bool = False) -> None:
        start = self.at
        if self.text[start] == "`":
            body = re.sub(r"\\([\\`$])", r"\1", self._take_until("`", escapes=True))
            self._adopt(_Parser(body, self.depth).read())
            pieces.computed(self.text[start : self.at], substitutes=True)
        elif self.text.startswith("$((", start):
            match = _ARITHMETIC.match(self.text, start)
            if match is None:
                raise Unparsable
            self.at = match.end()
            pieces.computed(match[0])
        elif self.text.startswith("$(", start):
            self.at += 2
            self._read_nested()
            pieces.computed(self.text[start : self.at], substitutes=True)
        elif self.text.startswith("${", start):
            self.at += 2
            substitutes = self._skip_braces()
            pieces.computed(self.text[start : self.at], substitutes=substitutes)
        elif self.text.startswith("$'", start) and not in_quotes:
            self.at += 1
            pieces.add(_decode_ansi(self._take_until("'", escapes=True)))
        elif self.text.startswith('$"', start) and not in_quotes:
            self.at += 2
            pieces.join(self.read_double_quoted(closing='"'))
        elif name := _VARIABLE.match(self.text, start + 1):
            self.at = name.end()
            pieces.computed(self.text[start : self.at])
        else:
            pieces.add("$")
            self.at += 1

    def _read_process_substitution(self, pieces: _Pieces) -> None:
        start, feeds = self.at, self.text[self.at] == ">"
        self.at += 2
        self._read_nested(piped=feeds)
        pieces.computed(self.text[start : self.at], substitutes=True)

    def _read_nested(self, *, piped: bool = False) -> None:
        outer, self.commands = self.commands, []
        pending, self.heredocs = self.heredocs, []
        self.read_list(")", piped=piped)
        if self.heredocs:
            raise Unparsable
        inner, self.commands, self.heredocs = self.commands, outer, pending
        self._adopt(inner)

    def _adopt(self, commands: list[_Open]) -> None:
        for command in commands:
            command.nested = True
        self.commands += commands

    def _skip_braces(self) -> bool:
        """Pass over the rest of `${…}`; whether something in it is run."""
        before = len(self.commands)
        pieces = _Pieces()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "}":
                self.at += 1
                return pieces.substitutes or len(self.commands) > before
            self._read_piece(char, pieces)
        raise Unparsable

    def _take_until(self, quote: str, *, escapes: bool = False) -> str:
        """What stands between the quote at the present place and the next one; the place moves behind that."""
        end = self.at + 1
        while end < len(self.text) and self.text[end] != quote:
            end += 2 if escapes and self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise Unparsable
        body = self.text[self.at + 1 : end]
        self.at = end + 1
        return body


class _Pieces:
    """Collects a word."""

    def __init__(self) -> None:
        self.any = False
        self.expands = False
        self.globs = False
        self.substitutes = False
        self._parts: list[str] = []
        self._plain: list[str] = []

    def add(self, text: str) -> None:
        self.any = True
        self._parts.append(text)

    def add_plain(self, char: str) -> None:
        self.add(char)
        self._plain.append(char)
        self.globs |= char in "*?["

    def computed(self, text: str, *, substitutes: bool = False) -> None:
        self.add(text)
        self.expands = True
        self.substitutes |= substitutes

    def join(self, word: Word) -> None:
        self.add(word.text)
        self.expands |= word.expands
        self.substitutes |= word.substitutes

    def word(self) -> Word:
        plain = "".join(self._plain)
        braces = "{" in plain and ("," in plain or ".." in plain)
        return Word("".join(self._parts), self.expands or braces, self.globs, self.substitutes)


def _decode_ansi(body: str) -> str:
    return "".join(_ansi_pieces(body))


def _ansi_pieces(body: str) -> Iterator[str]:
    at = 0
    while at < len(body):
        if body[at] != "\\" or at + 1 == len(body):
            yield body[at]
            at += 1
            continue
        match = _ANSI.match(body, at + 1)
        assert match is not None
        code, at = match[0], match.end()
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
            yield chr(number) if number < 0x110000 else "\ufffd"
        elif code[0] in "01234567":
            yield chr(int(code, 8) & 0xFF)
        elif code[0] == "c" and len(code) > 1:
            yield chr(ord(code[1]) & 0x1F)
        else:
            yield _ANSI_LETTERS.get(code, code)
