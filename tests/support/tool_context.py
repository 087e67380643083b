"""Short ways to run tools in tests."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID
from zoneinfo import ZoneInfo

from agent.model.ids import OPERATOR, ThreadId, UserId
from agent.model.tool_call import JsonValue
from agent.tools.base import ToolContext
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope
from channels.message import Address
from tests.support.builders import NOON


def make_context(
    scope: Scope | None = None, *, is_operator: bool | None = None, user: str | None = None, zone: str = "UTC"
) -> ToolContext:
    """The context of a call: the operator in private, unless a scope says otherwise."""
    scope = scope or OperatorScope()
    operator = isinstance(scope, OperatorScope) if is_operator is None else is_operator
    match scope:
        case GroupScope(channel=channel, chat_id=chat):
            pass
        case PersonScope(channel=channel, user_id=chat):
            pass
        case _:
            channel, chat = "telegram", "1"
    return ToolContext(
        user=UserId(user) if user else OPERATOR if operator else UserId(f"{channel}:{chat}"),
        is_operator=operator,
        is_shared=isinstance(scope, GroupScope),
        scope=scope,
        address=Address(channel=channel, chat_id=chat),
        thread=ThreadId(UUID(int=1)),
        turn=UUID(int=2),
        call_id="call_1",
        zone=ZoneInfo(zone),
        now=NOON,
    )


class PlainSafety:
    """A safety layer that marks what passed it. Arguments that hold the word `refuses` are not let through."""

    def __init__(self, refuses: str = "forbidden") -> None:
        self._refuses = refuses

    def check_arguments(self, tool_name: str, arguments: Mapping[str, JsonValue]) -> str | None:
        return "refused by safety" if self._refuses in str(arguments) else None

    def redact_arguments(self, sensitive: frozenset[str], arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        return {name: "[REDACTED]" if name in sensitive else value for name, value in arguments.items()}

    def clean_output(self, tool_name: str, text: str) -> str:
        return f"clean({text})"

    def hide_secrets(self, text: str) -> str:
        return text

    def wrap_output(self, tool_name: str, text: str, *, is_error: bool = False) -> str:
        return f"<{tool_name}{' failed' if is_error else ''}>{text}</{tool_name}>"
