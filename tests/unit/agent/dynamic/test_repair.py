from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.dynamic.bench import fault_kind
from agent.dynamic.blueprint import Blueprint
from agent.dynamic.errors import ToolsUnavailable
from agent.dynamic.folder import Built
from agent.dynamic.repair import NotRebuilt, Rebuilt, ToolBuilder, notice, read_script
from agent.llm.base import Completion, FinishReason
from tests.support.builders import NOON
from tests.support.built_tools import ADD_UP, make_blueprint
from tests.support.scripted_llm import ScriptedLLM, ScriptStep, say

BETTER = say(f"```python\n{ADD_UP}# better\n```")


class Library:
    """One built tool, on a disk that may refuse."""

    def __init__(self, *, is_full: bool = False, changes: bool = False) -> None:
        self._is_full = is_full
        self._changes = changes
        self.proposed: list[str] = []

    def faults(self, name: str) -> Sequence[str]:
        return ()

    async def switch_off(self, name: str) -> Built | None:
        return Built(make_blueprint(), 1, NOON) if name == "add_up" else None

    async def propose(self, built: Built, code: str) -> bool:
        if self._is_full:
            raise ToolsUnavailable("No space left on device")
        self.proposed.append(code)
        return not self._changes


class Trial:
    """Examples whose outcome a test says."""

    def __init__(self, fault: str | None = None) -> None:
        self._fault = fault

    async def failing_example(self, blueprint: Blueprint) -> str | None:
        return self._fault


def builder(library: Library, *steps: ScriptStep, fault: str | None = None) -> tuple[ToolBuilder, ScriptedLLM]:
    llm = ScriptedLLM(steps)
    return ToolBuilder(library, Trial(fault), llm, lambda text: "hunter2" in text), llm


async def test_lines_that_differ_are_counted_for_the_operator() -> None:
    repair, _ = builder(Library(), BETTER)

    result = await repair.rebuild("add_up")

    assert result == Rebuilt("add_up", 1, 0)
    assert "1 lines added, 0 taken out" in notice(result)


@pytest.mark.parametrize(
    ("library", "step", "reason"),
    [
        (Library(is_full=True), BETTER, "its folder could not be written"),
        (Library(changes=True), BETTER, "it was changed meanwhile"),
        (Library(), TimeoutError(), "it took too long"),
    ],
)
async def test_what_keeps_a_repair_from_its_end_is_told(library: Library, step: ScriptStep, reason: str) -> None:
    repair, _ = builder(library, step)

    assert await repair.rebuild("add_up") == NotRebuilt("add_up", reason)


async def test_an_answer_that_was_cut_off_is_no_script() -> None:
    cut = Completion(text=f"```python\n{ADD_UP}\n```", finish=FinishReason.LENGTH)
    repair, llm = builder(Library(), cut, BETTER)

    assert isinstance(await repair.rebuild("add_up"), Rebuilt)
    assert "no whole script" in str(llm.requests[1].messages[-1])


async def test_output_of_an_example_that_looks_like_a_secret_is_not_sent_to_the_model() -> None:
    repair, llm = builder(Library(), BETTER, BETTER, fault="example 1: it broke.\nhunter2")

    assert isinstance(await repair.rebuild("add_up"), NotRebuilt)
    assert "hunter2" not in str(llm.requests)
    assert "an example failed" in str(llm.requests[1].messages[-1])


async def test_tools_that_were_not_built_are_left_alone() -> None:
    repair, llm = builder(Library())

    assert await repair.rebuild("shell") is None
    assert llm.requests == []


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("```python\na = 1\n```", "a = 1\n"),
        ("Here:\n```py\na = 1\n\n\n```\nDone.", "a = 1\n\n\n"),
        ("```\na = 1\n```", "a = 1\n"),
        ("```python\n```", None),
        ("a = 1", None),
        ("```python\na\n```\n```python\nb\n```", None),
        ("```python\na = 1", None),
    ],
)
def test_a_script_is_the_one_block_of_an_answer(text: str, script: str | None) -> None:
    assert read_script(text) == script


@given(st.text(alphabet=st.characters(exclude_characters="`\r"), min_size=1).filter(str.strip))
def test_a_script_in_a_block_is_read_as_it_stands(script: str) -> None:
    assert read_script(f"```python\n{script}\n```") == script + "\n"


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ('  File "/agent/tool.py", line 3, in <module>\nKeyError: \'hunter2\'\n', "KeyError in line 3"),
        ('  File "/agent/tool.py", line 3\n  File "/usr/lib/x.py", line 9\nurllib.error.URLError: x\n',
         "urllib.error.URLError in line 3"),
        ("KeyError: not from a trace", "exit code 1"),
        ("", "exit code 1"),
        ('  File "/agent/tool.py", line 3\nsome words hunter2\n', "exit code 1 in line 3"),
    ],
)  # fmt: skip
def test_kind_of_a_fault_holds_class_and_line_and_nothing_else(output: str, kind: str) -> None:
    assert fault_kind(1, output) == kind


@given(st.text())
def test_any_output_has_a_short_kind(output: str) -> None:
    assert len(fault_kind(1, output)) < 120
