"""The skill that the how-to page prints is one, and is used as the page says."""

from __future__ import annotations

from agent.skills.parse import parse_skill
from agent.skills.select import named_skill, score
from agent.skills.skill import Skill, Trust
from tests.docs.pages import ROOT, blocks


def printed() -> Skill:
    page = ROOT / "docs" / "write-a-skill.md"
    return parse_skill(next(block.text for block in blocks(page) if block.language == "markdown"), Trust.TRUSTED)


def test_documented_skill_loads_whole() -> None:
    skill = printed()

    assert skill.name == "release-notes"
    assert skill.warnings == ()
    assert skill.requires.bins == ("git",)
    assert len(skill.activation.patterns) == 1


def test_documented_skill_is_called_for_by_the_messages_that_the_page_names() -> None:
    skill = printed()

    assert score(skill, "draft the release notes for 2.1") > 0
    assert score(skill, "What changed since v2.0?") > 0
    assert score(skill, "a press release and release notes") == 0
    assert named_skill("/release-notes for 2.1, please", [skill]) == "release-notes"
