"""Built tools in the real sandbox: one that works, and those that try what they may not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from agent.dynamic.bench import Answered, Bench, Broke, Declined, Place, Ran, Unavailable
from agent.dynamic.blueprint import Example
from agent.dynamic.library import ToolLibrary
from agent.dynamic.repair import LARGEST_REBUILT_BYTES, NotRebuilt, Rebuilt, ToolBuilder, notice
from agent.dynamic.tool import Surroundings
from agent.llm.errors import BudgetExceeded, TransientError
from agent.llm.messages import UserText
from agent.model.tool_call import JsonValue, ToolCall
from agent.tools.execute import Prepared, Refusal, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from agent.tools.sandbox import RefusingSandbox
from agent.tools.sandbox_bubblewrap import PROGRAM_PATH
from agent.tools.sandbox_door import find_python
from tests.support.built_tools import ADD_UP, FREE, make_blueprint
from tests.support.fake_clock import FakeClock
from tests.support.sandboxes import bubblewrap, needs_bubblewrap
from tests.support.scripted_llm import ScriptedLLM, say
from tests.support.tool_context import PlainSafety, make_context

PYTHON = find_python(PROGRAM_PATH)
pytestmark = [
    needs_bubblewrap,
    pytest.mark.skipif(PYTHON is None, reason="no Python in /usr: built tools are NOT tested"),
]
LIMIT = timedelta(seconds=20)
BREAKS = ADD_UP.replace("{sum(numbers)}", "{sum(numbers) + [0, 0, 0, 0][len(numbers)]}")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder of whoever asks."""
    place = tmp_path / "home" / "workspace"
    place.mkdir(parents=True)
    (place / "note.txt").write_text("a note\n")
    return place


def bench() -> Bench:
    return Bench(bubblewrap(), PYTHON)


async def run(
    code: str,
    work: Path,
    arguments: Mapping[str, JsonValue] | None = None,
    *,
    writes: bool = False,
    limit: timedelta = LIMIT,
    place: Place | None = None,
) -> Ran:
    return await bench().run(code, arguments or {}, place or Place(work), writes=writes, limit=limit)


async def said(code: str, work: Path, *, writes: bool = False, place: Place | None = None) -> str:
    ran = await run(code, work, writes=writes, place=place)
    assert isinstance(ran, Answered), ran
    return ran.text


# -- scripts


async def test_a_script_gets_its_arguments_and_its_output_is_the_answer(work: Path) -> None:
    assert await run(ADD_UP, work, {"numbers": [1, 2.5]}) == Answered("the sum is 3.5\n")


async def test_arguments_of_any_content_and_length_arrive_whole(work: Path) -> None:
    text = "ä'\"$(rm -rf .)`\n\\\u2028" + "x" * 400_000
    code = "import json, sys; print(len(json.load(sys.stdin)['text']))"

    assert await run(code, work, {"text": text}) == Answered(f"{len(text)}\n")


async def test_a_script_declines_with_exit_code_two_and_breaks_with_any_other(work: Path) -> None:
    assert await run(ADD_UP, work, {"numbers": []}) == Declined("there is nothing to add up\n")
    broke = await run(ADD_UP, work, {"numbers": ["hunter2"]})

    assert isinstance(broke, Broke)
    assert broke.kind == "TypeError in line 8"
    assert await run("import os; os.abort()", work) == Broke("exit code 134", "")


async def test_files_are_read_and_changed_only_by_a_tool_that_says_so(work: Path) -> None:
    code = """
import pathlib
for name in ("note.txt", "new.txt", "users"):
    try:
        pathlib.Path(name).write_text("changed")
    except OSError as error:
        print(name, type(error).__name__)
print(pathlib.Path("note.txt").read_text())
"""
    refused = await said(code, work)
    assert refused.count("OSError") == 3
    assert refused.endswith("a note\n\n")
    assert [each.name for each in work.iterdir()] == ["note.txt"]

    assert "changed" in await said(code, work, writes=True)
    assert (work / "new.txt").read_text() == "changed"


@pytest.mark.parametrize("writes", [False, True])
async def test_folders_of_others_look_empty_and_guarded_ones_stay(work: Path, writes: bool) -> None:
    for name in ("users", "skills"):
        (work / name).mkdir()
        (work / name / "a.txt").write_text("secret")
    place = Place(work, hidden=(work / "users",), readonly_folders=(work / "skills",))
    code = """
import os
print(os.listdir("users"), os.listdir("skills"))
for name in ("users/b.txt", "skills/b.txt", "skills/a.txt"):
    try:
        open(name, "w").write("x")
    except OSError:
        print("refused")
"""

    assert await said(code, work, writes=writes, place=place) == "[] ['a.txt']\nrefused\nrefused\nrefused\n"


async def test_there_is_no_network(work: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        code = f"""
import socket
for address in (("127.0.0.1", {port}), ("192.0.2.1", 80)):
    try:
        socket.create_connection(address, timeout=2)
        print("connected")
    except OSError as error:
        print("refused")
"""
        assert await said(code, work) == "refused\nrefused\n"


async def test_neither_the_home_nor_keys_nor_other_processes_are_seen(work: Path) -> None:
    (work.parent / "config.toml").write_text("canary")
    code = f"""
import os
for path in ("{work.parent}/config.toml", "../config.toml", "/etc/shadow", "/proc/1/environ"):
    try:
        print("canary" in open(path).read())
    except OSError:
        print("False")
print([name for name in os.environ if "KEY" in name])
print(len([name for name in os.listdir("/proc") if name.isdigit()]) < 8)
"""
    assert await said(code, work) == "False\n" * 4 + "[]\nTrue\n"


async def test_a_script_cannot_change_itself_or_what_is_installed(work: Path) -> None:
    code = """
for path in ("/agent/tool.py", "/usr/lib/evil.py", "/evil.py", "/agent/new.py"):
    try:
        open(path, "w").write("print('evil')")
        print("written")
    except OSError:
        print("refused")
"""
    assert await said(code, work, writes=True) == "refused\n" * 4


async def test_nothing_that_lies_in_the_folder_runs_along_with_the_script(work: Path) -> None:
    version = (await said("import sys; print(f'python3.{sys.version_info[1]}')", work)).strip()
    packages = work / ".local" / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    (packages / "evil.pth").write_text("import sys; print('evil')\n")
    (work / "json.py").write_text("print('evil')")

    assert await run(ADD_UP, work, {"numbers": [1]}) == Answered("the sum is 1\n")


async def test_a_script_that_hangs_is_stopped_with_all_it_started(work: Path) -> None:
    code = """
import subprocess, time
print("begun", flush=True)
subprocess.Popen(["sh", "-c", "sleep 3; echo late > late.txt"], start_new_session=True)
time.sleep(600)
"""
    ran = await run(code, work, writes=True, limit=timedelta(seconds=1))

    assert ran == Broke("not done after 1 s", "begun\n")
    assert await said("import time; time.sleep(3); print('over')", work) == "over\n"
    assert not (work / "late.txt").exists()


async def test_a_script_that_forks_without_end_is_held(work: Path) -> None:
    code = """
import os, sys
made = 0
try:
    while made < 5000:
        if os.fork() == 0:
            os.pause() if hasattr(os, "pause") else __import__("time").sleep(600)
        made += 1
except OSError:
    pass
print("held" if made < 5000 else "free", flush=True)
os._exit(0)
"""
    assert await said(code, work) == "held\n"


async def test_a_script_that_prints_a_hundred_megabytes_gives_head_and_tail(work: Path) -> None:
    text = await said("print('first')\nfor _ in range(100): print('x' * 1024 * 1024)\nprint('last')", work)

    assert text.startswith("first\n")
    assert text.endswith("last\n")
    assert len(text) < 40_000


async def test_a_script_that_takes_all_memory_or_disk_breaks_alone(work: Path) -> None:
    memory = await run("x = bytearray(4 * 1024 ** 3)", work)
    disk = await run("f = open('big', 'wb')\nfor _ in range(200): f.write(b'x' * 1024 ** 2)", work, writes=True)

    assert isinstance(memory, Broke)
    assert memory.kind == "MemoryError in line 1"
    assert isinstance(disk, Broke)
    assert (work / "big").stat().st_size <= 64 * 1024**2


async def test_cancelling_a_call_ends_the_script(work: Path) -> None:
    code = "import time\nwhile True: open('beats', 'a').write('.'); time.sleep(0.05)"
    task = asyncio.ensure_future(run(code, work, writes=True))
    async with asyncio.timeout(10):
        while not (work / "beats").exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread((work / "beats").unlink)
    await said("import time; time.sleep(0.5)", work)

    assert not (work / "beats").exists()


async def test_without_sandbox_or_python_nothing_runs(work: Path) -> None:
    code = "open('proof.txt', 'w')"
    refusing = Bench(RefusingSandbox("there is none"), PYTHON)
    without = Bench(bubblewrap(), None)

    assert await refusing.run(code, {}, Place(work), writes=True, limit=LIMIT) == Unavailable("there is none")
    assert isinstance(await without.run(code, {}, Place(work), writes=True, limit=LIMIT), Unavailable)
    assert not (work / "proof.txt").exists()


# -- examples


async def test_examples_that_come_out_as_expected_let_a_tool_pass() -> None:
    examples = (Example({"numbers": [1, 2, 3]}, "the sum is 6"), Example({"numbers": [-1]}, "sum is -1"))

    assert await bench().failing_example(make_blueprint(examples=examples)) is None


@pytest.mark.parametrize(
    ("code", "example", "fault"),
    [
        (ADD_UP, Example({"numbers": [1]}, "the sum is 2"), "the expected text is not in its output.\nthe sum is 1"),
        (ADD_UP, Example({"numbers": []}, "nothing"), "it declined (exit code 2)."),
        ("raise KeyError('x')", Example({"numbers": []}, "x"), "it broke: KeyError in line 1."),
        ("import sys; sys.exit(9)", Example({"numbers": []}, "x"), "it broke: exit code 9.\n(It printed nothing.)"),
    ],
)
async def test_an_example_that_fails_is_named_with_its_output(code: str, example: Example, fault: str) -> None:
    good = Example({"numbers": [1]}, "the sum is 1")
    examples = (good, example) if code == ADD_UP else (example,)
    found = await bench().failing_example(make_blueprint(code, examples=examples))

    assert found is not None
    assert found.startswith(f"example {len(examples)}: {fault}")


async def test_examples_do_not_see_each_others_files() -> None:
    code = "import os; print(os.listdir('.')); open('left.txt', 'w')"
    examples = (Example({}, "[]"), Example({}, "[]"))

    assert await bench().failing_example(make_blueprint(code, parameters=FREE, examples=examples, writes=True)) is None


async def test_output_of_a_failing_example_is_bounded() -> None:
    code = "print('x' * 1000000); raise KeyError('the end')"
    found = await bench().failing_example(make_blueprint(code, parameters=FREE, examples=(Example({}, "y"),)))

    assert found is not None
    assert len(found) < 2_200
    assert "the end" in found


# -- calls through the executor, and repair


class House:
    """A library with a real sandbox, and an executor that counts what breaks."""

    def __init__(self, tmp_path: Path, work: Path, *steps: object) -> None:
        self.registry = ToolRegistry([])
        self.broken: list[str] = []
        self.library = ToolLibrary(
            tmp_path / "home" / "tools",
            self.registry,
            bench(),
            Surroundings(lambda scope: Place(work), asks_hosts=False),
            self._forget,
            FakeClock(),
        )
        self.executor = ToolExecutor(
            self.registry, PlainSafety(), RateWindows(FakeClock()), None, LocalToolsFor.OPERATOR, 100_000, None, self
        )
        self.llm = ScriptedLLM(steps)  # type: ignore[arg-type]  # answers and faults
        self.builder = ToolBuilder(self.library, bench(), self.llm, lambda text: "hunter2" in text)

    async def call(self, *numbers: object) -> str:
        call = ToolCall("c1", "add_up", {"numbers": list(numbers)})
        prepared = await self.executor.prepare(call, make_context())
        if isinstance(prepared, Refusal):
            return prepared.output.text
        assert isinstance(prepared, Prepared)
        return (await self.executor.run(prepared, make_context())).text

    async def broke(self, tool: str) -> None:
        self.broken.append(tool)

    async def worked(self, tool: str) -> None:
        self.broken.clear()

    async def _forget(self, tool: str) -> None:
        return None


async def test_a_call_is_validated_runs_and_counts_as_broken_only_where_the_script_is_at_fault(
    tmp_path: Path, work: Path
) -> None:
    house = House(tmp_path, work)
    await house.library.build(make_blueprint(BREAKS))

    assert await house.call(1, 2, 3) == "the sum is 6\n"
    assert "does not meet" in await house.call("one")
    assert await house.call() == "there is nothing to add up"
    assert house.broken == []
    assert (await house.call(1, 2, 3, 4)).startswith("its script broke: IndexError in line 8.")
    assert house.broken == ["add_up"]
    assert house.library.faults("add_up") == ("IndexError in line 8",)


async def test_a_broken_tool_is_rebuilt_as_a_proposal_that_nobody_runs_unread(tmp_path: Path, work: Path) -> None:
    house = House(tmp_path, work, say(f"Here it is.\n```python\n{ADD_UP}```"))
    await house.library.build(make_blueprint(BREAKS))
    await house.call(1, 2, 3, 4)

    result = await house.builder.rebuild("add_up")

    assert result == Rebuilt("add_up", 1, 1)
    assert "waits for you" in notice(result)
    assert "no tool of this name" in await house.call(1)
    source = await house.library.source("add_up")
    assert source is not None
    assert source.proposal == ADD_UP
    assert source.built.blueprint.code == BREAKS
    request = house.llm.requests[0]
    assert request.unattended
    assert "IndexError in line 8" in str(request.messages)
    assert "Traceback" not in str(request.messages)

    await house.library.build(make_blueprint(source.proposal))
    assert await house.call(1, 2, 3, 4) == "the sum is 10\n"


async def test_a_repair_that_fails_is_tried_once_more_with_the_fault(tmp_path: Path, work: Path) -> None:
    wrong = ADD_UP.replace("the sum is", "it is")
    house = House(tmp_path, work, say(f"```python\n{wrong}\n```"), say(f"```python\n{ADD_UP}\n```"))
    await house.library.build(make_blueprint(BREAKS))

    assert isinstance(await house.builder.rebuild("add_up"), Rebuilt)
    last = house.llm.requests[1].messages[-1]
    assert isinstance(last, UserText)
    assert "example 1: the expected text is not in its output.\nit is 6" in last.text


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((say("I cannot."), say("No.")), "no new script passed its examples"),
        ((say(f"```python\n{BREAKS}\n```"),) * 2, "no new script passed its examples"),
        ((say("```python\nkey = 'hunter2'\n```"),) * 2, "no new script passed its examples"),
        ((say("```\na\n```\n```\nb\n```"),) * 2, "no new script passed its examples"),
        ((TransientError("down"),), "the language model did not answer"),
        ((BudgetExceeded("used up"),), "the budget for the language model is used up for now"),
    ],
)
async def test_without_a_cure_the_tool_stays_off_and_the_reason_is_told(
    tmp_path: Path, work: Path, steps: tuple[object, ...], reason: str
) -> None:
    house = House(tmp_path, work, *steps)
    await house.library.build(make_blueprint(BREAKS))

    result = await house.builder.rebuild("add_up")

    assert result == NotRebuilt("add_up", reason)
    assert reason in notice(result)
    assert house.registry.get("add_up") is None
    source = await house.library.source("add_up")
    assert source is not None
    assert source.proposal is None


async def test_long_scripts_and_tools_that_were_not_built_are_not_sent_to_a_model(tmp_path: Path, work: Path) -> None:
    house = House(tmp_path, work)
    await house.library.build(make_blueprint(ADD_UP + "#" * LARGEST_REBUILT_BYTES))

    assert isinstance(await house.builder.rebuild("add_up"), NotRebuilt)
    assert await house.builder.rebuild("shell") is None
    assert house.llm.requests == []
