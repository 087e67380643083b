"""Finds secrets in a text: shapes of keys and known values, also broken by line ends, hidden characters or escapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.safety.known_values import SecretValues
from agent.safety.leak_rules import BEFORE_LENGTH, RULES, Action, LeakRule
from agent.safety.views import views_of

REDACTED = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret: text[start:end]. `preview` is fit for a log."""

    rule: str
    action: Action
    start: int
    end: int
    preview: str


@dataclass(frozen=True, slots=True)
class Scan:
    """All findings of a text, in their order."""

    findings: tuple[Finding, ...]

    @property
    def blocks(self) -> bool:
        """Whether the whole text must be withheld."""
        return any(finding.action is Action.BLOCK for finding in self.findings)

    @property
    def secrets(self) -> tuple[Finding, ...]:
        """The findings that must not be shown; warnings are not among them."""
        return tuple(finding for finding in self.findings if finding.action is not Action.WARN)


class LeakDetector:
    """Scans texts for the shapes of `RULES` and for known values. Holds no state but these."""

    def __init__(self, known: SecretValues | None = None) -> None:
        self._known = known or SecretValues(())

    @property
    def longest_irregular(self) -> int:
        """The length of the longest known value that is not made of visible ASCII characters alone."""
        return self._known.longest_irregular

    def scan(self, text: str) -> Scan:
        """Every secret of `text`. About a millisecond for each 20 kB of clean text."""
        found: list[Finding] = []
        for view in views_of(text):
            rules = RULES if view.text is text else _SECRET_RULES
            found += (
                _finding(text, rule.name, rule.action, *view.origin(start, end))
                for rule, start, end in _shapes(view.text, rules)
            )
            found += (
                _finding(text, "known_value", Action.REDACT, *view.origin(start, end))
                for start, end in self._known.spans(view.text)
            )
        return Scan(tuple(sorted(set(found), key=lambda finding: (finding.start, finding.end, finding.rule))))

    def redact(self, text: str) -> str:
        """`text` with each secret replaced; what a merely suspicious shape covers stays."""
        return redact_spans(text, ((finding.start, finding.end) for finding in self.scan(text).secrets))


def redact_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text` with the spans replaced, overlapping and touching ones by one mark. `spans` are sorted by their start."""
    parts: list[str] = []
    shown = 0
    last_end = -1
    for start, end in spans:
        if start > last_end:
            parts += (text[shown:start], REDACTED)
        last_end = shown = max(shown, end)
    return "".join((*parts, text[shown:]))


def preview(secret: str) -> str:
    """First and last four characters of a long secret; of a short one nothing."""
    return f"{secret[:4]}…{secret[-4:]}" if len(secret) >= 20 else "*" * min(len(secret), 8)


_SECRET_RULES = tuple(rule for rule in RULES if rule.action is not Action.WARN)


def _shapes(text: str, rules: Iterable[LeakRule] = RULES) -> Iterator[tuple[LeakRule, int, int]]:
    folded = text.lower()
    for rule in rules:
        if rule.word not in folded:
            continue
        position = 0
        while match := rule.pattern.search(text, position):
            start, position = match.span()
            if rule.before is not None:
                reach = max(0, start - BEFORE_LENGTH)
                before = rule.before.search(text[reach:start])
                if before is None:
                    position = start + 1  # a longer look-alike must not hide a real one inside it
                    continue
                start = reach + before.start()
            yield rule, start, position


def _finding(text: str, rule: str, action: Action, start: int, end: int) -> Finding:
    return Finding(rule, action, start, end, preview(text[start:end]))
