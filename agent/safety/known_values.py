"""The process's own secrets, recognised in a text also where they are coded."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

from agent.safety.views import without_gaps

MIN_LENGTH = 8  # shorter values would mask ordinary words


class SecretValues:
    """Configured tokens and keys of at least `MIN_LENGTH` characters, with their base64, hexadecimal, URL, JSON, Python
    and HTML forms."""

    def __init__(self, values: Iterable[str]) -> None:
        kept = {value.strip() for value in values}
        kept = {value for value in kept if len(value) >= MIN_LENGTH}
        forms = {form for value in kept for form in _forms(value)}
        forms |= {joined for form in forms if len(joined := without_gaps(form)) >= MIN_LENGTH}
        # Longest first: a match of the longest form covers those inside it.
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        irregular = (form for form in kept if not all("!" <= c <= "~" for c in form))
        self.longest_irregular = max(map(len, irregular), default=0)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where `text` holds one of the values."""
        for form in self._forms:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + 1)


def _forms(value: str) -> Iterator[str]:
    data = value.encode()
    yield value
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)
    yield escape(value)
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield data.hex()
    yield data.hex().upper()
    for shift in range(3):
        coded = _inner_base64(data, shift)
        if len(coded) >= MIN_LENGTH:
            yield coded
            yield coded.replace("+", "-").replace("/", "_")


def _inner_base64(data: bytes, shift: int) -> str:
    """What of a longer text's base64 form depends on `data` alone, if `data` starts `shift` bytes into a group."""
    coded = base64.b64encode(bytes(shift) + data).decode().rstrip("=")
    end = (shift + len(data)) * 8 // 6  # the character after this one mixes in what follows
    return coded[-(-shift * 8 // 6) : end]
