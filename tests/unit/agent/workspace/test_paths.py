from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.workspace.errors import PathRefused
from agent.workspace.paths import is_document, is_guarded, is_hidden, is_sensitive, normalize
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "."),
        ("/", "."),
        (" projects//plan.md/ ", "projects/plan.md"),
        ("./MEMORY.md", "MEMORY.md"),
        ("/MEMORY.md", "MEMORY.md"),
        ("memory.MD", "MEMORY.md"),
        ("projects/memory.md", "projects/memory.md"),
    ],
)
def test_a_path_is_trimmed_and_known_documents_get_their_spelling(path: str, expected: str) -> None:
    assert str(normalize(path)) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/home/ann/notes.md",
        "/Users/ann/notes.md",
        "//tmp/x",
        "~/notes.md",
        "~root/x",
        "C:/notes.md",
        "C:notes.md",
        "..",
        "../MEMORY.md",
        "a/../../b",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        "%2e%2e/MEMORY.md",
        "a%2Fb",
        "a%5cb",
        "%252e%252e/x",
        "us\u200ders/x",
        "\ud800",
    ],
)
def test_a_path_that_means_something_outside_is_refused_with_a_hint(path: str) -> None:
    with pytest.raises(PathRefused, match=r"refused: .{10,}"):
        normalize(path)


@given(st.text(alphabet="a./\\~%2eEfFcC5: \0\u200b", max_size=14) | st.text(max_size=20))
def test_normalising_is_total_and_gives_a_plain_relative_path(path: str) -> None:
    try:
        normal = normalize(path)
    except PathRefused:
        return
    assert not normal.is_absolute()
    assert not {"..", "~"} & set(normal.parts)
    assert normalize(str(normal)) == normal


@pytest.mark.parametrize("name", ["users", "USERS", "Groups", "uſers", "users ", "groups."])
def test_the_operator_in_private_does_not_see_the_folders_of_others(name: str) -> None:
    assert is_hidden(PurePosixPath(name, "telegram", "5", "MEMORY.md"), OperatorScope())
    assert is_hidden(PurePosixPath(name), OperatorScope())


def test_a_member_of_a_shared_chat_sees_their_own_file_only() -> None:
    scope = GroupScope("slack", "C1", "U1")

    assert not is_hidden(PurePosixPath("people/U1.md"), scope)
    assert is_hidden(PurePosixPath("people/U2.md"), scope)
    assert is_hidden(PurePosixPath("People/U2.md"), scope)
    assert is_hidden(PurePosixPath("people/U1.md"), GroupScope("slack", "C1"))


def test_the_bot_may_not_rewrite_who_it_is() -> None:
    for name in ("IDENTITY.md", "soul.md", "AGENTS.MD", "User.md"):
        assert is_guarded(PurePosixPath(name), OperatorScope())
    assert is_guarded(PurePosixPath("TOOLS.md"), PersonScope("telegram", "1"))
    assert not is_guarded(PurePosixPath("TOOLS.md"), OperatorScope())
    assert not is_guarded(PurePosixPath("projects/AGENTS.md"), OperatorScope())


def test_credentials_and_version_control_are_recognised() -> None:
    for path in (
        ".env",
        "a/.env.local",
        ".ssh/config",
        "x/id_rsa",
        "cert.PEM",
        ".git/hooks/post-commit",
        ".bash_history",
    ):
        assert is_sensitive(PurePosixPath(path)), path
    for path in ("environment.md", "keys.txt", "notes/ssh.md", ".gitignore"):
        assert not is_sensitive(PurePosixPath(path)), path


def test_memory_documents_are_told_from_other_files() -> None:
    for path in ("MEMORY.md", "heartbeat.md", "daily/2026-01-01.md", "Context/x.md", "README.md", "people/1.md"):
        assert is_document(PurePosixPath(path)), path
    for path in ("src/README.md", "notes.md", "projects/daily/x"):
        assert not is_document(PurePosixPath(path)), path


@pytest.mark.parametrize("scope", [OperatorScope(), PersonScope("telegram", "1"), GroupScope("slack", "C1", "U1")])
def test_skills_and_hooks_are_guarded_for_everybody_in_any_spelling(
    scope: OperatorScope | PersonScope | GroupScope,
) -> None:
    for path in ("skills/git/SKILL.md", "SKILLS/x", "Skills", "\u017fkills/x", "skills /x", "skills./x", "hooks/a.py"):
        assert is_guarded(PurePosixPath(path), scope), path
    for path in ("skills.md", "projects/skills/x.md", "my-hooks/x"):
        assert not is_guarded(PurePosixPath(path), scope), path
