from __future__ import annotations

import re
from pathlib import Path

from agent.model.tool_call import ToolCall
from agent.tools.execute import Prepared, ToolExecutor
from agent.tools.rates import RateWindows
from agent.tools.registry import LocalToolsFor, ToolRegistry
from tests.support.fake_clock import FakeClock
from tests.support.tool_context import PlainSafety, make_context

PAGE = Path(__file__).parents[4] / "docs" / "write-a-tool.md"


async def test_the_tool_of_the_documentation_runs_as_it_is_printed() -> None:
    found = re.search(r"```python\n(\"\"\".*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    module: dict[str, object] = {"__name__": "dice"}
    exec(compile(found[1].replace("from __future__ import annotations", ""), str(PAGE), "exec"), module)
    tool = module["RollDice"]
    assert isinstance(tool, type)
    executor = ToolExecutor(
        ToolRegistry([tool()]), PlainSafety(), RateWindows(FakeClock()), None, LocalToolsFor.OPERATOR, 100_000
    )

    prepared = await executor.prepare(ToolCall("c1", "roll_dice", {"sides": "2"}), make_context())
    assert isinstance(prepared, Prepared)
    output = await executor.run(prepared, make_context())

    assert output.text in {"1", "2"}
