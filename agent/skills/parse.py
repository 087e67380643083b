"""A skill file: YAML between two lines of `---`, then the instructions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from agent.skills.errors import SkillInvalid
from agent.skills.patterns import Pattern, compile_pattern
from agent.skills.skill import DEFAULT_TOKENS, NAME, Activation, Requires, Skill, Trust, folded

LARGEST_FILE = 64 * 1024
"""Bytes."""
MOST_KEYWORDS = 20
MOST_TAGS = 10
MOST_PATTERNS = 5
SHORTEST_WORD = 3
"""Characters of a keyword or a tag."""

_FENCE = "---"
_DEEPEST = 6
_MOST_EVENTS = 2000  # starts, ends and scalars of YAML
_MOST_TOKENS = 1_000_000
_MOST_REQUIRED = 20
_LONGEST_VERSION = 32
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def parse_skill(text: str | bytes, trust: Trust, folder: str = "") -> Skill:
    """The skill in a file. Raises SkillInvalid with what to correct.

    What is too much or too short of an optional part is left out; a bad expression is too, with a warning.
    """
    head, body = _split(_decoded(text))
    fields = _fields(head)
    warnings: list[str] = []
    return Skill(
        name=_name(fields),
        version=" ".join(_text(fields, "version").split())[:_LONGEST_VERSION] or "0.0.0",
        description=_text(fields, "description").strip(),
        activation=_activation(_section(fields, "activation"), warnings),
        requires=_requires(_section(fields, "requires")),
        body=body,
        sha256=hashlib.sha256(body.encode()).hexdigest(),
        trust=trust,
        folder=folder,
        warnings=tuple(warnings),
    )


def _decoded(text: str | bytes) -> str:
    """The text, with line ends as they are on Unix and without a byte order mark."""
    try:
        data = text if isinstance(text, bytes) else text.encode()
        if len(data) > LARGEST_FILE:
            raise SkillInvalid(f"the file is {len(data):,} bytes; {LARGEST_FILE:,} is the limit")
        decoded = data.decode("utf-8-sig")
    except UnicodeError:
        raise SkillInvalid("the file is not UTF-8 text") from None
    if _CONTROL.search(decoded):
        raise SkillInvalid("the file holds control characters")
    return decoded.replace("\r\n", "\n").replace("\r", "\n")


def _split(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise SkillInvalid("the file does not begin with a line of ---")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise SkillInvalid("the front matter is not closed by a second line of ---")
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        raise SkillInvalid("there are no instructions below the front matter")
    return "\n".join(lines[1:end]), body


def _fields(head: str) -> Mapping[str, object]:
    """The front matter, every scalar as the text it is written as: a version 1.10 stays 1.10."""
    import yaml

    try:
        _refuse_tricks(head)
        loaded: object = yaml.load(head, Loader=yaml.CBaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 2}" if mark is not None else ""
        raise SkillInvalid(f"the front matter is not valid YAML{where}") from None
    except (yaml.YAMLError, UnicodeError):
        raise SkillInvalid("the front matter is not valid YAML") from None
    if not isinstance(loaded, dict):
        raise SkillInvalid("the front matter is not a list of `key: value` lines")
    return loaded


def _refuse_tricks(head: str) -> None:
    """Raise SkillInvalid for what could make a small file large or deep, before anything is built of it."""
    import yaml

    depth = 0
    for count, event in enumerate(yaml.parse(head, Loader=yaml.CBaseLoader)):
        if count > _MOST_EVENTS:
            raise SkillInvalid("the front matter holds too much")
        if getattr(event, "anchor", None) is not None:
            raise SkillInvalid("anchors and aliases (& and *) are not allowed in the front matter")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise SkillInvalid("the front matter is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _name(fields: Mapping[str, object]) -> str:
    name = _text(fields, "name").strip()
    if not NAME.fullmatch(name):
        raise SkillInvalid("`name` must be 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit")
    return name


def _activation(fields: Mapping[str, object], warnings: list[str]) -> Activation:
    return Activation(
        keywords=_words(fields, "keywords", MOST_KEYWORDS, SHORTEST_WORD),
        exclude_keywords=_words(fields, "exclude_keywords", MOST_KEYWORDS, 1),
        tags=_words(fields, "tags", MOST_TAGS, SHORTEST_WORD),
        patterns=_patterns(_texts(fields, "patterns"), warnings),
        max_context_tokens=_tokens(fields),
    )


def _words(fields: Mapping[str, object], key: str, most: int, shortest: int) -> tuple[str, ...]:
    words = (folded(text) for text in _texts(fields, key))
    return tuple(dict.fromkeys(word for word in words if len(word) >= shortest))[:most]


def _patterns(sources: tuple[str, ...], warnings: list[str]) -> tuple[Pattern, ...]:
    compiled = []
    for number, source in enumerate(sources[:MOST_PATTERNS], 1):
        pattern = compile_pattern(source)
        if pattern is None:
            warnings.append(f"pattern {number} is not a valid RE2 expression or too large; it was left out")
        else:
            compiled.append(pattern)
    return tuple(compiled)


def _tokens(fields: Mapping[str, object]) -> int:
    written = _text(fields, "max_context_tokens").strip()
    if not written:
        return DEFAULT_TOKENS
    if not re.fullmatch(r"[0-9]{1,7}", written) or int(written) > _MOST_TOKENS:
        raise SkillInvalid(f"`max_context_tokens` must be a whole number up to {_MOST_TOKENS:,}")
    return int(written)


def _requires(fields: Mapping[str, object]) -> Requires:
    return Requires(*(_names(fields, key) for key in ("bins", "env", "config")))


def _names(fields: Mapping[str, object], key: str) -> tuple[str, ...]:
    names = _texts(fields, key)
    if len(names) > _MOST_REQUIRED or not all(map(_REQUIRED_NAME.fullmatch, names)):
        raise SkillInvalid(f"`requires.{key}` must be a list of at most {_MOST_REQUIRED} plain names")
    return names


def _section(fields: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = fields.get(key, "")
    if value == "":
        return {}
    if not isinstance(value, dict):
        raise SkillInvalid(f"`{key}` must hold `key: value` lines")
    return value


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise SkillInvalid(f"`{key}` must be a text")
    return value


def _texts(fields: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = fields.get(key, "")
    if value == "":
        return ()
    if not isinstance(value, list):
        raise SkillInvalid(f"`{key}` must be a list")
    texts = tuple(item for item in value if isinstance(item, str) and item)
    if len(texts) != len(value):
        raise SkillInvalid(f"`{key}` must be a list of texts")
    return texts
