"""Commands that only read, and the arguments with which that is certain: these alone run without being asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from agent.tools.builtin.shell_syntax import Word

_MAY_START_WITH_GLOB = frozenset({"ls", "cat", "head", "wc", "grep", "stat", "du", "echo"})

# Options that neither write, nor run something, nor wait for ever. What is not listed is asked for.
_OPTIONS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "ls": r"-[A-Za-z0-9]+|--[a-z-]+(=\w+)?",
        "pwd": r"-[LP]",
        "cat": r"-[A-Za-z]+|--[a-z-]+",
        "head": r"-[ncqvz]*[0-9]*|--(lines|bytes)=-?\d+",
        "tail": r"-[ncqvz]*\+?[0-9]*|--(lines|bytes)=[+-]?\d+",
        "wc": r"-[clmwL]+|--(lines|words|bytes|chars|max-line-length)",
        "grep": r"-[A-Za-z0-9]+|--[a-z-]+(=[\w.*-]+)?",
        "find": (
            r"-(name|iname|path|ipath|regex|iregex|type|size|mtime|mmin|atime|ctime|newer|maxdepth|mindepth|print|print0"
            r"|ls|empty|not|o|a|and|or|prune|depth|perm|user|group|links|readable|writable|executable|[0-9]+\w?)"
        ),
        "file": r"-[bihLkr]+|--(brief|mime|mime-type|mime-encoding)",
        "stat": r"-[cfLt]+|--(format|printf)=[^/]*|--terse",
        "du": r"-[abcDhHklLmsSx0-9d]+|--(max-depth=\d+|summarize|human-readable|all|total|bytes|apparent-size)",
        "sort": r"-[bcdfghiMnrRsuVz]+|-[bdfgiMhnrRVsuz]*k[0-9.,bdfgiMhnrRV]*|-t.?",
        "uniq": r"-[cdDiuz]+|-[fsw][0-9]*|--(count|repeated|unique|ignore-case)",
        "cut": r"-[sz]|-[dfcb][^/]*|--complement|--(fields|delimiter|characters|bytes|output-delimiter)=[^/]*",
        "diff": r"-[uNrqbwiByEacdeZ]+|-[UC][0-9]+|--(brief|unified|recursive|side-by-side|ignore-all-space)",
        "date": r"-u|-I\w*|-R|--(utc|iso-8601|rfc-email)(=\w+)?|--(date|rfc-3339)=[^/]*",
        "whoami": r"(?!)",
        "true": r"(?!)",
        "false": r"(?!)",
    }.items()
}
_OPERANDS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "uniq": lambda operands: len(operands) <= 1,  # a second one is the file it writes
    "date": lambda operands: all(operand.startswith("+") for operand in operands),  # anything else sets the clock
}


def is_plain_read(name: str, arguments: Sequence[Word]) -> bool:
    """Whether the command `name` with these arguments reads files of the working folder and does nothing else."""
    if any(word.expands or _leaves_folder(word.text) for word in arguments):
        return False
    if name not in _MAY_START_WITH_GLOB and any(word.globs and word.text[0] in "*?[" for word in arguments):
        return False
    if name == "echo":
        return True
    options = _OPTIONS.get(name)
    if options is None:
        return False
    texts = [word.text for word in arguments]
    operands = [text for text in texts if not text.startswith("-") or text == "-"]
    if not all(options.fullmatch(text) for text in texts if text.startswith("-") and text not in ("-", "--")):
        return False
    check = _OPERANDS.get(name)
    return check is None or check(operands)


def _leaves_folder(text: str) -> bool:
    # The part after "=" or glued to a short option can be a path too.
    parts = re.split(r"[=,:]", text)
    return (
        ".." in text.split("/")
        or any(part.startswith(("/", "~")) or ".." in part.split("/") for part in parts)
        or (text.startswith("-") and "/" in text)
    )
