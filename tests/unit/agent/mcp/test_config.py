from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mcp.config import Endpoint, OfferedTo, Program, read_config, with_credentials
from agent.mcp.errors import ConfigUnusable
from agent.mcp.file import McpFile

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


def fault(entry: object, name: str = "wiki") -> str:
    return dict(read_config({"mcpServers": {name: entry}}).faults)[name]


@given(
    st.dictionaries(
        st.sampled_from(["mcpServers", "x"]), st.dictionaries(st.text(max_size=12), json_values) | json_values
    )
)
def test_any_document_is_read(document: dict[str, object]) -> None:
    configured = read_config(document)

    entries = document.get("mcpServers", {})
    if isinstance(entries, dict):
        assert len(configured.servers) + len(configured.faults) == len(entries)


def test_entries_in_the_common_format_are_read() -> None:
    configured = read_config(
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "type": "stdio", "other": 1},
                "wiki": {"url": "https://wiki.example.com/mcp#part", "headers": {"X-Key": "k"}, "for": "everyone"},
            }
        }
    )

    files, wiki = configured.servers
    assert files.place == Program("npx", ("-y", "x"), (("A", "1"),))
    assert (files.is_enabled, files.offered_to, files.is_trusted) == (True, OfferedTo.OPERATOR, True)
    assert wiki.place == Endpoint("https://wiki.example.com/mcp", (("X-Key", "k"),), False)
    assert (wiki.offered_to, wiki.token_name) == (OfferedTo.EVERYONE, "mcp/wiki")


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ({}, "either command or url"),
        ({"command": "a", "url": "https://a.example/"}, "either command or url"),
        ({"url": "ftp://a.example/"}, "http or https"),
        ({"url": "https://user:secret@a.example/"}, "a name or a password"),
        ({"url": "https://[/"}, "no address"),
        ({"url": "https://a.example/", "type": "sse"}, "sse is not supported"),
        ({"url": "https://a.example/", "headers": {"X": "a\r\nHost: b"}}, "cannot be sent"),
        ({"url": "https://a.example/", "credential": "[x]"}, "no name for a credential"),
        ({"command": "a", "env": {"A": "${credential:@x}"}}, "no name for a credential"),
        ({"command": "a", "installed": True}, "cannot be installed"),
        ({"command": "a", "for": "friends"}, "for: "),
        ({"command": "a\0"}, "NUL"),
        ("npx", ""),
    ],
)
def test_entry_with_a_fault_is_left_out_and_says_why(entry: object, part: str) -> None:
    assert part in fault(entry)
    assert "secret" not in fault(entry)


def test_name_that_is_none_is_refused() -> None:
    assert "1 to 32" in fault({"command": "a"}, "Wiki_1")


def test_named_credentials_are_put_in_place() -> None:
    assert with_credentials("a ${credential:x} b ${credential:y}", {"x": "1", "y": "2"}) == "a 1 b 2"


def test_file_keeps_what_others_wrote_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"theme": "dark", "mcpServers": {"wiki": {"command": "a", "theirs": [1]}}}))
    path.chmod(0o644)
    file = McpFile(tmp_path)

    file.set_enabled("wiki", is_enabled=False)
    file.add_installed("far", "https://a.example/")

    assert json.loads(path.read_text()) == {
        "theme": "dark",
        "mcpServers": {
            "wiki": {"command": "a", "theirs": [1], "enabled": False},
            "far": {"url": "https://a.example/", "enabled": True, "for": "operator", "installed": True},
        },
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["mcp.json"]
    assert file.remove("far")
    assert not file.remove("far")


@pytest.mark.parametrize(("content", "mode"), [("{", 0o600), ("[]", 0o600), ("{}", 0o622), ("[" * 100_000, 0o600)])
def test_file_that_cannot_be_trusted_or_read_is_refused_and_stays(tmp_path: Path, content: str, mode: int) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(content)
    path.chmod(mode)

    with pytest.raises(ConfigUnusable):
        McpFile(tmp_path).add_installed("far", "https://a.example/")

    assert path.read_text() == content


def test_installing_does_not_replace_a_server(tmp_path: Path) -> None:
    file = McpFile(tmp_path)
    file.add_installed("far", "https://a.example/")

    with pytest.raises(ConfigUnusable, match="already"):
        file.add_installed("far", "https://b.example/")
