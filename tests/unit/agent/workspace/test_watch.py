from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.workspace.watch import FolderWatch, file_system_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of changes on Linux only")


def write(path: Path, text: str) -> Callable[[], object]:
    return lambda: path.write_text(text)


def test_without_a_change_the_number_stays(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    watch = FolderWatch(tmp_path)

    first = watch.changes()

    assert first is not None
    assert watch.changes() == first


@pytest.mark.parametrize("what", ["new", "in place", "same size", "deleted", "renamed", "touched", "deep", "appended"])
def test_every_kind_of_change_is_told(tmp_path: Path, what: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    note = tmp_path / "note.md"
    note.write_text("alpha")
    watch = FolderWatch(tmp_path)
    before = watch.changes()

    match what:
        case "new":
            (tmp_path / "new.md").touch()
        case "in place":
            note.write_text("beta gamma")
        case "same size":
            with note.open("r+") as file:
                file.write("gamma")
        case "deleted":
            note.unlink()
        case "renamed":
            note.rename(tmp_path / "a" / "note.md")
        case "touched":
            os.utime(note, (1, 1))
        case "deep":
            (tmp_path / "a" / "b" / "deep.md").write_text("x")
        case _:
            with note.open("a") as file:
                file.write("more")

    assert watch.changes() != before


def test_folders_made_later_are_watched_too(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path)
    watch.changes()
    (tmp_path / "new").mkdir()
    before = watch.changes()

    (tmp_path / "new" / "note.md").write_text("x")

    assert watch.changes() != before


def test_a_folder_that_is_not_there_cannot_be_told_until_it_is(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path / "later")
    assert watch.changes() is None

    (tmp_path / "later").mkdir()

    assert watch.changes() is not None


def test_a_folder_that_was_removed_and_made_again_is_watched_anew(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watch = FolderWatch(folder)
    watch.changes()
    folder.rmdir()
    watch.changes()
    folder.mkdir()
    before = watch.changes()

    (folder / "note.md").write_text("x")

    assert before is not None
    assert watch.changes() != before


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:40 / /mnt/host rw - 9p drvfs rw
31 22 0:41 / /srv rw - nfs4 server:/export rw
32 31 0:42 / /srv/cache rw master:3 - tmpfs tmpfs rw
33 22 0:43 / /my\040notes rw - fuse.sshfs me@there rw
34 22 0:44 / /twice rw - nfs a:/ rw
35 22 0:45 / /twice rw - xfs /dev/b rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/root/.optimclaw/workspace", "ext4"),
        ("/mnt/host/notes", "9p"),
        ("/mnt/hosted", "ext4"),
        ("/srv/bot", "nfs4"),
        ("/srv/cache/x", "tmpfs"),
        ("/my notes/x", "fuse.sshfs"),
        ("/twice", "xfs"),
    ],
)
def test_kind_of_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system_of(folder, MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs4", "9p", "virtiofs", "fuse.grpcfuse", "fakeowner"])
def test_where_another_machine_may_write_changes_cannot_be_told(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"22 1 8:1 / / rw - {kind} source rw\n")

    assert FolderWatch(tmp_path, mounts).changes() is None


def test_without_a_list_of_mounts_changes_cannot_be_told(tmp_path: Path) -> None:
    assert FolderWatch(tmp_path, tmp_path / "missing").changes() is None


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    def held() -> int:
        return len(os.listdir("/proc/self/fd"))

    FolderWatch(tmp_path).changes()
    before = held()

    for _ in range(20):
        FolderWatch(tmp_path).changes()

    assert held() <= before
