from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.dynamic import folder
from agent.dynamic.folder import State, Unreadable
from tests.support.builders import NOON
from tests.support.built_tools import ADD_UP, make_blueprint

CHANGED = ADD_UP + "# second\n"


def files(root: Path) -> set[str]:
    return {each.name for each in (root / "add_up").iterdir()}


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    built = folder.save(tmp_path, make_blueprint(), NOON)

    assert folder.read(tmp_path, "add_up") == built
    assert folder.names(tmp_path) == ("add_up",)
    assert (built.version, built.state) == (1, State.ACTIVE)
    assert folder.read_previous(tmp_path, "add_up") is None


def test_a_new_version_keeps_the_one_before_and_no_older_one(tmp_path: Path) -> None:
    folder.save(tmp_path, make_blueprint(), NOON)
    second = folder.save(tmp_path, make_blueprint(CHANGED), NOON)
    third = folder.save(tmp_path, make_blueprint(), NOON)

    assert folder.read(tmp_path, "add_up") == third
    assert folder.read_previous(tmp_path, "add_up") == second
    assert files(tmp_path) == {"tool.json", "previous.json", "tool-2.py", "tool-3.py"}


def test_script_without_its_record_leaves_the_old_tool_as_a_crash_in_between_would(tmp_path: Path) -> None:
    first = folder.save(tmp_path, make_blueprint(), NOON)
    (tmp_path / "add_up" / "tool-2.py").write_text("half of it")

    assert folder.read(tmp_path, "add_up") == first
    assert folder.save(tmp_path, make_blueprint(CHANGED), NOON).version == 3


@pytest.mark.parametrize("field", ["name", "description", "parameters", "examples", "writes", "version"])
def test_a_record_that_was_changed_is_not_the_approved_tool(tmp_path: Path, field: str) -> None:
    folder.save(tmp_path, make_blueprint(), NOON)
    path = tmp_path / "add_up" / "tool.json"
    record = json.loads(path.read_text())
    record[field] = {"writes": True, "version": 7, "parameters": {}, "examples": []}.get(field, "other")
    path.write_text(json.dumps(record))

    with pytest.raises(Unreadable):
        folder.read(tmp_path, "add_up")


def test_a_script_that_was_changed_replaced_or_taken_away_is_not_the_approved_tool(tmp_path: Path) -> None:
    folder.save(tmp_path, make_blueprint(), NOON)
    script = tmp_path / "add_up" / "tool-1.py"

    script.write_text(ADD_UP + "print('more')")
    with pytest.raises(Unreadable, match="changed since"):
        folder.read(tmp_path, "add_up")
    script.unlink()
    with pytest.raises(Unreadable, match="missing"):
        folder.read(tmp_path, "add_up")
    outside = tmp_path / "outside.py"
    outside.write_text(ADD_UP)
    script.symlink_to(outside)
    with pytest.raises(OSError):  # noqa: PT011 - the system's own words differ
        folder.read(tmp_path, "add_up")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": "add_up"}', "\xff", "[" * 100_000])
def test_a_record_that_is_none_is_unreadable(tmp_path: Path, content: str) -> None:
    folder.save(tmp_path, make_blueprint(), NOON)
    (tmp_path / "add_up" / "tool.json").write_text(content)

    with pytest.raises(Unreadable):
        folder.read(tmp_path, "add_up")
    assert folder.save(tmp_path, make_blueprint(), NOON).version == 2


def test_state_is_kept_and_is_no_part_of_what_was_approved(tmp_path: Path) -> None:
    built = folder.save(tmp_path, make_blueprint(), NOON)
    folder.mark(tmp_path, replace(built, state=State.DISABLED))

    assert folder.read(tmp_path, "add_up") == replace(built, state=State.DISABLED)


def test_a_proposal_waits_until_the_tool_is_built_again(tmp_path: Path) -> None:
    folder.save(tmp_path, make_blueprint(), NOON)
    folder.propose(tmp_path, "add_up", CHANGED)
    assert folder.proposal(tmp_path, "add_up") == CHANGED

    folder.save(tmp_path, make_blueprint(CHANGED), NOON)

    assert folder.proposal(tmp_path, "add_up") is None


def test_removing_leaves_nothing_and_tells_whether_there_was_something(tmp_path: Path) -> None:
    folder.save(tmp_path, make_blueprint(), NOON)

    assert folder.remove(tmp_path, "add_up")
    assert list(tmp_path.iterdir()) == []
    assert not folder.remove(tmp_path, "add_up")


def test_removing_a_link_leaves_what_it_leads_to(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "kept").touch()
    (tmp_path / "add_up").symlink_to(target)

    assert folder.remove(tmp_path, "add_up")
    assert (target / "kept").exists()


def test_folders_of_other_names_are_not_looked_at(tmp_path: Path) -> None:
    for name in ("notes", ".optimclaw-1", "A", "a__b", "x"):
        (tmp_path / name).mkdir()

    assert folder.names(tmp_path) == ("notes",)
    assert folder.names(tmp_path / "missing") == ()
