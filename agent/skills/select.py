"""Which skills a message calls for. Pure and without a model: the same message always gets the same ones."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.skills.skill import NAME, Skill, folded, name_key

MAX_ACTIVE = 3
MAX_TOKENS = 4000

WHOLE_WORD = 10
PART_OF_WORD = 5
MOST_FOR_KEYWORDS = 30
TAG = 3
MOST_FOR_TAGS = 15
PATTERN = 20
MOST_FOR_PATTERNS = 40

MOST_HEARD = 10_000
"""Characters at the front of a message that words are looked for in."""
MOST_MATCHED = 4_000
"""Characters at the front of a message that expressions are matched against."""
_GRAM = 3  # no keyword and no tag is shorter


def score(skill: Skill, message: str) -> int:
    """How much a message calls for a skill; 0: not at all."""
    return _score(skill, _heard(message))


def select_skills(
    skills: Sequence[Skill],
    message: str,
    explicit: Iterable[str] = (),
    *,
    max_active: int = MAX_ACTIVE,
    max_tokens: int = MAX_TOKENS,
) -> tuple[Skill, ...]:
    """The skills for a message: those named in `explicit`, whatever they score, then the others by their score.

    Equal scores stay in load order. One that is too large for what is left of the budget is passed over.
    """
    by_name = {name_key(skill.name): skill for skill in skills}
    named = [by_name[key] for key in dict.fromkeys(map(name_key, explicit)) if key in by_name]
    heard = _heard(message)
    scored = [(_score(skill, heard), skill) for skill in skills if skill not in named]
    wanted = [skill for points, skill in sorted(scored, key=lambda pair: -pair[0]) if points]
    taken: list[Skill] = []
    left = max_tokens
    for skill in (*named, *wanted):
        if len(taken) >= max_active:
            break
        if skill.cost_tokens <= left:
            taken.append(skill)
            left -= skill.cost_tokens
    return tuple(taken)


def named_skill(message: str, skills: Iterable[Skill]) -> str | None:
    """The name of the skill that a message asks for by beginning with `/name`; None if there is none of that name."""
    word = message.lstrip()[:66].split(maxsplit=1)[:1]
    if not word or not word[0].startswith("/") or not NAME.fullmatch(word[0][1:]):
        return None
    key = name_key(word[0][1:])
    return next((skill.name for skill in skills if name_key(skill.name) == key), None)


@dataclass(frozen=True, slots=True)
class _Heard:
    """A message made ready. `grams` holds each run of three characters: what is not in it need not be looked for."""

    text: str
    grams: frozenset[str]
    data: bytes


def _heard(message: str) -> _Heard:
    text = folded(message[:MOST_HEARD])
    grams = frozenset(map("".join, zip(text, text[1:], text[2:], strict=False)))
    return _Heard(text, grams, message[:MOST_MATCHED].encode(errors="replace"))


def _score(skill: Skill, heard: _Heard) -> int:
    activation = skill.activation
    grams = heard.grams
    keywords = [word for word in activation.keywords if word[:_GRAM] in grams and word[-_GRAM:] in grams]
    tags = [tag for tag in activation.tags if tag[:_GRAM] in grams and tag[-_GRAM:] in grams and tag in heard.text]
    if any(word in heard.text for word in activation.exclude_keywords):
        return 0
    of_keywords = sum(_points(word, heard.text) for word in keywords)
    of_patterns = sum(PATTERN for pattern in activation.patterns if pattern.search(heard.data) is not None)
    return (
        min(MOST_FOR_KEYWORDS, of_keywords) + min(MOST_FOR_TAGS, TAG * len(tags)) + min(MOST_FOR_PATTERNS, of_patterns)
    )


def _points(keyword: str, text: str) -> int:
    at = text.find(keyword)
    if at < 0:
        return 0
    while at >= 0:
        end = at + len(keyword)
        if not (at and _is_of_word(text[at - 1])) and not (end < len(text) and _is_of_word(text[end])):
            return WHOLE_WORD
        at = text.find(keyword, at + 1)
    return PART_OF_WORD


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
