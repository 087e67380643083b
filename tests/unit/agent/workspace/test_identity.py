from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agent.workspace.identity import Identity, identity_documents, is_blank, is_private
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope
from agent.workspace.seeding import seed
from agent.workspace.workspace import FolderWorkspace
from tests.support.fake_clock import FakeClock

ME = OperatorScope()
ANN = PersonScope("telegram", "5")
GROUP = GroupScope("telegram", "-9", "5")
UTC = ZoneInfo("UTC")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def workspace(tmp_path: Path, clock: FakeClock) -> FolderWorkspace:
    return FolderWorkspace(tmp_path, clock)


@pytest.fixture
def identity(workspace: FolderWorkspace, clock: FakeClock) -> Identity:
    return Identity(workspace, clock)


def test_a_shared_chat_lists_no_persons_documents() -> None:
    """Invariant 1."""
    shared = identity_documents(GroupScope("telegram", "-9"))

    assert shared == ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "MEMORY.md")
    assert identity_documents(GROUP) == (*shared, "people/5.md")
    assert all(
        is_private(name) for name in ("MEMORY.md", "user.md", "daily/2026-01-01.md", "BOOTSTRAP.md", "people/5.md")
    )
    assert not is_private("agents.md")


def test_only_the_operator_in_private_is_given_the_first_run_script() -> None:
    assert identity_documents(ME)[0] == "BOOTSTRAP.md"
    assert "BOOTSTRAP.md" not in identity_documents(ANN)


async def test_documents_stand_in_order_under_their_names_and_blank_ones_are_left_out(
    identity: Identity, tmp_path: Path
) -> None:
    (tmp_path / "MEMORY.md").write_text("tea at five\n")
    (tmp_path / "AGENTS.md").write_text("be brief\n")
    (tmp_path / "USER.md").write_text("<!-- nothing\nyet -->\n")
    (tmp_path / "SOUL.md").write_text(" \n")

    snapshot = await identity.snapshot(ME)

    assert snapshot.text == "## AGENTS.md\n\nbe brief\n\n---\n\n## MEMORY.md\n\ntea at five"


async def test_each_scope_is_shown_its_own_memory_with_the_agents_files(identity: Identity, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("be brief")
    (tmp_path / "MEMORY.md").write_text("operator canary")
    (tmp_path / "USER.md").write_text("operator canary")
    for folder, text in (("users/telegram/5", "hers"), ("groups/telegram/-9", "ours")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "MEMORY.md").write_text(text)
    (tmp_path / "groups/telegram/-9/USER.md").write_text("not for the chat")

    assert (await identity.snapshot(ANN)).text == "## AGENTS.md\n\nbe brief\n\n---\n\n## MEMORY.md\n\nhers"
    assert (await identity.snapshot(GROUP)).text == "## AGENTS.md\n\nbe brief\n\n---\n\n## MEMORY.md\n\nours"


async def test_what_the_bot_writes_is_shown_but_leaves_the_stamp(
    identity: Identity, workspace: FolderWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "MEMORY.md").write_text("one")
    first = await identity.snapshot(ME)

    await workspace.append_memory(ME, "two")
    second = await identity.snapshot(ME)

    assert "two" in second.text
    assert second.stamp == first.stamp


async def test_what_a_person_edits_changes_the_stamp(identity: Identity, tmp_path: Path) -> None:
    stamps = [(await identity.snapshot(ME)).stamp]
    for change in (
        lambda: (tmp_path / "MEMORY.md").write_text("one"),
        lambda: (tmp_path / "AGENTS.md").write_text("two"),
        lambda: (tmp_path / "MEMORY.md").unlink(),
    ):
        change()
        stamps.append((await identity.snapshot(ME)).stamp)

    assert len(set(stamps)) == 4


async def test_an_edit_between_two_writes_of_the_bot_is_noticed(
    identity: Identity, workspace: FolderWorkspace, tmp_path: Path
) -> None:
    before = await identity.snapshot(ME)
    await workspace.append_memory(ME, "one")
    (tmp_path / "MEMORY.md").write_text("by hand\n")
    await workspace.append_memory(ME, "two")

    after = await identity.snapshot(ME)

    assert "by hand" in after.text
    assert after.stamp != before.stamp


async def test_the_stamp_of_unchanged_documents_survives_a_restart(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "MEMORY.md").write_text("one")

    stamps = [(await Identity(FolderWorkspace(tmp_path, clock), clock).snapshot(ME)).stamp for _ in range(2)]

    assert stamps[0] == stamps[1]


async def test_an_unchanged_snapshot_is_the_same_object(identity: Identity, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("one")

    assert await identity.snapshot(ME) is await identity.snapshot(ME)


async def test_an_unreadable_document_is_left_out(identity: Identity, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_bytes(b"\xff\xff")
    (tmp_path / "USER.md").symlink_to("/etc/hostname")
    (tmp_path / "AGENTS.md").write_text("be brief")

    assert (await identity.snapshot(ME)).text == "## AGENTS.md\n\nbe brief"


async def test_a_long_document_is_cut_with_a_notice(identity: Identity, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("x" * 30_000)

    text = (await identity.snapshot(ME)).text

    assert len(text) < 21_000
    assert "10,000 more characters" in text


async def test_notes_are_todays_and_yesterdays_of_private_scopes(
    identity: Identity, workspace: FolderWorkspace, clock: FakeClock
) -> None:
    for text in ("first day", "second day", "third day"):
        await workspace.append_daily(ME, text, UTC)
        clock.advance(timedelta(days=1))
    clock.advance(timedelta(days=-1))

    notes = await identity.notes(ME, UTC)

    assert "first day" not in notes
    assert notes.index("third day") < notes.index("second day")
    assert await identity.notes(ANN, UTC) == ""
    assert await identity.notes(GROUP, UTC) == ""


async def test_a_new_workspace_is_seeded_with_the_first_run_script(
    workspace: FolderWorkspace, identity: Identity, tmp_path: Path
) -> None:
    names = await seed(workspace)

    assert "BOOTSTRAP.md" in names
    assert is_blank((tmp_path / "HEARTBEAT.md").read_text())
    text = (await identity.snapshot(ME)).text
    assert text.startswith("## BOOTSTRAP.md")
    assert len(text.encode()) < 2_000


async def test_seeding_touches_nothing_that_exists(workspace: FolderWorkspace, tmp_path: Path) -> None:
    (tmp_path / "USER.md").write_text("Ann")

    names = await seed(workspace)

    assert (tmp_path / "USER.md").read_text() == "Ann"
    assert "USER.md" not in names
    assert "BOOTSTRAP.md" not in names
    assert await seed(workspace) == ()


@pytest.mark.parametrize("text", ["", " \n", "<!-- a\nb -->", "<!-- a --> <!-- b -->\n", "<!-- open"])
def test_comments_alone_say_nothing(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(f"{text} x" if not text.endswith("open") else "x")
