"""The one door between the outside and the agent: what comes in, what tools get and return, what is shown."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog

from agent.model.tool_call import JsonValue
from agent.safety.known_values import SecretValues
from agent.safety.leak_detector import REDACTED, LeakDetector, redact_spans
from agent.safety.markers import NewMarkerId, wrap_external_content, wrap_tool_output
from agent.safety.policy import PolicyAction, violations
from agent.safety.sanitizer import sanitize
from agent.safety.stream_gate import StreamGate
from agent.safety.validator import MAX_DEPTH, TooDeep, strings_in, validate_text

log = structlog.get_logger(__name__)

MAX_OUTPUT_BYTES = 100_000
_MARGIN = 4_096  # no secret we know of is longer

_SECRET_REFUSAL = (
    "Your message looks as if it holds a key, token or password, so I did not pass it on. "
    "Nothing of it was kept. Please treat the secret as seen by this chat and consider replacing it. To give me a "
    "credential, ask me to connect the service: I then ask for the key and keep it encrypted. For anything else, send "
    "the message again without the secret."
)
BLOCKED_OUTPUT = "[output withheld: it holds what looks like a secret key or token]"
"""What stands in place of an output that is withheld as a whole."""
_ALREADY_FAILED = re.compile(r"\s*(?:tool '|error\b|failed\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InputAccepted:
    """A person's text may be stored and answered."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputRefused:
    """A person's text must not be stored. `reason` is the reply to them and never repeats what they wrote."""

    reason: str
    is_secret: bool = False


class SafetyLayer:
    """Every check of content, over one detector that knows the process's own secrets."""

    def __init__(
        self,
        known_secrets: Iterable[str] = (),
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        *,
        injection_check: bool = True,
        new_marker_id: NewMarkerId = lambda: secrets.token_hex(8),
    ) -> None:
        self._detector = LeakDetector(SecretValues(known_secrets))
        self._max_output_bytes = max_output_bytes
        self._injection_check = injection_check
        self._new_marker_id = new_marker_id

    def screen_input(self, text: str) -> InputAccepted | InputRefused:
        """Whether a person's message may be taken: validator, then secrets. A message without text may be empty."""
        validation = validate_text(text, may_be_empty=True)
        if validation.errors:
            return InputRefused("I cannot take this message: it " + ", and it ".join(validation.errors) + ".")
        if found := self._detector.scan(text).secrets:
            log.warning("inbound_secret_refused", rules=_names(finding.rule for finding in found))
            return InputRefused(_SECRET_REFUSAL, is_secret=True)
        return InputAccepted((*validation.warnings, *(rule.reason for rule in violations(text))))

    def check_arguments(self, tool_name: str, arguments: Mapping[str, JsonValue]) -> str | None:
        """Why a tool may not be called with these arguments, or None. Looks at every string at any depth."""
        for item in strings_in(arguments):
            if isinstance(item, TooDeep):
                return f"Tool {tool_name!r} was not run: its arguments are nested too deeply."
            path, text = item
            if errors := validate_text(text, may_be_empty=True).errors:
                return f"Tool {tool_name!r} was not run: argument {path!r} {errors[0]}."
            for rule in violations(text):
                if rule.action is PolicyAction.BLOCK:
                    log.warning("tool_arguments_refused", tool=tool_name, rule=rule.name)
                    return f"Tool {tool_name!r} was not run: argument {path!r} is refused because {rule.reason}."
        return None

    def clean_output(self, tool_name: str, text: str) -> str:
        """What the model may read of a tool's output: cut, searched for secrets, then for instructions."""
        shown, beyond = split_at_bytes(text, self._max_output_bytes)
        # A secret that the cut goes through is looked for whole, so that no half of it stays.
        scan = self._detector.scan(shown + beyond[:_MARGIN])
        if scan.findings:
            log.warning("tool_output_secret", tool=tool_name, rules=_names(finding.rule for finding in scan.findings))
        if scan.blocks:
            return BLOCKED_OUTPUT
        notice = f"\n[cut: the first {self._max_output_bytes} bytes are shown]" if beyond else ""
        spans = (
            (finding.start, min(finding.end, len(shown))) for finding in scan.secrets if finding.start < len(shown)
        )
        text = redact_spans(shown, spans) + notice
        broken = violations(text)
        forced = any(rule.action is not PolicyAction.WARN for rule in broken)
        if broken:
            log.info("tool_output_policy", tool=tool_name, rules=_names(rule.name for rule in broken))
        if not (self._injection_check or forced):
            return text
        sanitized = sanitize(text)
        if sanitized.warnings:
            log.info("tool_output_suspicious", tool=tool_name, count=len(sanitized.warnings), changed=sanitized.changed)
        return sanitized.text

    def wrap_output(self, tool_name: str, text: str, *, is_error: bool = False) -> str:
        """A cleaned output as the element the model reads. An error says so in its first words."""
        if is_error and not _ALREADY_FAILED.match(text):
            text = f"Tool '{tool_name}' failed: {text}"
        return wrap_tool_output(tool_name, text, self._new_marker_id())

    def wrap_external(self, source: str, text: str) -> str:
        """Text of a webhook, a page or a mail, marked as data."""
        return wrap_external_content(source, text, self._new_marker_id())

    def hide_secrets(self, text: str) -> str:
        """`text` fit to be shown, stored or logged: each secret is replaced, the rest unchanged."""
        return self._detector.redact(text)

    def contains_secret(self, text: str) -> bool:
        """Whether `hide_secrets` would change `text`."""
        return bool(self._detector.scan(text).secrets)

    def redact_arguments(self, sensitive: frozenset[str], arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """A copy of `arguments` to show and store: sensitive names masked whole, secrets in any string masked.

        What is nested deeper than any tool takes is masked whole too.
        """
        return {
            self.hide_secrets(name): REDACTED if name in sensitive else self._redact_value(value, MAX_DEPTH)
            for name, value in arguments.items()
        }

    def stream_gate(self) -> StreamGate:
        """A gate for one answer while it is written."""
        return StreamGate(self._detector)

    def _redact_value(self, value: JsonValue, depth: int) -> JsonValue:
        match value:
            case str():
                return self.hide_secrets(value)
            case Mapping() | list() | tuple() if depth == 0:
                return REDACTED
            case Mapping():
                return {self.hide_secrets(str(key)): self._redact_value(item, depth - 1) for key, item in value.items()}
            case list() | tuple():
                return [self._redact_value(item, depth - 1) for item in value]
            case _:
                return value


def split_at_bytes(text: str, limit: int) -> tuple[str, str]:
    """The head of `text` in at most `limit` bytes of UTF-8, whole characters only, and the rest."""
    if len(text) * 4 <= limit:
        return text, ""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text, ""
    head = data[:limit].decode(errors="ignore")
    return head, text[len(head) :]


def _names(names: Iterable[str]) -> list[str]:
    return sorted(set(names))
