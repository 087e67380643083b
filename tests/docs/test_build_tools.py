"""The script of the page on built tools does what the page says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.dynamic import bench, blueprint, folder, library
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "build-tools.md"


def run(place: Path, arguments: dict[str, str]) -> tuple[int, str]:
    (script,) = [block.text for block in blocks(PAGE) if block.language == "python"]
    assert blueprint.code_fault(script) is None
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], input=json.dumps(arguments), cwd=place, capture_output=True, text=True
    )
    return done.returncode, done.stdout


def test_script_of_the_page_adds_up_a_column_and_declines_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text("what,euro\ntea,2.5\nbread,4\n")

    assert run(tmp_path, {"path": "costs.csv", "column": "euro"}) == (0, "6.5 in 2 rows\n")
    code, said = run(tmp_path, {"path": "costs.csv", "column": "dollar"})
    assert (code, said) == (bench.DECLINED, "the file could not be added up: KeyError('dollar')\n")


@pytest.mark.parametrize(
    "said",
    [
        f"{blueprint.LARGEST_CODE_BYTES // 1024} KiB, standard library",
        f"1 to {blueprint.MOST_EXAMPLES}: arguments",
        f"{bench.CALL_LIMIT.seconds} seconds for a call, {bench.EXAMPLE_LIMIT.seconds} for an example",
        f"At most {folder.MOST_TOOLS} tools. With more than {library.MOST_COMMON}, none",
    ],
)
def test_numbers_of_the_page_are_those_of_the_program(said: str) -> None:
    assert said in PAGE.read_text("utf-8")
