from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.media.names import looks_like_credentials, numbered, safe_name
from agent.workspace.paths import is_sensitive, normalize
from channels.message import AttachmentKind
from tests.support.documents import attachment

AWKWARD = st.text(alphabet=st.sampled_from('ab.. /\\:*?"<>|%~\u202e\u200b\0\n\tCON꞉é\ud83d'), max_size=40)


def name_of(filename: str | None, mime_type: str = "text/plain") -> str:
    return safe_name(attachment(filename, mime_type))


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.txt", "plan.txt"),
        ("a\u202etxt.exe", "a txt.exe"),
        ("two\nlines.txt", "two lines.txt"),
        ("...", "document.txt"),
        ("", "document.txt"),
        (None, "document.txt"),
        (".hidden.txt", "hidden.txt"),
        ("con.txt", "_con.txt"),
        ("what%2e?.txt", "what_2e_.txt"),
        ("Zürich.md", "Zürich.md"),
    ],
)
def test_name_is_one_plain_part(given_name: str | None, kept: str) -> None:
    assert name_of(given_name) == kept


def test_file_without_a_name_is_called_what_it_is() -> None:
    assert safe_name(attachment(None, "image/png", kind=AttachmentKind.IMAGE)) == "picture.png"


def test_long_name_keeps_its_suffix() -> None:
    assert name_of("ü" * 300 + ".pdf").endswith("ü.pdf")
    assert len(name_of("ü" * 300 + ".pdf").encode()) <= 200


@given(st.text(max_size=300) | AWKWARD)
def test_any_name_becomes_a_path_that_file_tools_take_as_it_is(filename: str) -> None:
    name = name_of(filename)
    path = PurePosixPath("attachments", "2026-03-02", name)

    assert normalize(str(path)) == path
    assert path.name == name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert all(unicodedata.category(c)[0] not in "C" for c in name)


@given(st.text(max_size=300) | AWKWARD)
def test_what_file_tools_keep_out_of_reach_is_never_renamed_into_reach(filename: str) -> None:
    item = attachment(filename)

    if not looks_like_credentials(item):
        assert not is_sensitive(PurePosixPath(filename.replace("\\", "/").strip("/ ").replace("\0", " ")))
        assert not is_sensitive(PurePosixPath("attachments", "2026-03-02", safe_name(item)))


@pytest.mark.parametrize(
    "filename",
    [
        ".env",
        "id_rsa",
        "server.key",
        "server.key\u202e",
        "x/.ssh/config",
        ".env.",
        "ID_RSA.txt",
        "a\\.aws\\config",
        "．env",
    ],
)
def test_names_of_keys_are_seen_through_disguises(filename: str) -> None:
    assert looks_like_credentials(attachment(filename))


def test_numbers_stand_in_front_of_the_suffix() -> None:
    assert [numbered("a.txt", 1), numbered("a.txt", 2), numbered("readme", 3)] == ["a.txt", "a-2.txt", "readme-3"]
