from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agent.workspace.errors import DocumentMissing, DocumentTooLarge, DocumentUnreadable, PathRefused
from agent.workspace.files import update_file
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope
from agent.workspace.workspace import DOCUMENT_LIMIT_BYTES, Author, FolderWorkspace
from tests.support.fake_clock import FakeClock

ME = OperatorScope()
ANN = PersonScope("telegram", "5")
GROUP = GroupScope("telegram", "-9", "5")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home" / "workspace"


@pytest.fixture
def workspace(root: Path) -> FolderWorkspace:
    return FolderWorkspace(root, FakeClock())


def put(path: Path, data: bytes) -> None:
    """Write a file as a person's editor would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


async def test_a_missing_workspace_is_empty_and_made_by_the_first_write(workspace: FolderWorkspace, root: Path) -> None:
    assert await workspace.tree(ME, depth=3) == ()
    assert not await workspace.exists(ANN, "MEMORY.md")
    with pytest.raises(DocumentMissing):
        await workspace.read(ANN, "MEMORY.md")

    await workspace.append_memory(ANN, "likes tea")

    assert (root / "users/telegram/5/MEMORY.md").read_text() == "likes tea\n"
    assert await workspace.read(ANN, "memory.md") == "likes tea\n"


async def test_each_scope_has_a_memory_of_its_own(workspace: FolderWorkspace, root: Path) -> None:
    for scope, text in ((ME, "mine"), (ANN, "hers"), (GROUP, "ours")):
        await workspace.append_memory(scope, text)

    assert await workspace.read(ME, "MEMORY.md") == "mine\n"
    assert await workspace.read(ANN, "MEMORY.md") == "hers\n"
    assert await workspace.read(GROUP, "MEMORY.md") == "ours\n"
    assert (root / "groups/telegram/-9/MEMORY.md").read_text() == "ours\n"


async def test_appending_puts_a_line_and_memory_a_paragraph(workspace: FolderWorkspace, root: Path) -> None:
    put(root / "MEMORY.md", b"by hand")

    await workspace.append_memory(ME, "one\n")
    await workspace.append(ME, "log.md", "a")
    await workspace.append(ME, "log.md", "b")

    assert await workspace.read(ME, "MEMORY.md") == "by hand\n\none\n"
    assert await workspace.read(ME, "log.md") == "a\nb\n"


async def test_daily_notes_carry_the_time_of_the_persons_zone(root: Path) -> None:
    workspace = FolderWorkspace(root, FakeClock(datetime(2026, 3, 2, 23, 30, 5, tzinfo=UTC)))

    path = await workspace.append_daily(ME, "slept", ZoneInfo("Europe/Berlin"))

    assert path == "daily/2026-03-03.md"
    assert await workspace.read(ME, path) == "[00:30:05] slept\n"


async def test_a_shared_chat_has_no_daily_notes(workspace: FolderWorkspace) -> None:
    with pytest.raises(PathRefused, match="target 'memory'"):
        await workspace.append_daily(GROUP, "x", ZoneInfo("UTC"))


async def test_the_agents_files_are_read_everywhere_and_changed_by_the_operator_alone(
    workspace: FolderWorkspace, root: Path
) -> None:
    await workspace.write(ME, "AGENTS.md", "be brief", Author.PERSON)
    (root / "users/telegram/5").mkdir(parents=True)
    (root / "users/telegram/5/AGENTS.md").write_text("a copy that counts for nothing")

    for scope in (ME, ANN, GROUP):
        assert await workspace.read(scope, "agents.md") == "be brief"
    assert await workspace.tree(ANN) == ("AGENTS.md",)
    for scope in (ME, ANN, GROUP):
        with pytest.raises(PathRefused):
            await workspace.write(scope, "Agents.md", "obey me")
    for scope in (ANN, GROUP):
        with pytest.raises(PathRefused):
            await workspace.write(scope, "TOOLS.md", "obey me", Author.PERSON)
    await workspace.write(ME, "TOOLS.md", "notes")


async def test_the_operator_in_private_sees_neither_people_nor_groups(workspace: FolderWorkspace) -> None:
    await workspace.append_memory(ANN, "her secret")
    await workspace.append_memory(GROUP, "our secret")
    await workspace.append_memory(ME, "mine")

    assert await workspace.tree(ME, depth=9) == ("MEMORY.md",)
    for path in ("users/telegram/5/MEMORY.md", "USERS/telegram/5/MEMORY.md", "groups"):
        with pytest.raises(PathRefused):
            await workspace.read(ME, path)


async def test_a_link_out_of_the_folder_is_refused_and_one_to_inside_works(
    workspace: FolderWorkspace, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("secret")
    await workspace.write(ANN, "notes/a.md", "inside")
    folder = root / "users/telegram/5"
    (folder / "out").symlink_to(outside)
    (folder / "again").symlink_to("out")
    (folder / "leak.md").symlink_to(outside / "x.md")
    (folder / "sibling").symlink_to(root / "users/telegram/55")
    (folder / "loop").symlink_to("loop")
    (folder / "in").symlink_to("notes")
    (root / "users/telegram/55").mkdir()

    assert await workspace.read(ANN, "in/a.md") == "inside"
    for path in ("out/x.md", "again/x.md", "leak.md", "loop", "loop/x"):
        with pytest.raises((PathRefused, DocumentMissing)):
            await workspace.read(ANN, path)
    for path in ("out/new.txt", "again/new.txt", "sibling/new.txt", "leak.md"):
        with pytest.raises(PathRefused):
            await workspace.write(ANN, path, "x")
    assert sorted(p.name for p in outside.iterdir()) == ["x.md"]
    assert (outside / "x.md").read_text() == "secret"
    assert not list((root / "users/telegram/55").iterdir())


async def test_a_link_to_a_guarded_or_foreign_document_is_no_way_around(workspace: FolderWorkspace, root: Path) -> None:
    await workspace.append_memory(ANN, "her secret")
    await workspace.write(ME, "SOUL.md", "kind", Author.PERSON)
    (root / "note.md").symlink_to("SOUL.md")
    (root / "hers.md").symlink_to("users/telegram/5/MEMORY.md")

    with pytest.raises(PathRefused):
        await workspace.write(ME, "note.md", "obey me")
    with pytest.raises(PathRefused):
        await workspace.read(ME, "hers.md")
    assert (root / "SOUL.md").read_text() == "kind"


async def test_a_persons_folder_that_is_a_link_shows_nothing(workspace: FolderWorkspace, root: Path) -> None:
    await workspace.append_memory(PersonScope("telegram", "6"), "not yours")
    (root / "users/telegram/5").symlink_to(root / "users/telegram/6")

    with pytest.raises((PathRefused, DocumentMissing)):
        await workspace.read(ANN, "MEMORY.md")


async def test_fifty_appends_at_once_are_all_there(workspace: FolderWorkspace, root: Path) -> None:
    other = FolderWorkspace(root, FakeClock())  # what another process would be

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task((workspace, other)[number % 2].append(ME, "log.md", f"entry {number}"))

    lines = (await workspace.read(ME, "log.md")).splitlines()
    assert sorted(lines) == sorted(f"entry {number}" for number in range(50))
    assert await workspace.tree(ME) == ("log.md",)


async def test_a_full_document_refuses_more_and_loses_nothing(workspace: FolderWorkspace, root: Path) -> None:
    full = b"x" * DOCUMENT_LIMIT_BYTES
    put(root / "MEMORY.md", full)

    with pytest.raises(DocumentTooLarge, match=r"1,000,\d+ bytes, the limit is 1,000,000"):
        await workspace.append_memory(ME, "one more")

    assert (root / "MEMORY.md").read_bytes() == full


async def test_a_document_that_grew_too_large_by_hand_can_be_replaced(workspace: FolderWorkspace, root: Path) -> None:
    put(root / "MEMORY.md", b"x" * (DOCUMENT_LIMIT_BYTES + 1))

    await workspace.write(ME, "MEMORY.md", "short")

    assert await workspace.read(ME, "MEMORY.md") == "short"


async def test_a_file_that_is_no_text_is_an_error_and_stays_as_it_is(workspace: FolderWorkspace, root: Path) -> None:
    put(root / "MEMORY.md", b"\xff\xfe\x00")

    with pytest.raises(DocumentUnreadable):
        await workspace.read(ME, "MEMORY.md")
    with pytest.raises(DocumentUnreadable):
        await workspace.append_memory(ME, "x")
    assert (root / "MEMORY.md").read_bytes() == b"\xff\xfe\x00"


async def test_a_pipe_or_folder_in_a_documents_place_does_not_hang_the_reader(
    workspace: FolderWorkspace, root: Path
) -> None:
    (root / "folder.md").mkdir(parents=True)
    os.mkfifo(root / "pipe.md")

    for path in ("folder.md", "pipe.md"):
        with pytest.raises(PathRefused):
            await workspace.read(ME, path)


async def test_a_failure_while_writing_leaves_the_old_document_and_no_litter(
    workspace: FolderWorkspace, root: Path
) -> None:
    await workspace.write(ME, "a.md", "old")

    def breaks(before: bytes | None) -> bytes:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        update_file(root, ("a.md",), breaks, 1000)

    assert (root / "a.md").read_text() == "old"
    assert os.listdir(root) == ["a.md"]


async def test_the_mode_of_a_file_stays(workspace: FolderWorkspace, root: Path) -> None:
    await workspace.write(ME, "a.md", "old")
    (root / "a.md").chmod(0o640)

    await workspace.append(ME, "a.md", "new")

    assert stat.S_IMODE((root / "a.md").stat().st_mode) == 0o640


def test_a_writer_killed_at_any_moment_leaves_a_whole_document(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from agent.workspace.files import update_file\n"
        "number = 0\n"
        "while True:\n"
        "    number += 1\n"
        "    update_file(Path(sys.argv[1]), ('a.md',), (str(number % 10) * 300_000).encode(), 10**6)\n"
        "    print(number, flush=True)\n"
    )
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        with writer:
            for _ in range(5):
                writer.stdout.readline()
            writer.kill()

        text = (tmp_path / "a.md").read_text()
        assert len(text) == 300_000
        assert len(set(text)) == 1


async def test_deleting_removes_the_document(workspace: FolderWorkspace) -> None:
    await workspace.write(ME, "BOOTSTRAP.md", "hello")

    await workspace.delete(ME, "bootstrap.md")

    assert not await workspace.exists(ME, "BOOTSTRAP.md")
    with pytest.raises(DocumentMissing):
        await workspace.delete(ME, "BOOTSTRAP.md")


async def test_the_tree_shows_folders_with_a_slash_down_to_the_depth(workspace: FolderWorkspace) -> None:
    for path in ("projects/alpha/readme.md", "projects/beta/readme.md", "projects/node_modules/x.md", "a.md"):
        await workspace.write(ME, path, "x")

    assert await workspace.list(ME) == ("a.md", "projects/")
    assert await workspace.tree(ME, "projects", 2) == (
        "projects/alpha/",
        "projects/alpha/readme.md",
        "projects/beta/",
        "projects/beta/readme.md",
    )


async def test_the_folder_of_a_scope_is_made_for_its_tools(workspace: FolderWorkspace, root: Path) -> None:
    folder = await workspace.folder(ANN)

    assert folder == root / "users/telegram/5"
    assert os.listdir(folder) == []
