"""The architecture page draws the borders that are enforced."""

from __future__ import annotations

import tomllib

from tests.docs.pages import ROOT, blocks

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]


def test_layers_of_the_page_are_those_the_linter_enforces() -> None:
    drawn = [block.text.split("\n")[:-1] for block in blocks(ROOT / "docs" / "architecture.md") if not block.language]
    enforced = [[layer.strip("()") for layer in each["layers"]] for each in CONTRACTS if each["type"] == "layers"]

    assert drawn == enforced


def test_page_stays_short() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")

    assert len(page.splitlines()) <= 350
