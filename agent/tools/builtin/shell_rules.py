"""How risky a shell command line is. A second net behind the sandbox: it decides who is asked, not what can be done."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from agent.tools.builtin.shell_commands import (
    FEEDS_ARGUMENTS,
    FORBIDDEN_TEXT,
    SHELLS,
    WRAPPERS,
    Blocked,
    Call,
    Level,
    Rated,
    Verdict,
    Wrapper,
    is_destructive_text,
    rate_interpreter,
    rate_known,
    steers,
    worst,
)
from agent.tools.builtin.shell_readers import is_plain_read
from agent.tools.builtin.shell_syntax import MAX_DEPTH, SimpleCommand, Unparsable, Word, parse_script

__all__ = ["Blocked", "Level", "Rated", "Verdict", "classify"]

MAX_WORDS = 2_000
# Of a script, and a quarter for each level it lies inside: what is nested is read again on each level.
MAX_LENGTH = 24_000

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_UNREADABLE = Rated(Level.HIGH, "cannot be read with certainty")
_ORDINARY = Rated(Level.MEDIUM)
_TOKEN = re.compile(r"[\w:.]+|[^\s\w:.]")
_NEVER_IN_TEXT = re.compile(
    r"\b(?:sudo|doas|eval|mkfs(?:\.\w+)?)\s|\|\s*(?:ba|z|da|k)?sh\b|\brm\s+-(?=\w*r)\w+\s+/(?:\s|$|\*)"
)
_OPENING = frozenset({"if", "while", "until", "{", "for", "select"})
_RESERVED = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!", "{"})
_ENDS = frozenset({"fi", "done", "}"})
_LISTS = frozenset({"for", "select"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=")
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITING = ("-delete", "-fprint", "-fls")


def classify(command: str) -> Verdict:
    """Whether `command` is never run, and if it may, how risky it is. Never fails; what cannot be read is `HIGH`."""
    if "\x00" in command:
        return Blocked("holds a NUL byte")
    if _is_fork_bomb(command):
        return Blocked("starts processes without end")
    verdict = _classify(command, 0)
    if isinstance(verdict, Rated) and not all(map(_is_plain, command)):
        return worst((verdict, Rated(Level.HIGH, "holds characters that cannot be seen")))
    return verdict


def _classify(script: str, depth: int) -> Verdict:
    if depth > MAX_DEPTH or len(script) > MAX_LENGTH >> 2 * depth:
        return _unreadable(script)
    try:
        commands = parse_script(script, depth)
    except (Unparsable, RecursionError):
        return _unreadable(script)
    if sum(len(command.words) for command in commands) > MAX_WORDS:
        return _unreadable(script)
    verdict = worst(_judge(command, depth) for command in _with_spread_pipes(commands))
    match verdict:
        case Blocked():
            return verdict
        case Rated(level=level):
            texts = " ".join(_texts(commands)).lower()
            if level is not Level.LOW and is_destructive_text(texts):
                return Rated(Level.HIGH, "holds a destructive command")
            return verdict
        case unreachable:
            assert_never(unreachable)


def _judge(command: SimpleCommand, depth: int) -> Verdict:
    """The verdict on one simple command of a script, with its redirections and reserved words."""
    for text in _texts((command,)):
        if found := _forbidden(text):
            return found
    floor = _ORDINARY if command.redirects or command.background or command.nested else Rated(Level.LOW)
    words = command.words
    verdicts: list[Verdict] = [floor]
    while words and words[0].text in _RESERVED and not words[0].expands:
        words = words[1:]
        verdicts.append(_ORDINARY)
    if words and words[0].text in _ENDS | _LISTS:
        steered = [Rated(Level.HIGH, f"changes {word.text}") for word in words[1:2] if steers(word.text)]
        return worst((*verdicts, *steered, _ORDINARY))
    assigned, words = _take_assignments(words)
    verdicts += assigned
    if words:
        verdicts.append(_judge_words(command, words, depth, open_ended=False))
    return worst(verdicts)


def _take_assignments(words: tuple[Word, ...]) -> tuple[list[Verdict], tuple[Word, ...]]:
    verdicts: list[Verdict] = []
    while words and (match := _ASSIGNMENT.match(words[0].text)):
        verdicts.append(Rated(Level.HIGH, f"changes {match[1]}") if steers(match[1]) else _ORDINARY)
        words = words[1:]
    return verdicts, words


def _judge_words(command: SimpleCommand, words: tuple[Word, ...], depth: int, *, open_ended: bool) -> Verdict:
    """The verdict on a command name with arguments; wrappers are followed to what they run."""
    if depth > MAX_DEPTH:
        return _unreadable(" ".join(word.text for word in words))
    head = words[0]
    if head.text in _RESERVED and not head.expands:  # "time { …", or a script no shell would take
        rest = words[1:]
        return worst((_ORDINARY, *([_judge_words(command, rest, depth + 1, open_ended=open_ended)] if rest else [])))
    name = head.text.rsplit("/", 1)[-1].lower()
    if head.expands or head.globs or head.text.startswith("~") or "=" in head.text or not name:
        if name == "[" or head.text == "[[":
            return _ORDINARY
        return Rated(Level.HIGH, "computes the name of the command it runs")
    if not name.isascii():
        return Rated(Level.HIGH, "runs a name that may look like another")
    arguments = words[1:]
    call = Call(name, arguments, command.piped, command.pipes, bool(command.redirects), open_ended)
    if command.nested and name in ("curl", "wget"):
        return Blocked("uses what it downloads as part of a command")
    if name in SHELLS:
        return _judge_shell(call, command, depth)
    if name == "find":
        return _judge_find(call, command, depth)
    if wrapper := WRAPPERS.get(name):
        return _judge_wrapped(name, wrapper, command, arguments, depth, open_ended=open_ended)
    if verdict := rate_known(call) or rate_interpreter(call):
        return verdict
    is_read = is_plain_read(name, arguments) and "/" not in head.text and not open_ended
    return Rated(Level.LOW) if is_read else _ORDINARY


def _judge_wrapped(
    name: str, wrapper: Wrapper, command: SimpleCommand, words: tuple[Word, ...], depth: int, *, open_ended: bool
) -> Verdict:
    skipped = 0
    verdicts: list[Verdict] = [_ORDINARY]
    while words:
        text = words[0].text
        if text == "--":
            words = words[1:]
            break
        if name == "env" and text.startswith(("-S", "--split-string", "-vS")):
            return worst(
                (
                    Rated(Level.HIGH, "splits a text into a command"),
                    _classify(" ".join(w.text for w in words), depth + 1),
                )
            )
        if name == "flock" and text in ("-c", "--command"):
            return worst((_ORDINARY, _classify_word(words[1:2], depth + 1)))
        if text in wrapper.valued:
            words = words[2:]
        elif text.startswith("-") and text != "-":
            if not wrapper.flags.fullmatch(text):
                return worst((Rated(Level.HIGH, f"uses {name} in a way that is not known"), *verdicts))
            words = words[1:]
        elif wrapper.flags.fullmatch(text):
            words = words[1:]
        elif name == "env" and _ASSIGNMENT.match(text):
            assigned, words = _take_assignments(words)
            verdicts += assigned
        elif skipped < wrapper.operands:
            skipped += 1
            words = words[1:]
        else:
            break
    if words:
        feeds = open_ended or name in FEEDS_ARGUMENTS
        verdicts.append(_judge_words(command, words, depth + 1, open_ended=feeds))
    return worst(verdicts)


def _judge_shell(call: Call, command: SimpleCommand, depth: int) -> Verdict:
    if call.piped and not call.open_ended:
        return Blocked("runs text from a pipe in a shell")
    if any(word.substitutes and re.search(r"\b(?:curl|wget)\b", word.text) for word in call.arguments):
        return Blocked("runs what it downloads")
    fed = [redirect for redirect in command.redirects if redirect.operator.startswith("<")]
    bodies = [_classify(redirect.body or redirect.target.text, depth + 1) for redirect in fed]
    floor = Rated(Level.HIGH, "runs text a shell reads from its input") if fed or call.open_ended else _ORDINARY
    words = call.arguments
    while words and words[0].text[:1] in ("-", "+") and words[0].text != "-":
        text = words[0].text
        if words[0].expands or text.startswith(("--rc", "--init")):
            return worst((*bodies, Rated(Level.HIGH, "starts a shell in a way that is not known")))
        words = words[1:]
        if re.fullmatch(r"[-+](?=[a-zA-Z]*c)[a-zA-Z]+", text):
            while words and words[0].text[:1] in ("-", "+"):
                words = words[1:]
            return worst((*bodies, floor, _classify_word(words[:1], depth + 1)))
        if re.fullmatch(r"[-+][a-zA-Z]*[oO]", text):
            words = words[1:]
    if not words or words[0].expands or words[0].text == "-" or words[0].text.startswith("/dev/"):
        floor = Rated(Level.HIGH, "runs text a shell reads from its input")
    return worst((*bodies, floor))


def _classify_word(words: Sequence[Word], depth: int) -> Verdict:
    """The verdict on a script given as one word."""
    if not words:
        return _ORDINARY
    inner = _classify(words[0].text, depth)
    return (
        worst((_ORDINARY, Rated(Level.HIGH, "computes the script it runs"), inner))
        if words[0].expands
        else worst((_ORDINARY, inner))
    )


def _judge_find(call: Call, command: SimpleCommand, depth: int) -> Verdict:
    verdicts: list[Verdict] = []
    rest = list(call.arguments)
    while rest:
        text = rest.pop(0).text
        if text in _EXECUTING:
            end = next((at for at in range(len(rest)) if _ends_execution(rest, at)), len(rest))
            inner, rest = tuple(rest[:end]), rest[end + 1 :]
            verdicts.append(_ORDINARY)
            if inner:
                verdicts.append(_judge_words(command, inner, depth + 1, open_ended=True))
        elif text.startswith(_WRITING):
            verdicts.append(Rated(Level.HIGH, "deletes or writes the files it finds"))
    if verdicts:
        return worst(verdicts)
    if any(word.expands for word in call.arguments):
        return Rated(Level.HIGH, "searches with arguments not known before")
    return Rated(Level.LOW) if is_plain_read("find", call.arguments) and not call.open_ended else _ORDINARY


def _ends_execution(words: Sequence[Word], at: int) -> bool:
    """Whether the command that `find` runs ends here: a plus sign does so only behind braces."""
    return words[at].text == ";" or (words[at].text == "+" and at > 0 and words[at - 1].text == "{}")


def _with_spread_pipes(commands: Sequence[SimpleCommand]) -> Iterator[SimpleCommand]:
    """The commands, where a bare shell in an `if` or loop that a pipe feeds is marked as fed itself."""
    depth = 0
    fed: int | None = None
    for command in commands:
        words = command.words
        while words and words[0].text in _RESERVED | _LISTS:
            if words[0].text in _OPENING:
                fed = depth if fed is None and command.piped else fed
                depth += 1
            words = words[1:]
        is_bare = all(word.text.startswith("-") for word in words[1:])
        yield replace(command, piped=True) if fed is not None and is_bare else command
        if words and words[0].text in _ENDS:
            depth -= 1
            fed = None if fed is not None and depth <= fed else fed


def _is_fork_bomb(script: str) -> bool:
    """Whether a function is defined that pipes itself into itself in the background."""
    tokens = _TOKEN.findall(script)
    fours = [tuple(tokens[at : at + 4]) for at in range(len(tokens))]
    defined = {four[0] for four in fours if four[1:] == ("(", ")", "{")}
    return any(four[0] in defined and four[1:] == ("|", four[0], "&") for four in fours)


def _is_plain(char: str) -> bool:
    """Whether a character is what it looks like: no control or format character, no space but the common one."""
    return " " <= char <= "~" or char in "\n\t" or unicodedata.category(char) not in _UNSEEN


def _unreadable(script: str) -> Verdict:
    """The verdict on what cannot be taken apart: asked for, unless its text alone shows that it is never run."""
    never = Blocked("holds a command that is never run") if _NEVER_IN_TEXT.search(script.lower()) else None
    return _forbidden(script) or never or _UNREADABLE


def _forbidden(text: str) -> Blocked | None:
    folded = text.lower()
    return next((Blocked(why) for pattern, why in FORBIDDEN_TEXT if pattern.search(folded)), None)


def _texts(commands: Sequence[SimpleCommand]) -> Iterator[str]:
    """The words of each command in one line, then where it reads and writes, and what is written to it."""
    for command in commands:
        yield " ".join(word.text for word in command.words)
        for redirect in command.redirects:
            yield redirect.body or redirect.target.text
