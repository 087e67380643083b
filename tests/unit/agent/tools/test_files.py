from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.tool_call import ToolOutput
from agent.tools.builtin.files import (
    ApplyPatch,
    ApplyPatchArguments,
    ListDir,
    ListDirArguments,
    ReadFile,
    ReadFileArguments,
    WriteFile,
    WriteFileArguments,
    shown_lines,
)
from agent.workspace.scope import OperatorScope, PersonScope, Scope
from tests.support.tool_context import make_context

ME = OperatorScope()
ANN = PersonScope("telegram", "5")


class Files:
    """The file tools over one workspace."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def read(self, path: str, scope: Scope = ME, offset: int = 1, limit: int | None = None) -> ToolOutput:
        asked = ReadFileArguments(path=path, offset=offset, limit=limit)
        return await ReadFile(self.root).run(asked, make_context(scope))

    async def write(self, path: str, content: str, scope: Scope = ME) -> ToolOutput:
        return await WriteFile(self.root).run(WriteFileArguments(path=path, content=content), make_context(scope))

    async def list(self, path: str = "", scope: Scope = ME, **arguments: object) -> ToolOutput:
        asked = ListDirArguments.model_validate({"path": path, **arguments})
        return await ListDir(self.root).run(asked, make_context(scope))

    async def patch(self, path: str, old: str, new: str, replace_all: bool = False) -> ToolOutput:
        asked = ApplyPatchArguments(path=path, old_string=old, new_string=new, replace_all=replace_all)
        return await ApplyPatch(self.root).run(asked, make_context())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


async def test_a_written_file_is_patched_and_read_in_the_askers_folder(files: Files) -> None:
    assert not (await files.write("src/a.txt", "Hello\nold\n", ANN)).is_error
    assert (files.root / "users/telegram/5/src/a.txt").read_text() == "Hello\nold\n"
    assert (await files.read("src/a.txt", ME)).is_error

    assert not (await files.write("a.txt", "one two one")).is_error
    assert (await files.patch("a.txt", "two", "2")).text == "Patched a.txt."
    assert (await files.read("a.txt")).text == "one 2 one"


async def test_a_passage_must_be_there_and_once(files: Files) -> None:
    await files.write("a.txt", "one two one")

    assert "not in" in (await files.patch("a.txt", "three", "3")).text
    assert "2 times" in (await files.patch("a.txt", "one", "1")).text
    assert (files.root / "a.txt").read_text() == "one two one"
    assert not (await files.patch("a.txt", "one", "1", replace_all=True)).is_error
    assert (files.root / "a.txt").read_text() == "1 two 1"
    assert (await files.patch("gone.txt", "a", "b")).is_error


@pytest.mark.parametrize(
    ("offset", "limit", "expected"),
    [
        (1, None, "a\nb\nc"),
        (2, None, "b\nc\n[lines 2 to 3 of 3]"),
        (1, 1, "a\n[lines 1 to 1 of 3; continue at offset 2]"),
        (3, 9, "c\n[lines 3 to 3 of 3]"),
        (4, None, "[nothing: the file has 3 lines, line 4 is past its end]"),
        (10**9, 5, "[nothing: the file has 3 lines, line 1000000000 is past its end]"),
    ],
)
async def test_lines_are_shown_from_an_offset(files: Files, offset: int, limit: int | None, expected: str) -> None:
    await files.write("a.txt", "a\nb\nc\n")

    output = await files.read("a.txt", offset=offset, limit=limit)

    assert output == ToolOutput(expected)


@given(st.text(), st.integers(1, 20), st.none() | st.integers(1, 20))
def test_showing_lines_is_total(text: str, offset: int, limit: int | None) -> None:
    assert shown_lines(text, offset, limit)


@pytest.mark.parametrize(
    "path",
    ["MEMORY.md", "memory.md", "./USER.md", "HEARTBEAT.md", "AGENTS.md", "README.md", "daily/a.md", "context/b.md"],
)
@pytest.mark.parametrize("scope", [ME, ANN])
async def test_memory_documents_are_left_to_the_memory_tools(files: Files, scope: Scope, path: str) -> None:
    for output in (await files.read(path, scope), await files.write(path, "x", scope)):
        assert output.is_error
        assert "memory_read" in output.text
    assert not [p for p in files.root.rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    "path", [".env", "x/.env.local", ".ssh/id_rsa", "server.key", ".git/hooks/pre-commit", ".netrc"]
)
async def test_files_with_credentials_are_neither_read_nor_written(files: Files, path: str) -> None:
    (files.root / path).parent.mkdir(parents=True, exist_ok=True)
    (files.root / path).write_text("canary")

    for output in (await files.read(path), await files.write(path, "x"), await files.patch(path, "canary", "x")):
        assert output.is_error
        assert "canary" not in output.text
    assert (files.root / path).read_text() == "canary"


async def test_absolute_paths_work_inside_the_folder_alone(files: Files) -> None:
    await files.write("a.txt", "x")

    assert (await files.read(str(files.root / "a.txt"))).text == "x"
    assert (await files.read("/workspace/a.txt")).text == "x"  # what the shell calls the folder
    for path in (
        "/workspace/../b.txt",
        "/etc/hostname",
        str(files.root.parent / "b.txt"),
        f"{files.root}/../b.txt",
        f"{files.root}2/b.txt",
    ):
        assert (await files.read(path)).is_error
        assert (await files.write(path, "x")).is_error
    assert (await files.read(str(files.root / "a.txt"), ANN)).is_error


async def test_links_do_not_lead_out(files: Files, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x").write_text("secret")
    (files.root / "out").symlink_to(outside)
    (files.root / "mem.txt").symlink_to("MEMORY.md")
    (files.root / "MEMORY.md").write_text("mine")

    assert (await files.read("out/x")).is_error
    assert (await files.write("out/new.txt", "x")).is_error
    assert (await files.read("mem.txt")).is_error
    assert (await files.list("out")).is_error
    assert "out (link)" in (await files.list()).text
    assert os.listdir(outside) == ["x"]


async def test_binary_broken_and_large_files_are_errors(files: Files) -> None:
    (files.root / "b.bin").write_bytes(b"a\0b")
    (files.root / "l.txt").write_bytes(b"\xe4")
    (files.root / "big.txt").write_text("x" * 1_000_001)

    assert "binary" in (await files.read("b.bin")).text
    assert "UTF-8" in (await files.read("l.txt")).text
    assert "too large" in (await files.read("big.txt")).text
    assert "too large" in (await files.write("w.txt", "x" * 5_000_001)).text
    assert not (files.root / "w.txt").exists()
    for path in ("b.bin", "l.txt", "big.txt", "", "nope"):
        assert (await files.read(path)).is_error


async def test_writing_keeps_the_mode(files: Files) -> None:
    await files.write("run.sh", "a")
    (files.root / "run.sh").chmod(0o755)

    await files.write("run.sh", "b")
    await files.patch("run.sh", "b", "c")

    assert stat.S_IMODE((files.root / "run.sh").stat().st_mode) == 0o755


async def test_a_listing_skips_generated_folders_and_goes_as_deep_as_asked(files: Files) -> None:
    for path in ("a/b/c/d.txt", "node_modules/x.js", ".git/config", "users/telegram/5/x", "z.txt"):
        (files.root / path).parent.mkdir(parents=True, exist_ok=True)
        (files.root / path).write_text("1234")

    assert (await files.list()).text == "a/\nz.txt (4 bytes)"
    assert (await files.list(recursive=True)).text.splitlines() == ["a/", "a/b/", "a/b/c/", "z.txt (4 bytes)"]
    assert "d.txt" in (await files.list(recursive=True, max_depth=4)).text


async def test_a_long_listing_is_cut_with_a_note(files: Files) -> None:
    for number in range(501):
        (files.root / f"{number:03}.txt").touch()

    lines = (await files.list()).text.splitlines()

    assert len(lines) == 501
    assert "cut at 500" in lines[-1]


@pytest.mark.parametrize("folder", ["skills", "hooks"])
async def test_skills_and_hooks_are_read_and_listed_but_not_written(files: Files, folder: str) -> None:
    kept = files.root / folder / "a" / "SKILL.md"
    kept.parent.mkdir(parents=True)
    kept.write_text("as it was")
    (files.root / "way-around").symlink_to(kept.parent)

    assert (await files.read(f"{folder}/a/SKILL.md")).text == "as it was"
    assert "SKILL.md" in (await files.list(f"{folder}/a")).text
    for path in (
        f"{folder}/a/SKILL.md",
        f"{folder.upper()}/b/SKILL.md",
        f"/workspace/{folder}/new",
        "way-around/SKILL.md",
    ):
        assert (await files.write(path, "evil")).is_error, path
    assert (await files.patch(f"{folder}/a/SKILL.md", "was", "is")).is_error
    assert (await files.patch("way-around/SKILL.md", "was", "is")).is_error
    assert kept.read_text() == "as it was"
    assert sorted(str(path.relative_to(files.root)) for path in files.root.rglob("*") if path.is_file()) == [
        f"{folder}/a/SKILL.md"
    ]
