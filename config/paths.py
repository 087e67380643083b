"""Where the state lives, and how its paths are shown: never with the host's own folders in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CONFIG_FILE = "config.toml"
_WORKSPACE = "workspace"


def resolve_home(value: str, environ: Mapping[str, str], cwd: Path) -> Path:
    """The absolute home folder that `value` names; `~` is the user's home, a relative path starts in `cwd`."""
    if value == "~" or value.startswith("~/"):
        return user_home(environ) / value[2:]
    return (cwd / value).absolute()


def user_home(environ: Mapping[str, str]) -> Path:
    """The home folder of the user who runs the bot."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def workspace_of(home: Path) -> Path:
    """The folder of the workspace inside the home."""
    return home / _WORKSPACE


def display_home(home: Path, user: Path | None = None) -> str:
    """The home for people's eyes: below `~` if it is the user's, else by the name of its setting."""
    try:
        return f"~/{home.relative_to(user or Path.home()).as_posix()}"
    except ValueError:
        return "$OPTIMCLAW_HOME"


def display_workspace(home: Path, user: Path | None = None) -> str:
    """The workspace for people's eyes."""
    return f"{display_home(home, user)}/{_WORKSPACE}"


def display_path(path: Path, home: Path, user: Path | None = None) -> str:
    """A path for people's eyes: inside the home below its shown name, anywhere else the last part alone."""
    try:
        inside = path.relative_to(home).as_posix()
    except ValueError:
        return path.name
    return display_home(home, user) if inside == "." else f"{display_home(home, user)}/{inside}"
