"""Passages: how a document is cut up, and which words of a question are looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

CHUNK_WORDS = 800
_OVERLAP_WORDS = CHUNK_WORDS * 15 // 100
_LEAST_WORDS = 50
_MOST_QUERY_WORDS = 32


def chunk_text(body: str) -> Iterator[str]:
    """Passages of 800 words, each beginning with the last 120 of the one before; a short rest joins the last one.

    The passages keep the line breaks of the text.
    """
    words = [match.span() for match in re.finditer(r"\S+", body)]
    start = 0
    while start < len(words):
        end = start + CHUNK_WORDS
        if len(words) - end < _LEAST_WORDS:
            end = len(words)
        yield body[words[start][0] : words[end - 1][1]]
        if end == len(words):
            return
        start = end - _OVERLAP_WORDS


def query_words(query: str) -> tuple[str, ...]:
    """The distinct words of `query`, at most 32. Punctuation and operators in it mean nothing."""
    words = dict.fromkeys(re.findall(r"\w+", query.casefold().replace("_", " ")))
    return tuple(words)[:_MOST_QUERY_WORDS]


def any_of(words: Sequence[str]) -> str:
    """An FTS5 expression that finds any of these words; empty if there are none."""
    return " OR ".join(f'"{word}"' for word in words)


def match_expression(query: str) -> str:
    """`query` as an FTS5 expression that finds any of its words; empty if it has none."""
    return any_of(query_words(query))


def affordable(passages: Mapping[str, int], most: int) -> tuple[str, ...]:
    """The words worth ranking by: the rarest one, and the next rarer ones while all together lie in `most` passages.

    `passages` tells in how many each word lies. The words keep the order of the query. What lies nearly everywhere adds
    next to nothing to a rank (its inverse document frequency is near zero), but costs a look at each of its passages.
    """
    chosen: set[str] = set()
    total = 0
    for word in sorted(passages, key=lambda word: passages[word]):
        total += passages[word]
        if chosen and total > most:
            break
        if passages[word]:
            chosen.add(word)
    return tuple(word for word in passages if word in chosen)
