"""Which part of an answer may be shown while it is still being written."""

from __future__ import annotations

import re

from agent.safety.leak_detector import REDACTED, LeakDetector
from agent.safety.views import INVISIBLE

# Read backwards: the end of a text that could still grow into a key. No blank ends it; a line end might not.
_OPEN_END = re.compile(rf"(?:[\x21-\x7e{INVISIBLE}]|[ \t]*(?:\n\r?|\r))*")
_REACH = 256  # characters before the open end that a finding may begin in, such as the name of a header
_TAIL = 16_384  # no secret is longer than this


class StreamGate:
    """Holds back the end of a growing text, so that no part of a secret is ever shown.

    Once a secret is complete the gate stays shut behind it: the finished answer shows the rest, redacted.
    """

    def __init__(self, detector: LeakDetector) -> None:
        self._detector = detector
        self._reach = max(_REACH, detector.longest_irregular)
        self._text = ""
        self._cleared = 0
        self.found = False

    def feed(self, text: str) -> str:
        """What may be shown of `text`, the whole answer so far. A text that does not continue the last starts anew."""
        if not text.startswith(self._text):
            self._cleared = 0
            self.found = False
        elif self.found:
            return self._shown()
        self._text = text
        start = _break_before(text, self._cleared - self._reach)
        secrets = self._detector.scan(text[start:]).secrets
        if secrets:
            self._cleared = min(self._limit(text), start + secrets[0].start)
            self.found = True
            return self._shown()
        self._cleared = max(self._cleared, self._limit(text))
        return self._shown()

    def _limit(self, text: str) -> int:
        end = _OPEN_END.match(text[: -_TAIL - 1 : -1])
        return max(0, len(text) - (end.end() if end else 0) - self._detector.longest_irregular)

    def _shown(self) -> str:
        shown = self._text[: self._cleared]
        return f"{shown}{REDACTED}" if self.found else shown


def _break_before(text: str, position: int) -> int:
    """A place at or before `position` that lies in no word, or else some way before it."""
    earliest = max(0, position - _REACH)
    return max(text.rfind(" ", earliest, max(position, 0)) + 1, earliest)
