from __future__ import annotations

from pathlib import Path

import pytest

from config.paths import display_home, display_path, display_workspace

USER = Path("/home/ada")


@pytest.mark.parametrize(
    ("home", "shown"), [("/home/ada/.optimclaw", "~/.optimclaw"), ("/srv/bot/state", "$OPTIMCLAW_HOME")]
)
def test_home_is_shown_without_the_hosts_folders(home: str, shown: str) -> None:
    assert display_home(Path(home), USER) == shown
    assert display_workspace(Path(home), USER) == f"{shown}/workspace"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/ada/.optimclaw", "~/.optimclaw"),
        ("/home/ada/.optimclaw/workspace/MEMORY.md", "~/.optimclaw/workspace/MEMORY.md"),
        ("/home/ada/other/secret.txt", "secret.txt"),
    ],
)
def test_path_is_shown_below_the_home_or_by_its_last_part(path: str, shown: str) -> None:
    assert display_path(Path(path), Path("/home/ada/.optimclaw"), USER) == shown
