"""What a container and the program say to each other, as JSON over HTTP. Both sides validate what they are sent.

GET  /job      -> Brief            once, first
GET  /prompts  -> Prompts          before each step
POST /llm      ModelAsk -> ModelAnswer
POST /events   Event
POST /status   Status              every 5 steps
POST /result   Result              once, last
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, assert_never

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent.jobs.container.limits import MAX_OUTPUT_TOKENS, MOST_MESSAGES, PREVIEW, TOOLS
from agent.llm.base import Completion, FinishReason, ToolDefinition
from agent.llm.messages import AssistantTurn, ChatMessage, ToolResult, UserText
from agent.model.tool_call import JsonValue, ToolCall


def _plain(text: str) -> str:
    return text.replace("\x00", "")


Text = Annotated[str, AfterValidator(_plain)]
Name = Annotated[str, Field(max_length=1000), AfterValidator(_plain)]


class Wire(BaseModel):
    """One value of the protocol. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Brief(Wire):
    """What is to be done, and within which bounds."""

    title: str
    description: str
    system: str
    tools: tuple[str, ...]
    max_iterations: int = Field(ge=1, le=500)
    seconds: float = Field(gt=0)
    zone: str = "UTC"


class Prompts(Wire):
    """What the job's person says meanwhile. `stop`: the job is over, end at once."""

    texts: tuple[str, ...] = ()
    stop: bool = False


class WireCall(Wire):
    """A tool call."""

    id: Name
    name: Name
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    malformed: Text | None = None


class UserMessage(Wire):
    """Words to the model."""

    role: Literal["user"] = "user"
    text: Text


class AssistantMessage(Wire):
    """Words and calls of the model."""

    role: Literal["assistant"] = "assistant"
    text: Text = ""
    calls: tuple[WireCall, ...] = Field(default=(), max_length=100)


class ToolMessage(Wire):
    """The result of a call."""

    role: Literal["tool"] = "tool"
    call_id: Name
    name: Name
    text: Text
    is_error: bool = False


WireMessage = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class WireTool(Wire):
    """A tool as the model is told of it."""

    name: Name
    description: Annotated[str, Field(max_length=5000)]
    parameters: dict[str, JsonValue]


class ModelAsk(Wire):
    """A model call that the program is to make. Model, price and key are not the container's matter."""

    messages: tuple[WireMessage, ...] = Field(min_length=1, max_length=MOST_MESSAGES)
    tools: tuple[WireTool, ...] = Field(default=(), max_length=len(TOOLS))
    max_tokens: int = Field(default=MAX_OUTPUT_TOKENS, ge=1)
    temperature: float = Field(default=0.7, ge=0, le=2)


class ModelAnswer(Wire):
    """What the model said."""

    text: str
    finish: FinishReason
    calls: tuple[WireCall, ...] = ()


class Event(Wire):
    """One thing that happened in the container."""

    kind: Literal["message", "tool_use", "tool_result", "status"]
    text: Text = ""
    tool: Annotated[str, Field(max_length=200), AfterValidator(_plain)] = ""
    is_error: bool = False


class Status(Wire):
    """A sign of life."""

    iteration: int = Field(ge=0, le=1_000_000)
    message: Annotated[str, Field(max_length=PREVIEW)] = ""


class Result(Wire):
    """How it ended. `text` is the result, or why there is none."""

    success: bool
    text: Text = ""


def to_wire(message: ChatMessage) -> UserMessage | AssistantMessage | ToolMessage:
    """A message as it is sent."""
    match message:
        case UserText(text=text):
            return UserMessage(text=text)
        case AssistantTurn(text=text, calls=calls):
            return AssistantMessage(text=text, calls=calls_to_wire(calls))
        case ToolResult(call_id=call_id, name=name, text=text, is_error=is_error):
            return ToolMessage(call_id=call_id, name=name, text=text, is_error=is_error)
        case unreachable:
            assert_never(unreachable)


def from_wire(message: WireMessage) -> ChatMessage:
    """The message that was sent."""
    match message:
        case UserMessage(text=text):
            return UserText(text)
        case AssistantMessage(text=text, calls=calls):
            return AssistantTurn(text, calls_from_wire(calls))
        case ToolMessage(call_id=call_id, name=name, text=text, is_error=is_error):
            return ToolResult(call_id, name, text, is_error)
        case unreachable:
            assert_never(unreachable)


def calls_to_wire(calls: Sequence[ToolCall]) -> tuple[WireCall, ...]:
    """Calls as they are sent."""
    return tuple(
        WireCall(id=call.id, name=call.name, arguments=dict(call.arguments), malformed=call.malformed) for call in calls
    )


def calls_from_wire(calls: Sequence[WireCall]) -> tuple[ToolCall, ...]:
    """The calls that were sent."""
    return tuple(ToolCall(call.id, call.name, call.arguments, call.malformed) for call in calls)


def tool_to_wire(tool: ToolDefinition) -> WireTool:
    """A tool as it is sent."""
    return WireTool(name=tool.name, description=tool.description, parameters=dict(tool.parameters))


def answer_of(completion: Completion) -> ModelAnswer:
    """A model's answer as it is sent: without what it cost."""
    return ModelAnswer(text=completion.text, finish=completion.finish, calls=calls_to_wire(completion.calls))


def completion_of(answer: ModelAnswer) -> Completion:
    """The answer that was sent."""
    return Completion(text=answer.text, finish=answer.finish, calls=calls_from_wire(answer.calls))
