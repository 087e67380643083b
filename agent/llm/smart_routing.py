"""Sends easy questions to a cheap model and keeps the good one for the rest."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from enum import Enum, auto
from typing import assert_never

import structlog

from agent.llm.base import Completion, CompletionRequest, LLMProvider, OnText
from agent.llm.clean import clean
from agent.llm.complexity import Tier, hinted_tier, tier_of
from agent.llm.errors import BudgetExceeded, LLMError
from agent.llm.local import spoken
from agent.llm.messages import ToolResult, UserText

log = structlog.get_logger(__name__)

_UNCERTAIN = re.compile(
    r"\b(?:i'?m not sure|i am not sure|(?:don't|do not) know|unable to|cannot|can't|"
    r"beyond my (?:capabilities|ability|abilities)|not able to|(?:don't|do not) have enough|"
    r"need more (?:context|information)|could you (?:clarify|provide more)|not confident)\b"
)


class Route(Enum):
    """Who is asked."""

    CHEAP = auto()
    CASCADE = auto()  # the cheap model, then the primary one if the answer is uncertain
    PRIMARY = auto()


def route_of(request: CompletionRequest) -> Route:
    """Where a request goes. Work with tools or pictures, and a request for a certain model, are the primary's."""
    last = request.messages[-1] if request.messages else None
    # A turn that has used tools may end with a note of ours behind their results.
    uses_tools = bool(request.tools) or any(isinstance(message, ToolResult) for message in request.messages[-2:])
    if request.model is not None or uses_tools or request.pictures or not isinstance(last, UserText):
        return Route.PRIMARY
    # A hint on a line of its own looks like a line of ours: it is read before those are left out.
    match hinted_tier(last.text) or tier_of(spoken(last.text)):
        case Tier.FLASH | Tier.STANDARD:
            return Route.CHEAP
        case Tier.PRO:
            return Route.CASCADE
        case Tier.FRONTIER:
            return Route.PRIMARY
        case unreachable:
            assert_never(unreachable)


def is_uncertain(text: str) -> bool:
    """Whether an answer says nothing, or that its writer does not know."""
    said = clean(text).strip()
    return not said or _UNCERTAIN.search(said.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None


class SmartRoutingProvider:
    """Asks `cheap` where it suffices, else `primary`; the primary answers, too, where the cheap one fails.

    To everybody else it is the primary.
    """

    def __init__(self, primary: LLMProvider, cheap: LLMProvider) -> None:
        self._primary = primary
        self._cheap = cheap

    @property
    def name(self) -> str:
        return self._primary.name

    @property
    def model(self) -> str:
        return self._primary.model

    @property
    def context_limit(self) -> int | None:
        return self._primary.context_limit

    @property
    def supports_tools(self) -> bool:
        return self._primary.supports_tools

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        """Answer `request`. An answer that may yet be rejected is heard by `on_text` only once it is accepted."""
        match route_of(request):
            case Route.PRIMARY:
                accepted = None
            case Route.CHEAP:
                accepted = await self._try_cheap(request, on_text)
                if accepted is None and on_text is not None:
                    on_text("")
            case Route.CASCADE:
                accepted = await self._try_cheap(request, None)
                if accepted is not None and is_uncertain(accepted.text):
                    accepted = None
                if accepted is not None and on_text is not None:
                    on_text(accepted.text)
            case unreachable:
                assert_never(unreachable)
        return accepted if accepted is not None else await self._primary.complete(request, on_text)

    async def list_models(self) -> tuple[str, ...]:
        return await self._primary.list_models()

    async def warm_up(self) -> None:
        """Load the primary; the cheap model loads when it is needed."""
        await self._primary.warm_up()

    async def close(self) -> None:
        """Close both, each whatever becomes of the other."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._primary.close)
            stack.push_async_callback(self._cheap.close)

    async def _try_cheap(self, request: CompletionRequest, on_text: OnText | None) -> Completion | None:
        try:
            return await self._cheap.complete(request, on_text)
        except BudgetExceeded:
            raise
        except LLMError as error:
            log.warning(
                "cheap_model_failed",
                provider=self._cheap.name,
                model=self._cheap.model,
                fault=type(error).__name__,
                detail=error.detail,
            )
            return None
