"""What jobs and their containers need of each other, without anything that only a container needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from agent.conversation.envelope import Envelope
from agent.jobs.container.wish import ContainerWish
from agent.loop.agentic_loop import Finish, LoopSignal, Step
from agent.loop.context import ReasoningContext
from agent.model.job import Job

Pulse = Callable[[Sequence[str]], Awaitable[object]]
"""A sign of life that counts for as long as calls of these tools may take."""


class Life(Protocol):
    """The job's row and journal while it runs: the delegate of jobs gives it."""

    async def check_signals(self) -> LoopSignal: ...

    async def before_llm_call(self, context: ReasoningContext, iteration: int) -> Step: ...

    async def after_iteration(self, context: ReasoningContext, iteration: int) -> None:
        """Make what the context holds durable."""
        ...


class ContainerWork(Protocol):
    """Works on jobs in containers."""

    async def work(self, wish: ContainerWish, job: Job, envelope: Envelope, life: Life, pulse: Pulse) -> Finish: ...
