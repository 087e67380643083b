from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.skills.folders import MOST_SKILLS
from agent.skills.shelf import SkillLimits, SkillShelf, means_of_this_machine
from agent.skills.skill import Skill, Trust
from tests.support.skills import Home, skill_text

COMMIT = ("keywords: [commit]",)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def names(shelf: SkillShelf) -> list[str]:
    return [skill.name for skill in await shelf.list()]


def reasons(shelf: SkillShelf) -> dict[str, str]:
    return {fault.where: fault.reason for fault in shelf.faults}


async def test_nothing_is_found_where_there_are_no_folders(home: Home) -> None:
    shelf = home.shelf()

    assert await names(shelf) == []
    assert await shelf.select("/anything") == ()
    assert shelf.faults == ()


async def test_folders_are_searched_in_order_and_trusted_by_where_they_are(home: Home) -> None:
    home.put(home.installed, "c")
    home.put(home.own, "b")
    home.put(home.workspace, "z")
    home.put(home.workspace, "y")
    (home.own / "SKILL.md").write_text(skill_text("flat"))

    skills = await home.shelf().list()

    assert [(skill.name, skill.trust) for skill in skills] == [
        ("y", Trust.TRUSTED),
        ("z", Trust.TRUSTED),
        ("flat", Trust.TRUSTED),
        ("b", Trust.TRUSTED),
        ("c", Trust.INSTALLED),
    ]


async def test_of_two_skills_with_one_name_the_first_counts(home: Home) -> None:
    home.put(home.installed, "other-folder", skill_text("GIT", body="theirs"))
    home.put(home.own, "git", skill_text("git", body="mine"))
    shelf = home.shelf()

    assert [skill.body for skill in await shelf.list()] == ["mine"]
    assert reasons(shelf) == {"installed-skills/other-folder": "another skill of this name comes first"}


async def test_an_edit_by_hand_a_new_skill_and_a_removed_one_count_at_the_next_question(home: Home) -> None:
    path = home.put(home.own, "a")
    shelf = home.shelf()
    assert await names(shelf) == ["a"]

    path.write_text(skill_text("a", body="Edited words."))
    assert [skill.body for skill in await shelf.list()] == ["Edited words."]
    home.put(home.workspace, "b")
    assert await names(shelf) == ["b", "a"]
    path.unlink()
    assert await names(shelf) == ["b"]


async def test_skills_are_not_read_again_while_nothing_changes(home: Home) -> None:
    home.put(home.own, "a")
    shelf = home.shelf()

    assert (await shelf.list())[0] is (await shelf.list())[0]


async def test_a_faulty_skill_is_passed_over_alone_and_logged_once(home: Home) -> None:
    home.put(home.own, "good")
    home.put(home.own, "bad", "no front matter")
    home.put(home.own, "huge", skill_text("huge", body="x" * 70_000))
    (home.own / "empty").mkdir()
    shelf = home.shelf()

    with capture_logs() as logs:
        assert await names(shelf) == ["good"]
        assert await names(shelf) == ["good"]
        home.put(home.own, "new")
        await shelf.list()

    assert set(reasons(shelf)) == {"skills/bad", "skills/huge", "skills/empty"}
    assert sorted(log["where"] for log in logs if log["event"] == "skill_skipped") == [
        "skills/bad",
        "skills/empty",
        "skills/huge",
    ]


async def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    outside = home.put(tmp_path / "outside", "a")
    home.own.mkdir()
    (home.own / "linked-folder").symlink_to(outside.parent)
    (home.own / "linked-file").mkdir()
    (home.own / "linked-file/SKILL.md").symlink_to(outside)
    home.workspace.parent.mkdir()
    home.workspace.symlink_to(outside.parent.parent)
    shelf = home.shelf()

    assert await names(shelf) == []
    assert set(reasons(shelf)) == {"skills/linked-folder", "skills/linked-file"}


async def test_a_pipe_in_place_of_a_file_holds_nothing_up(home: Home) -> None:
    home.put(home.own, "a").unlink()
    os.mkfifo(home.own / "a/SKILL.md")

    assert await names(home.shelf()) == []


async def test_a_folder_gives_a_hundred_skills_at_most(home: Home) -> None:
    for number in range(MOST_SKILLS + 2):
        home.put(home.own, f"s{number:03}")
    shelf = home.shelf()

    assert len(await shelf.list()) == MOST_SKILLS
    assert "100" in reasons(shelf)["skills"]


async def test_a_skill_whose_needs_are_not_met_is_passed_over_with_what_it_lacks(home: Home) -> None:
    more = ("requires:", "  bins: [git]", "  env: [TOKEN]", "  config: [SETTING]")
    home.put(home.own, "needy", skill_text("needy", more=more))
    lacking = home.shelf("git")

    assert await names(lacking) == []
    assert reasons(lacking) == {"skills/needy": "it needs the environment variable TOKEN, the setting SETTING"}
    assert await names(home.shelf("git", "TOKEN", "SETTING")) == ["needy"]


def test_programs_and_variables_of_this_machine_are_found() -> None:
    means = means_of_this_machine(lambda name: name == "SET")

    assert means.has_program("sh")
    assert not means.has_program("no-such-program-at-all")
    assert means.has_variable("PATH")
    assert not means.has_variable("NO_SUCH_VARIABLE_AT_ALL")
    assert means.has_setting("SET")


async def test_a_message_takes_what_it_calls_for_within_the_limits(home: Home) -> None:
    home.put(home.own, "a", skill_text("a", activation=COMMIT))
    home.put(home.own, "b", skill_text("b", activation=COMMIT))
    home.put(home.own, "c", skill_text("c"))
    shelf = home.shelf(limits=SkillLimits(max_active=2, max_tokens=9000))

    async def chosen(text: str) -> list[str]:
        return [skill.name for skill in await shelf.select(text)]

    assert await chosen("commit it") == ["a", "b"]
    assert await chosen("/C commit it") == ["c", "a"]
    assert await chosen("hello") == []


async def test_a_search_finds_usable_and_faulty_ones_best_first(home: Home) -> None:
    home.put(home.own, "git-help", skill_text("git-help", activation=("keywords: [commit, rebase]",)))
    home.put(home.own, "commit", skill_text("commit"))
    home.put(home.own, "broken-commit", "nothing")

    found = await home.shelf().search("Rebase commit")

    assert [(each.name, isinstance(each, Skill)) for each in found] == [
        ("git-help", True),
        ("commit", True),
        ("broken-commit", False),
    ]
    assert await home.shelf().search("  ") == ()


async def test_preparing_makes_the_folders_for_the_owner_alone(home: Home) -> None:
    await home.shelf().prepare()

    assert [folder.stat().st_mode & 0o777 for folder in (home.workspace, home.own, home.installed)] == [0o700] * 3


async def test_a_folder_that_cannot_be_made_takes_no_other_down(home: Home) -> None:
    home.put(home.own, "a")
    home.workspace.parent.write_text("a file in place of the workspace")
    shelf = home.shelf()

    await shelf.prepare()

    assert await names(shelf) == ["a"]


async def test_a_pattern_that_was_left_out_is_logged_once(home: Home) -> None:
    home.put(home.own, "a", skill_text("a", activation=("patterns: ['(']",)))
    shelf = home.shelf()

    with capture_logs() as logs:
        await shelf.list()
        home.put(home.own, "b")
        await shelf.list()

    assert [log["skill"] for log in logs if log["event"] == "skill_part_left_out"] == ["a"]


def test_a_look_at_a_hundred_unchanged_skills_is_cheap(home: Home) -> None:
    for number in range(100):
        keywords = ", ".join(f"word{number}x{each}" for each in range(20))
        home.put(home.own, f"s{number}", skill_text(f"s{number}", activation=(f"keywords: [{keywords}]",)))
    shelf = home.shelf()
    shelf.look()

    began = time.process_time()
    for _ in range(20):
        shelf.look()

    # Ten times what it takes on a slow machine: a second reading of the files would take longer.
    assert (time.process_time() - began) / 20 < 0.01
