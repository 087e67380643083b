"""Looks for a cure of a built tool that keeps breaking: a new script, tried out, that waits until a person accepts it.

What a model writes unattended is never put in use by itself: it would run with the consent that was given to another
script. So the tool stays switched off, and the operator is told what to do.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import unified_diff
from typing import Protocol, assert_never

import structlog

from agent.dynamic.blueprint import Blueprint, code_fault
from agent.dynamic.errors import BuildError
from agent.dynamic.folder import Built
from agent.llm.base import Completion, CompletionRequest, FinishReason
from agent.llm.clean import clean
from agent.llm.errors import BudgetExceeded, LLMError
from agent.llm.messages import AssistantTurn, ChatMessage, UserText

log = structlog.get_logger(__name__)

TRIES = 2
LIMIT = timedelta(minutes=4)
MAX_TOKENS = 8_192
LARGEST_REBUILT_BYTES = 16 * 1024
"""A script that may not come back whole within `MAX_TOKENS` is left to a person."""

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_SYSTEM = """You repair one Python script. It is run as `python3 -I`, reads one JSON object of arguments from standard
input, and prints its answer. It has the standard library alone, and the files of the working folder{files}.
Exit code 2 means that it declines what was asked, with the reason printed; any other code but 0 counts as a fault.
Reply with the whole corrected script in one ```python block and nothing else. Change as little as you can."""


class Model(Protocol):
    """Where the new script comes from. Calls are metered."""

    async def complete(self, request: CompletionRequest) -> Completion: ...


class Trial(Protocol):
    """Runs a tool's examples."""

    async def failing_example(self, blueprint: Blueprint) -> str | None: ...


class Library(Protocol):
    """The built tools."""

    def faults(self, name: str) -> Sequence[str]: ...

    async def switch_off(self, name: str) -> Built | None: ...

    async def propose(self, built: Built, code: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A script that passes the tool's examples waits for a person. The lines that differ from the old one."""

    name: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class NotRebuilt:
    """There is no new script. `reason` follows "because"."""

    name: str
    reason: str


class ToolBuilder:
    """The self-repair of built tools."""

    def __init__(self, library: Library, trial: Trial, llm: Model, contains_secret: Callable[[str], bool]) -> None:
        self._library = library
        self._trial = trial
        self._llm = llm
        self._contains_secret = contains_secret

    async def rebuild(self, name: str) -> Rebuilt | NotRebuilt | None:
        """Switch a broken tool off and look for a cure; None if it was not built here. Takes minutes at most."""
        try:
            built = await self._library.switch_off(name)
            if built is None:
                return None
            async with asyncio.timeout(LIMIT.total_seconds()):
                result = await self._rebuild(built)
        except TimeoutError:
            result = NotRebuilt(name, "it took too long")
        except BuildError:
            result = NotRebuilt(name, "its folder could not be written")
        except BudgetExceeded:
            result = NotRebuilt(name, "the budget for the language model is used up for now")
        except LLMError as error:
            log.warning("tool_repair_failed", tool=name, error=type(error).__name__, detail=error.detail)
            result = NotRebuilt(name, "the language model did not answer")
        log.info("tool_repair_ended", tool=name, is_rebuilt=isinstance(result, Rebuilt))
        return result

    async def _rebuild(self, built: Built) -> Rebuilt | NotRebuilt:
        blueprint = built.blueprint
        if len(blueprint.code.encode()) > LARGEST_REBUILT_BYTES:
            return NotRebuilt(blueprint.name, "its script is too long to be rewritten unattended")
        messages: list[ChatMessage] = [UserText(_question(blueprint, self._library.faults(blueprint.name)))]
        for _ in range(TRIES):
            completion = await self._llm.complete(_request(blueprint, messages))
            code = None if completion.finish is FinishReason.LENGTH else read_script(clean(completion.text))
            fault = "the reply held no whole script in one block." if code is None else await self._fault(built, code)
            if code is not None and fault is None:
                if not await self._library.propose(built, code):
                    return NotRebuilt(blueprint.name, "it was changed meanwhile")
                return Rebuilt(blueprint.name, *_changed_lines(blueprint.code, code))
            messages += [AssistantTurn(f"```python\n{code or ''}\n```"), UserText(f"That does not do: {fault}")]
        return NotRebuilt(blueprint.name, "no new script passed its examples")

    async def _fault(self, built: Built, code: str) -> str | None:
        """Why a script will not do. What goes back to the model was printed by the examples alone."""
        if (fault := await asyncio.to_thread(code_fault, code)) is not None:
            return fault
        if code.strip() == built.blueprint.code.strip():
            return "it is the script that breaks."
        if await asyncio.to_thread(self._contains_secret, code):
            return "it holds what looks like a key or password."
        fault = await self._trial.failing_example(replace(built.blueprint, code=code))
        is_unfit = fault is not None and await asyncio.to_thread(self._contains_secret, fault)
        return "an example failed." if is_unfit else fault


def notice(result: Rebuilt | NotRebuilt) -> str:
    """What the operator is told, after the news that the tool was taken away."""
    match result:
        case Rebuilt(name=name, added=added, removed=removed):
            return (
                f"The tool {name}, which was built here, stays switched off. A corrected script passes its examples "
                f"({added} lines added, {removed} taken out) and waits for you: ask me to read it with tool_source and "
                "to build the tool again with it. You are shown the whole script before it counts."
            )
        case NotRebuilt(name=name, reason=reason):
            return (
                f"The tool {name}, which was built here, stays switched off. I found no correction because {reason}. "
                "Ask me to build it again, or remove it with tool_remove."
            )
        case unreachable:
            assert_never(unreachable)


def read_script(text: str) -> str | None:
    """The one script in a model's answer; None if there is none, or several."""
    blocks = _BLOCK.findall(text)
    return blocks[0] + "\n" if len(blocks) == 1 and blocks[0].strip() else None


def _request(blueprint: Blueprint, messages: Sequence[ChatMessage]) -> CompletionRequest:
    files = ", which it may change" if blueprint.writes else ", for reading alone"
    return CompletionRequest(
        system=_SYSTEM.format(files=files),
        messages=tuple(messages),
        max_tokens=MAX_TOKENS,
        temperature=0.2,
        account="tool repair",
        unattended=True,
    )


def _question(blueprint: Blueprint, faults: Sequence[str]) -> str:
    """The tool and how it broke. Neither arguments nor outputs of calls are part of it."""
    examples = "\n".join(
        f"- {json.dumps(dict(each.arguments))} must print {json.dumps(each.expect)}" for each in blueprint.examples
    )
    seen = "\n".join(f"- {kind}" for kind in faults) or "- nothing is known"
    return (
        f"The script of the tool {blueprint.name}: {blueprint.description}\n\n"
        f"Arguments: {json.dumps(dict(blueprint.schema))}\n\nExamples:\n{examples}\n\n"
        f"Its latest faults, oldest first:\n{seen}\n\n```python\n{blueprint.code}\n```"
    )


def _changed_lines(old: str, new: str) -> tuple[int, int]:
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
