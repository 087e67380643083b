from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.workspace.aging import remove_old

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LIMITS = {"daily": NOW - timedelta(days=30), "conversations": NOW - timedelta(days=7)}


def put(root: Path, path: str, days_old: float) -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("note")
    moment = (NOW - timedelta(days=days_old)).timestamp()
    os.utime(place, (moment, moment))
    return place


def left(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_old_notes_go_in_everybodys_folder_and_young_ones_stay(tmp_path: Path) -> None:
    for owner in ("", "users/telegram/7/", "groups/slack/C1/"):
        put(tmp_path, f"{owner}daily/old.md", 30.1)
        put(tmp_path, f"{owner}daily/young.md", 29.9)
        put(tmp_path, f"{owner}conversations/old.md", 7.1)
        put(tmp_path, f"{owner}conversations/young.md", 6.9)

    assert remove_old(tmp_path, LIMITS) == 6
    assert {Path(path).name for path in left(tmp_path)} == {"young.md"}
    assert remove_old(tmp_path, LIMITS) == 0


def test_what_has_a_name_of_its_own_or_lies_elsewhere_stays(tmp_path: Path) -> None:
    kept = ["MEMORY.md", "projects/old.md", "daily/MEMORY.md", "daily/heartbeat.MD", "daily/deeper/old.md"]
    kept += ["daily/picture.png", "users/telegram/7/MEMORY.md", "users/telegram/7/notes.md", "groups/old.md"]
    for path in kept:
        put(tmp_path, path, 400)

    assert remove_old(tmp_path, LIMITS) == 0
    assert left(tmp_path) == set(kept)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    victim = put(outside, "old.md", 400)
    (root / "users/telegram").mkdir(parents=True)
    (root / "daily").symlink_to(outside)
    (root / "users/telegram/7").symlink_to(outside)
    (root / "conversations").mkdir()
    (root / "conversations/old.md").symlink_to(victim)

    assert remove_old(root, LIMITS) == 0
    assert victim.exists()


def test_missing_workspace_is_nothing_to_do(tmp_path: Path) -> None:
    assert remove_old(tmp_path / "none", LIMITS) == 0
