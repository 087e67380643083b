"""What the page on hooks tells people to write works as it is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from agent.hooks.base import InboundEvent, Passed, PassedCall, Point, ResponseEvent, Stopped, ToolEvent
from agent.hooks.bundles import read_bundle
from agent.hooks.entries import RuleEntry, WebhookEntry
from agent.hooks.runner import HookRunner
from agent.model.ids import UserId
from tests.docs.pages import ROOT, as_module, blocks, code_words, table_rows
from tests.support.fake_clock import FakeClock

PAGE = ROOT / "docs" / "write-a-hook.md"
ANN = UserId("telegram:5")


def printed(language: str) -> str:
    return next(block.text for block in blocks(PAGE) if block.language == language)


async def no_post(url: str, headers: Mapping[str, str], payload: Mapping[str, object]) -> int:
    raise AssertionError("nothing is posted here")


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    with as_module(printed("python"), "documented_hooks", tmp_path) as found:
        yield found


async def test_documented_file_is_taken_as_it_stands_and_does_what_the_page_says() -> None:
    found = read_bundle("hooks.json", json.loads(printed("json")), no_post, FakeClock())
    runner = HookRunner()
    runner.replace_source("hooks.json", found.hooks)

    assert found.faults == ()
    assert len(found.hooks) == 3
    refused = await runner.inbound(InboundEvent(ANN, "telegram", "4111111111111111", "t1"))
    assert refused == Stopped("Please do not send card numbers.")
    masked = await runner.response(ResponseEvent(ANN, "t1", "ask ann@corp.example"))
    assert masked == Passed("ask ann@[hidden]")
    assert await runner.before_tool(ToolEvent("message", {"to": "ann@corp.example"}, ANN, "chat")) == PassedCall(
        {"to": "ann@[hidden]"}
    )


async def test_documented_python_hooks_run(module: ModuleType) -> None:
    runner = HookRunner()
    runner.register(module.POLITE)
    runner.register_tool_hooks(module.GUARD)

    assert await runner.response(ResponseEvent(ANN, "t1", "damn it")) == Passed("**** it")
    assert await runner.response(ResponseEvent(ANN, "t1", "well")) == Passed("well")
    assert await runner.before_tool(ToolEvent("shell", {"command": "rm -r x"}, ANN, "chat")) == Stopped(
        "Nothing is deleted here."
    )
    assert await runner.before_tool(ToolEvent("shell", {"command": "ls"}, ANN, "chat")) == PassedCall()
    runner.register(module.NIGHT)
    assert await runner.inbound(InboundEvent(ANN, "telegram", "hi", "t1")) in (
        Passed("hi"),
        Stopped("The bot sleeps until 6 o'clock UTC."),
    )


def test_page_names_every_point_and_every_key_of_an_entry() -> None:
    words = set(code_words(PAGE))
    keys = {word.strip("` ") for row in table_rows(PAGE.read_text("utf-8")) for word in row[0].split(",")}

    assert {point.value for point in Point} <= words
    assert {*RuleEntry.model_fields, *WebhookEntry.model_fields} <= keys
