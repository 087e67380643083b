from __future__ import annotations

from pathlib import Path

import pytest

from agent.commands.skills import USAGE, reply
from tests.support.skills import Home, skill_text


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.put(home.own, "git-help", skill_text("git-help", more=["description: 'Git **and**\n\n more'", "version: 2"]))
    home.put(home.installed, "cook", skill_text("cook", activation=("keywords: [pasta]",)))
    home.put(home.own, "broken", "nothing")
    return home


async def say(home: Home, *args: str, is_told_faults: bool = True) -> str:
    return await reply(home.shelf(), args, is_told_faults=is_told_faults)


async def test_without_words_all_skills_are_listed_with_what_was_passed_over(home: Home) -> None:
    assert (await say(home)).splitlines() == [
        "**Skills**",
        "",
        "- git-help 2 (TRUSTED): Git   and   more",
        "- cook 0.0.0 (INSTALLED)",
        "",
        "**Passed over**",
        "",
        "- skills/broken: the file does not begin with a line of ---",
    ]
    assert "broken" not in await say(home, is_told_faults=False)


async def test_a_search_lists_what_it_finds(home: Home) -> None:
    assert "cook" in await say(home, "SEARCH", "Pasta", "dishes")
    assert "git-help" not in await say(home, "search", "pasta")
    assert "broken" in await say(home, "search", "broken")
    assert "no registry" in await say(home, "search", "broken", is_told_faults=False)


async def test_installing_and_removing_are_asked_for_in_words(home: Home) -> None:
    assert "in words" in await say(home, "install", "x")
    assert "in words" in await say(home, "remove")


@pytest.mark.parametrize("args", [("search",), ("list",), ("frobnicate", "x")])
async def test_other_words_are_answered_with_the_usage(home: Home, args: tuple[str, ...]) -> None:
    assert await say(home, *args) == USAGE


async def test_no_skills_are_said_to_be_none(tmp_path: Path) -> None:
    assert await say(Home(tmp_path)) == "There are no skills."
