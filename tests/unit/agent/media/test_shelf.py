from __future__ import annotations

import os
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest

from agent.media.errors import NoRoom, NotKept
from agent.media.shelf import keep, read_back
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope

DAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("scope", "folder"),
    [
        (OperatorScope(), ""),
        (PersonScope("telegram", "41"), "users/telegram/41/"),
        (GroupScope("telegram", "-100"), "groups/telegram/-100/"),
    ],
)
def test_file_lies_in_the_folder_of_the_one_who_sent_it(tmp_path: Path, scope: Scope, folder: str) -> None:
    kept = keep(tmp_path, scope, DAY, "a.txt", b"hello")

    assert kept.path == "attachments/2026-03-02/a.txt"
    assert kept.place == f"{folder}attachments/2026-03-02/a.txt"
    assert (tmp_path / kept.place).read_bytes() == b"hello"
    assert kept.digest == sha256(b"hello").hexdigest()


def test_same_content_is_the_same_file_and_another_gets_a_number(tmp_path: Path) -> None:
    names = [
        keep(tmp_path, OperatorScope(), DAY, "a.txt", data).path[-8:]
        for data in (b"1", b"22", b"1", b"22", b"333", b"")
    ]

    assert names == ["02/a.txt", "/a-2.txt", "02/a.txt", "/a-2.txt", "/a-3.txt", "/a-4.txt"]


def test_folder_or_link_of_that_name_is_left_alone(tmp_path: Path) -> None:
    day = tmp_path / "attachments" / "2026-03-02"
    (day / "a.txt").mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (day / "a-2.txt").symlink_to(secret)

    assert keep(tmp_path, OperatorScope(), DAY, "a.txt", b"other").path == "attachments/2026-03-02/a-3.txt"
    assert secret.read_bytes() == b"secret"


def test_folder_that_leads_elsewhere_takes_nothing(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "attachments").symlink_to(elsewhere)

    with pytest.raises(NotKept):
        keep(root, OperatorScope(), DAY, "a.txt", b"x")
    assert list(elsewhere.iterdir()) == []


def test_link_inside_the_folder_does_not_reach_documents_of_the_agent(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "attachments").symlink_to("skills")

    with pytest.raises(NotKept):
        keep(tmp_path, OperatorScope(), DAY, "SKILL.md", b"x")
    assert list((tmp_path / "skills").iterdir()) == []


def test_full_folder_takes_no_more_and_other_folders_do(tmp_path: Path) -> None:
    keep(tmp_path, OperatorScope(), DAY, "a.bin", b"x" * 80, most_bytes=100)

    with pytest.raises(NoRoom):
        keep(tmp_path, OperatorScope(), date(2026, 3, 3), "b.bin", b"y" * 30, most_bytes=100)
    assert keep(tmp_path, OperatorScope(), DAY, "a.bin", b"x" * 80, most_bytes=100)
    assert keep(tmp_path, PersonScope("telegram", "41"), DAY, "b.bin", b"y" * 30, most_bytes=100)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_disk_that_refuses_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(NotKept):
        keep(tmp_path, OperatorScope(), DAY, "a.txt", b"x")


def test_picture_is_read_back_only_while_it_is_the_same(tmp_path: Path) -> None:
    kept = keep(tmp_path, OperatorScope(), DAY, "a.png", b"picture")

    assert read_back(tmp_path, kept.place, kept.digest, 100) == b"picture"
    assert read_back(tmp_path, kept.place, kept.digest, 3) is None
    (tmp_path / kept.place).write_bytes(b"another")
    assert read_back(tmp_path, kept.place, kept.digest, 100) is None
    (tmp_path / kept.place).unlink()
    assert read_back(tmp_path, kept.place, kept.digest, 100) is None
