"""What a path of a chat or a model may name. Pure; the file system is asked in `places.py`."""

from __future__ import annotations

import re
import unicodedata
from fnmatch import translate
from pathlib import PurePosixPath

from agent.workspace.errors import PathRefused
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope

AGENT_FILES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")
"""The agent's own documents: read from everywhere, changed by the operator."""

PRIVATE_FILES = ("BOOTSTRAP.md", "USER.md", "MEMORY.md", "HEARTBEAT.md", "README.md")
"""Documents with a fixed name in the folder of the operator, of each person and, where they apply, of a shared chat."""

DOCUMENT_FOLDERS = ("daily", "context")
SKIPPED_FOLDERS = frozenset({"node_modules", "target", ".git", "__pycache__", "venv", ".venv"})
TEMPORARY_PREFIX = ".optimclaw-"

_HIDDEN_FROM_OPERATOR = frozenset({"users", "groups"})
_PEOPLE = "people"
_GUARDED = frozenset({"agents.md", "soul.md", "identity.md", "user.md"})

GUARDED_FOLDERS = frozenset({"skills", "hooks"})
"""Folders of the operator that say what the agent does; the bot does not write in them."""

# First folders of absolute paths on Linux and macOS. Any other leading slash means the asker's own folder.
_SYSTEM_FOLDERS = frozenset(
    {
        "applications",
        "bin",
        "boot",
        "data",
        "dev",
        "etc",
        "home",
        "lib",
        "lib64",
        "library",
        "media",
        "mnt",
        "nix",
        "opt",
    }
    | {"private", "proc", "root", "run", "sbin", "srv", "sys", "system", "tmp", "users", "usr", "var", "volumes"}
)
_ENCODED = re.compile(r"%(2e|2f|5c|00|25)", re.IGNORECASE)
_SENSITIVE_FOLDERS = frozenset(
    {".ssh", ".aws", ".docker", ".kube", ".gnupg", ".azure", "gcloud", ".gcloud", ".git", ".password-store"}
)
_SENSITIVE_NAMES = (
    ".env", ".env.*", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".vault-token",
    ".*_history", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    "id_dsa*", "authorized_keys", "known_hosts", "gh/hosts.yml",
)  # fmt: skip
_SENSITIVE = re.compile("|".join(map(translate, _SENSITIVE_NAMES)))


_LONGEST_PATH = 1000
_MOST_FOLDERS = 32
# Folders are made one from the other, so the system's own limit on paths would not stop a path of thousands of them.


def normalize(path: str) -> PurePosixPath:
    """The relative path that `path` names below the asker's folder; the folder itself for an empty one.

    Outer and repeated slashes and `.` are dropped, and names with a fixed spelling get it back (`memory.md`).
    Raises PathRefused for the machine's own paths, `~`, drive letters, `..`, invisible characters, encoded tricks and
    what is too long or too deep.
    """
    trimmed = path.strip()
    shown = trimmed[:80]
    if len(trimmed) > _LONGEST_PATH or trimmed.count("/") > _MOST_FOLDERS:
        raise PathRefused(shown, f"it is longer than {_LONGEST_PATH} characters or deeper than {_MOST_FOLDERS} folders")
    if any(unicodedata.category(c) in {"Cc", "Cf", "Cs"} for c in trimmed):
        raise PathRefused(shown, "it holds invisible characters")
    if _ENCODED.search(trimmed):
        raise PathRefused(shown, "write the path as it is, without %-encoding")
    if "\\" in trimmed:
        raise PathRefused(shown, "separate folders with /")
    parts = [name for part in trimmed.split("/") if (name := part.strip()) not in {"", "."}]
    if parts and re.match(r"~|[A-Za-z]:", parts[0]):
        raise PathRefused(shown, "use a path relative to your own folder, such as 'MEMORY.md' or 'projects/plan.md'")
    if ".." in parts:
        raise PathRefused(shown, "'..' leads out of your folder; use a path relative to it")
    if trimmed.startswith("/") and parts and name_key(parts[0]) in _SYSTEM_FOLDERS:
        raise PathRefused(shown, "paths of the machine are out of reach; use one relative to your own folder")
    return canonical(PurePosixPath(*parts))


def name_key(name: str) -> str:
    """What two spellings share that some file system takes for the same name."""
    return unicodedata.normalize("NFKC", name).casefold().rstrip(". ")


def canonical(path: PurePosixPath) -> PurePosixPath:
    """`path` with the fixed spelling of documents that have one."""
    if len(path.parts) != 1:
        return path
    key = name_key(path.name)
    return next((PurePosixPath(n) for n in (*AGENT_FILES, *PRIVATE_FILES) if name_key(n) == key), path)


def is_agent_file(path: PurePosixPath) -> bool:
    """Whether `path`, normalised, is one of the agent's own documents."""
    return str(path) in AGENT_FILES


def is_hidden(path: PurePosixPath, scope: Scope) -> bool:
    """Whether a path below the scope's folder belongs to somebody else."""
    if not path.parts:
        return False
    first = name_key(path.parts[0])
    match scope:
        case OperatorScope():
            return first in _HIDDEN_FROM_OPERATOR
        case GroupScope():
            return first == _PEOPLE and len(path.parts) > 1 and path != scope.member_file
        case PersonScope():
            return False


def is_guarded(path: PurePosixPath, scope: Scope) -> bool:
    """Whether the bot itself may not write `path`: what it is told to be must not come from what it reads."""
    if path.parts and name_key(path.parts[0]) in GUARDED_FOLDERS:
        return True
    if len(path.parts) != 1:
        return False
    key = name_key(path.name)
    return key in _GUARDED or (key == "tools.md" and not isinstance(scope, OperatorScope))


def is_document(path: PurePosixPath) -> bool:
    """Whether `path` is the memory tools' business rather than the file tools'."""
    if not path.parts:
        return False
    folders = {*DOCUMENT_FOLDERS, _PEOPLE}
    return name_key(path.parts[0]) in folders or str(canonical(path)) in (*AGENT_FILES, *PRIVATE_FILES)


def is_sensitive(path: PurePosixPath) -> bool:
    """Whether `path` looks like credentials, keys or a repository's own control files."""
    keys = [name_key(part) for part in path.parts]
    if any(key in _SENSITIVE_FOLDERS for key in keys):
        return True
    tail = "/".join(keys[-2:])
    return bool(keys and (_SENSITIVE.match(keys[-1]) or _SENSITIVE.match(tail)))
