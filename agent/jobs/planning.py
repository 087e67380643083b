"""The plan that a job may begin with: asked for as JSON, kept in its conversation, carried out call by call. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.llm.base import CompletionRequest, ToolDefinition
from agent.llm.messages import AssistantTurn, ChatMessage, UserText
from agent.model.tool_call import ToolCall

MOST_ACTIONS = 20
_MAX_TOKENS = 2048
_TEMPERATURE = 0.3
_CALL = "plan_"
_NOTE = "[system note] Your plan for this job, whose calls are made one after the other:\n"
CHECK = (
    "[system note] The calls of your plan have been made. If the job is complete, say so and give its result; "
    "else go on with it."
)
_ASK = """Plan this job. Reply with one JSON object and nothing else:
{{"goal": "...", "actions": [{{"tool_name": "...", "parameters": {{}}, "reasoning": "...", "expected_outcome": \
"..."}}], "confidence": 0.0}}
Use these tools only, at most {most} actions; if nothing can be planned ahead, or no tool is needed, give no actions.

{tools}"""


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    tool_name: str = Field(min_length=1, max_length=100)
    parameters: dict[str, object] = Field(default_factory=dict)
    reasoning: str = ""


class _Plan(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    goal: str = ""
    actions: list[_Action]


@dataclass(frozen=True, slots=True)
class Action:
    """One call of a plan, and why the model wants it."""

    tool: str
    arguments: dict[str, object]
    reasoning: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in order; never empty."""

    goal: str
    actions: tuple[Action, ...]


def plan_request(system: str, job: Sequence[ChatMessage], tools: Sequence[ToolDefinition]) -> CompletionRequest:
    """The model call that asks for a plan."""
    listed = "\n".join(f"- {tool.name}: {tool.description} {json.dumps(dict(tool.parameters))}" for tool in tools)
    ask = UserText(_ASK.format(most=MOST_ACTIONS, tools=listed))
    return CompletionRequest(system=system, messages=(*job, ask), max_tokens=_MAX_TOKENS, temperature=_TEMPERATURE)


def parse_plan(text: str) -> Plan | None:
    """The plan in a model's answer, alone or in a code block; None where there is none to carry out."""
    block = re.search(r"```(?:json)?\s*+(.*?)```", text, re.DOTALL)
    raw = (block[1] if block else text).strip()
    start, end = raw.find("{"), raw.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        found = _Plan.model_validate(json.loads(raw[start : end + 1]))
    except (ValueError, ValidationError, RecursionError):
        return None
    actions = tuple(Action(each.tool_name, each.parameters, each.reasoning) for each in found.actions[:MOST_ACTIONS])
    return Plan(found.goal, actions) if actions else None


def plan_note(plan: Plan) -> UserText:
    """The plan as it stands in the job's conversation, from which a later run reads it again."""
    actions = [
        {"tool_name": each.tool, "parameters": each.arguments, "reasoning": each.reasoning} for each in plan.actions
    ]
    return UserText(_NOTE + json.dumps({"goal": plan.goal, "actions": actions}, ensure_ascii=False))


def next_action(added: Sequence[ChatMessage]) -> ChatMessage | None:
    """What comes next by the plan that a turn holds: its next call, then the question whether all is done; else None.

    A person's word, or anything of the model's own, in between abandons the plan.
    """
    plan, start = _noted(added)
    if plan is None:
        return None
    made = 0
    for message in added[start:]:
        match message:
            case AssistantTurn(calls=(ToolCall(id=identifier),)) if identifier == f"{_CALL}{made + 1}":
                made += 1
            case AssistantTurn() | UserText():
                return None
            case _:
                pass
    if made == len(plan.actions):
        return UserText(CHECK)
    action = plan.actions[made]
    return AssistantTurn(action.reasoning, (ToolCall(f"{_CALL}{made + 1}", action.tool, action.arguments),))


def _noted(added: Sequence[ChatMessage]) -> tuple[Plan | None, int]:
    """The plan near the beginning of a turn, and where what follows it begins."""
    for index, message in enumerate(added[:3]):
        if isinstance(message, UserText) and message.text.startswith(_NOTE):
            return parse_plan(message.text[len(_NOTE) :]), index + 1
    return None, 0
