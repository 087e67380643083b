"""The loop inside a container, with everybody outside played by the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from agent.jobs.container.delegate import NO_WORDS, ContainerDelegate
from agent.jobs.container.protocol import Event, Prompts, Status
from agent.llm.base import Completion, CompletionRequest
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.loop.agentic_loop import Exhausted, Failed, Finish, Responded, Stopped, run_agentic_loop
from agent.loop.context import ReasoningContext
from agent.model.tool_call import ToolCall
from bot.container_worker import executor_of, result_of
from tests.support.scripted_llm import ScriptedLLM, call, calls, say


@dataclass
class Outside:
    """Plays the program."""

    llm: ScriptedLLM
    given: list[Prompts] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)

    async def prompts(self) -> Prompts:
        return self.given.pop(0) if self.given else Prompts()

    async def ask_model(self, request: CompletionRequest) -> Completion:
        return await self.llm.complete(request)

    async def tell(self, event: Event) -> None:
        self.events.append(event)

    async def report(self, status: Status) -> None:
        self.statuses.append(status)


async def run(folder: Path, outside: Outside, *, iterations: int = 50) -> Finish:
    executor, registry, context = executor_of(folder, ZoneInfo("UTC"))
    start = ReasoningContext("system", registry.offered_to(executor.audience(context)), (), (UserText("Job: count"),))
    return await run_agentic_loop(ContainerDelegate(outside, executor, context), start, max_iterations=iterations)


async def test_status_is_told_every_five_steps(tmp_path: Path) -> None:
    outside = Outside(ScriptedLLM([call("echo", id=f"c{n}", message="x") for n in range(12)]))
    finish = await run(tmp_path, outside, iterations=12)
    assert finish.outcome == Exhausted(12)
    assert [status.iteration for status in outside.statuses] == [1, 6, 11]
    result = result_of(finish)
    assert result is not None
    assert not result.success


async def test_tools_run_one_after_the_other_in_the_order_asked_for(tmp_path: Path) -> None:
    wanted = (
        ToolCall("a", "write_file", {"path": "x.txt", "content": "one"}),
        ToolCall("b", "read_file", {"path": "x.txt"}),
        ToolCall("c", "apply_patch", {"path": "x.txt", "old_string": "one", "new_string": "two"}),
        ToolCall("d", "shell", {"command": "cat x.txt"}),
        ToolCall("e", "memory_search", {"query": "x"}),
    )
    outside = Outside(ScriptedLLM([calls(*wanted), say("All done.")]))
    await run(tmp_path, outside)
    results = [message for message in outside.llm.requests[1].messages if isinstance(message, ToolResult)]
    assert [result.is_error for result in results] == [False, False, False, False, True]
    assert "two" in results[3].text
    kinds = [(event.kind, event.tool) for event in outside.events]
    assert kinds[:4] == [
        *(("tool_use", "write_file"), ("tool_result", "write_file")),
        *(("tool_use", "read_file"), ("tool_result", "read_file")),
    ]  # fmt: skip


async def test_previews_are_short(tmp_path: Path) -> None:
    outside = Outside(ScriptedLLM([call("echo", message="x" * 5000), say("All done.")]))
    await run(tmp_path, outside)
    assert [len(event.text) for event in outside.events] == [500, 500]


async def test_completion_phrase_ends_it_and_other_words_do_not(tmp_path: Path) -> None:
    outside = Outside(ScriptedLLM([say("I look at the hills."), say("The job is complete: 42.")]))
    finish = await run(tmp_path, outside)
    assert finish.outcome == Responded("The job is complete: 42.")
    assert [event.text for event in outside.events] == ["I look at the hills."]
    assert isinstance(outside.llm.requests[1].messages[-1], UserText)


async def test_no_request_ends_with_words_of_the_model(tmp_path: Path) -> None:
    outside = Outside(ScriptedLLM([say("One."), say("Two."), say(""), say("All done.")]))
    await run(tmp_path, outside)
    assert not any(isinstance(request.messages[-1], AssistantTurn) for request in outside.llm.requests)


async def test_silence_after_words_is_the_end_and_silence_alone_a_failure(tmp_path: Path) -> None:
    spoken = Outside(ScriptedLLM([say("There are 42."), say("")]))
    assert (await run(tmp_path, spoken)).outcome == Responded("There are 42.")
    silent = Outside(ScriptedLLM([say(""), say(""), say("")]))
    assert (await run(tmp_path, silent)).outcome == Failed(NO_WORDS)
    assert silent.llm.requests[2].tools == ()


async def test_a_stop_ends_it_without_a_result(tmp_path: Path) -> None:
    outside = Outside(ScriptedLLM(), given=[Prompts(stop=True)])
    finish = await run(tmp_path, outside)
    assert finish.outcome == Stopped()
    assert result_of(finish) is None


async def test_all_that_is_said_to_it_joins(tmp_path: Path) -> None:
    outside = Outside(ScriptedLLM([say("All done.")]), given=[Prompts(texts=("one", " ", "two"))])
    await run(tmp_path, outside)
    assert outside.llm.requests[0].messages[-1] == UserText("one\n\ntwo")
