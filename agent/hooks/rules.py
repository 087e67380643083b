"""Rules: hooks that a file describes. They refuse a text, or change it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from agent.hooks.base import (
    SOURCE_MARK,
    Change,
    Event,
    Go,
    Hook,
    InboundEvent,
    OutboundEvent,
    Outcome,
    Reject,
    ResponseEvent,
    SessionEvent,
    ToolEvent,
)
from agent.hooks.entries import RuleEntry
from agent.hooks.patterns import Pattern, Substitution, compile_pattern, compile_substitution

_SHORT = 4_000  # characters that are looked through in less time than another thread needs to begin


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its patterns compiled."""

    when: Pattern | None
    reject_reason: str | None
    substitutions: tuple[Substitution, ...]
    prepend: str
    append: str

    def apply(self, text: str) -> Outcome:
        """What the rule does to a text. Raises TooManyMatches."""
        if self.when is not None and not self.when.is_in(text):
            return Go()
        if self.reject_reason is not None:
            return Reject(self.reject_reason)
        changed = text
        for substitution in self.substitutions:
            changed = substitution.apply(changed)
        changed = self.prepend + changed + self.append
        return Go() if changed == text else Change(changed)

    async def run(self, event: Event) -> Outcome:
        """The rule as a hook. A long text is looked through in a thread."""
        text = text_of(event)
        return self.apply(text) if len(text) <= _SHORT else await asyncio.to_thread(self.apply, text)


def rule_hook(source: str, entry: RuleEntry) -> Hook:
    """The hook that an entry describes. Raises BadPattern."""
    rule = Rule(
        None if entry.when_regex is None else compile_pattern(entry.when_regex),
        entry.reject_reason,
        tuple(compile_substitution(each.pattern, each.replacement) for each in entry.replacements),
        entry.prepend,
        entry.append,
    )
    timeout = timedelta(milliseconds=entry.timeout_ms)
    return Hook(
        f"{source}{SOURCE_MARK}{entry.name}", entry.points, rule.run, entry.priority, entry.failure_mode, timeout
    )


def text_of(event: Event) -> str:
    """What a rule looks at: the words of a message, or the arguments of a call as JSON."""
    match event:
        case InboundEvent(content=content) | OutboundEvent(content=content) | ResponseEvent(content=content):
            return content
        case ToolEvent(arguments=arguments):
            return json.dumps(dict(arguments), ensure_ascii=False)
        case SessionEvent():
            return ""
        case unreachable:
            assert_never(unreachable)
