"""How much a question asks of a model, from its wording alone. The word lists are English.

Thirteen dimensions of 0 to 100, weighted; dimensions that stand out together count more. The weights sum to 100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

_FULL = 100
_STANDS_OUT = 20
# What follows a text this long changes its score little; the scan of it takes some milliseconds at worst.
_LONGEST_READ = 2000


class Tier(StrEnum):
    """Which kind of model a question is for, from the lightest to the heaviest."""

    FLASH = "flash"
    STANDARD = "standard"
    PRO = "pro"
    FRONTIER = "frontier"


@dataclass(frozen=True, slots=True)
class Sign:
    """A pattern, and the points of each of its matches."""

    points: int
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One thing that makes a question hard. `weight` is in percent."""

    name: str
    weight: int
    signs: tuple[Sign, ...]


def _words(words: str, points: int = 50) -> Sign:
    return Sign(points, re.compile(rf"\b(?:{words})\b"))


# Text is in lower case when it is read.
_DIMENSIONS = (
    Dimension(
        "reasoning words",
        14,
        (
            _words(
                r"why|because|therefore|prove|proof|derive|deduce|infer|reason(?:ing)?|analy[sz]e|analysis|evaluate|"
                r"compare|contrast|trade-?offs?|implications?|justify|root cause|pros and cons"
            ),
        ),
    ),
    Dimension(
        "code",
        10,
        (
            _words(
                r"code|function|class|method|compile|debug|refactor|algorithm|regex|api|sql|python|rust|java(?:script)?|"
                r"typescript|stack ?trace|exception|unit tests?|async|mutex|deadlock|implement"
            ),
            Sign(50, re.compile(r"```|\b(?:def|fn|const|import|select) \w|[;{]\n|\w\(\)")),
        ),
    ),
    Dimension(
        "multi-step",
        10,
        (
            _words(
                r"step by step|steps?|first|second(?:ly)?|then|after (?:that|which)|next|finally|afterwards|"
                r"once (?:done|you have)|plan|roadmap|workflow"
            ),
            Sign(50, re.compile(r"(?:^|\n)\s{0,8}(?:\d{1,3}[.)]|[-*]) ")),
        ),
    ),
    Dimension(
        "domain",
        10,
        (
            _words(
                r"architecture|distributed|kubernetes|database|schema|encryption|cryptograph\w{1,3}|protocol|compiler|"
                r"legal|contract|liability|tax|medical|diagnos[ei]s|clinical|financial|portfolio|statistic\w{1,4}|"
                r"theorem|integral|quantum|genom\w{1,3}|neural|machine learning"
            ),
        ),
    ),
    Dimension(
        "question",
        7,
        (
            Sign(20, re.compile(r"\?")),
            _words(
                r"why|how (?:do|does|can|could|should|would|to)|what if|what (?:are|is) the best|should (?:i|we)", 25
            ),
        ),
    ),
    Dimension(
        "precision",
        6,
        (
            _words(
                r"exact(?:ly)?|precise(?:ly)?|at (?:least|most)|must(?: not)?|no more than|between \d+|only|strictly|"
                r"\d+(?:\.\d+)? ?(?:%|ms|kg|mb|gb|percent|usd|eur)|specification|requirements?"
            ),
        ),
    ),
    Dimension(
        "ambiguity",
        5,
        (_words(r"something|somehow|stuff|things?|maybe|perhaps|some kind of|sort of|whatever|etc|better|nice", 25),),
    ),
    Dimension(
        "creativity",
        7,
        (
            _words(
                r"write (?:me )?(?:a|an)|story|poem|essay|song|lyrics|compose|design|invent|imagine|brainstorm|draft|"
                r"creative|slogan|novel|rewrite|in the style of"
            ),
        ),
    ),
    Dimension(
        "context",
        5,
        (
            _words(
                r"previous(?:ly)?|earlier|above|as (?:before|we discussed)|you said|last time|again|same as|continue|"
                r"our (?:conversation|discussion)|based on (?:that|this)"
            ),
        ),
    ),
    Dimension(
        "tools",
        5,
        (
            _words(
                r"search|look up|browse|download|fetch|files?|folder|directory|run|execute|install|schedule|remind me|"
                r"send|e-?mail|calendar|screenshot"
            ),
            Sign(50, re.compile(r"https?://|(?:^|\s)[~.]?/\w")),
        ),
    ),
    Dimension(
        "clauses",
        5,
        (
            Sign(12, re.compile(r"[,;:]\s")),
            _words(r"and|but|although|whereas|while|unless|which|however|if|since|so that", 12),
        ),
    ),
    Dimension(
        "safety",
        4,
        (
            _words(
                r"passwords?|secrets?|credentials?|private key|tokens?|security|permissions?|delete|drop table|rm -rf|"
                r"production|irreversible|overdose|suicid\w{1,2}|weapons?|malware|exploit"
            ),
        ),
    ),
)
_LENGTH_WEIGHT = 12

_HINT = re.compile(r"\[tier:\s?(flash|standard|pro|frontier)\]", re.IGNORECASE)
_GREETING = re.compile(
    r"(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening|night)|thanks?|thank you|thx|cheers|ok(?:ay)?|bye|goodbye|"
    r"see you|great|cool|nice|got it)(?: (?:there|all|everyone|you|so much|very much|a lot|again|then|bot))?[\s!.,:)]*"
)
_OVERRIDES = (
    (re.compile(r"\bsecurity (?:audit|review)\b|\bvulnerabilit(?:y|ies)\b"), Tier.FRONTIER),
    (re.compile(r"\bdeploy\w{0,5}\b.{0,60}\bprod(?:uction)?\b|\bprod(?:uction)? deploy"), Tier.PRO),
)
_LIMITS = ((15, Tier.FLASH), (40, Tier.STANDARD), (65, Tier.PRO))


def tier_of(text: str) -> Tier:
    """The tier of a person's words: their own `[tier:x]`, else what is plain at first sight, else by the score."""
    if hinted := hinted_tier(text):
        return hinted
    words = text[:_LONGEST_READ].strip().lower()
    if _GREETING.fullmatch(words):
        return Tier.FLASH
    for pattern, tier in _OVERRIDES:
        if pattern.search(words):
            return tier
    points = score(text)
    return next((tier for limit, tier in _LIMITS if points <= limit), Tier.FRONTIER)


def hinted_tier(text: str) -> Tier | None:
    """The tier that a text asks for with `[tier:x]`."""
    hint = _HINT.search(text)
    return Tier(hint[1].lower()) if hint else None


def score(text: str) -> int:
    """How complex a text is, from 0 to 100."""
    points = dimensions(text)
    weighted = sum(weight * value for weight, value in points) / _FULL
    standing_out = sum(value > _STANDS_OUT for _, value in points)
    factor = 1.3 if standing_out >= 3 else 1.15 if standing_out == 2 else 1.0
    return min(_FULL, round(weighted * factor))


def dimensions(text: str) -> tuple[tuple[int, float], ...]:
    """Weight in percent and points from 0 to 100 of each dimension."""
    words = text[:_LONGEST_READ].lower()
    length = min(max((len(text) - 20) / 5, 0.0), float(_FULL))
    return ((_LENGTH_WEIGHT, length), *((each.weight, float(_points(each, words))) for each in _DIMENSIONS))


def _points(dimension: Dimension, words: str) -> int:
    return min(_FULL, sum(_of_sign(dimension, words)))


def _of_sign(dimension: Dimension, words: str) -> Iterator[int]:
    for sign in dimension.signs:
        enough = -(-_FULL // sign.points)
        yield sign.points * sum(1 for _ in islice(sign.pattern.finditer(words), enough))
