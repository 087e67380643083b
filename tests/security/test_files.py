"""No name, link, race or size of a file gets a tool out of the asker's folder, to credentials or to the bot's rules."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.tool_call import JsonValue, ToolOutput
from agent.tools.base import ToolContext
from agent.tools.builtin import file_tools
from agent.tools.builtin.attachments import read_attachments
from agent.tools.registry import AnyTool
from agent.workspace.errors import PathRefused, WorkspaceError
from agent.workspace.files import read_file
from agent.workspace.paths import is_document, is_guarded, is_hidden, is_sensitive, name_key, normalize
from agent.workspace.places import locate
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope
from tests.security.corpus.paths import GUARDED, HUGE, OUTSIDE, SENSITIVE
from tests.support.tool_context import make_context

SECRET = "zanzibar-outside"
SCOPES: dict[str, Scope] = {
    "operator": OperatorScope(),
    "person": PersonScope("telegram", "7"),
    "group": GroupScope("telegram", "-100", "7"),
}
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture(params=SCOPES)
def scope(request: pytest.FixtureRequest) -> Scope:
    return SCOPES[request.param]


def planted(tmp_path: Path, scope: Scope) -> Path:
    """A workspace with links of every kind in the asker's folder, and a secret beside it. Gives the root."""
    (tmp_path / "secret.txt").write_text(SECRET)
    root = tmp_path / "workspace"
    folder = root / scope.folder
    (folder / "deep").mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    (folder / "link-out").symlink_to(tmp_path)
    (folder / "link-file").symlink_to(tmp_path / "secret.txt")
    (folder / "deep" / "link-up").symlink_to("../../../../../..")
    (folder / ".env").write_text(SECRET)
    (folder / "link-env").symlink_to(".env")
    (folder / "skills").mkdir()
    (folder / "link-skills").symlink_to("skills")
    return root


def tool(root: Path, name: str) -> AnyTool:
    return next(each for each in file_tools(root) if each.spec.name == name)


async def run(root: Path, name: str, scope: Scope, **arguments: JsonValue) -> ToolOutput:
    chosen = tool(root, name)
    context: ToolContext = make_context(scope)
    return await chosen.run(chosen.spec.arguments.model_validate(arguments), context)


@pytest.mark.parametrize("path", [*OUTSIDE, *SENSITIVE])
async def test_nothing_outside_and_no_credential_is_read_written_or_listed(
    path: str, scope: Scope, tmp_path: Path
) -> None:
    root = planted(tmp_path, scope)
    before = {entry: entry.stat().st_mtime_ns for entry in tmp_path.rglob("*") if not entry.is_symlink()}

    said = [
        await run(root, "read_file", scope, path=path),
        await run(root, "list_dir", scope, path=path),
        await run(root, "apply_patch", scope, path=path, old_string="zanzibar", new_string="x"),
        await run(root, "write_file", scope, path=path, content="x"),
    ]
    with suppress(WorkspaceError):
        blob = read_attachments(root, scope, [path], lambda text: False)[0]
        assert SECRET.encode() not in blob.data

    assert not any(SECRET in output.text for output in said)
    assert all(output.is_error for output in (said[0], said[2]))
    inside = root / scope.folder
    changed = {entry for entry, time in before.items() if entry.stat().st_mtime_ns != time and entry != inside}
    assert {entry for entry in changed if not entry.is_relative_to(inside)} == set()
    assert (inside / ".env").read_text() == SECRET
    assert (tmp_path / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("path", SENSITIVE)
async def test_no_spelling_of_a_credential_file_is_written(path: str, scope: Scope, tmp_path: Path) -> None:
    assert (await run(planted(tmp_path, scope), "write_file", scope, path=path, content="x")).is_error


@pytest.mark.parametrize("path", GUARDED)
async def test_bot_does_not_write_what_says_who_it_is(path: str, scope: Scope, tmp_path: Path) -> None:
    assert (await run(planted(tmp_path, scope), "write_file", scope, path=path, content="x")).is_error


@pytest.mark.parametrize("path", HUGE, ids=["long name", "longest name", "deep", "long path", "many bytes"])
async def test_name_without_measure_is_an_error_and_makes_nothing(path: str, scope: Scope, tmp_path: Path) -> None:
    root = planted(tmp_path, scope)
    before = sorted(os.listdir(root / scope.folder))

    for name, more in (("write_file", {"content": "x"}), ("read_file", {}), ("list_dir", {})):
        output = await run(root, name, scope, path=path, **more)
        assert output.is_error
        assert len(output.text) < 1000
    assert sorted(os.listdir(root / scope.folder)) == before


@given(st.text(max_size=40), st.sampled_from(sorted(SCOPES)))
def test_any_text_is_refused_or_names_something_below_the_folder(text: str, name: str) -> None:
    try:
        path = normalize(text)
    except PathRefused:
        return
    assert not path.is_absolute()
    assert ".." not in path.parts
    assert normalize(str(path)) == path
    for judge in (is_hidden, is_guarded):
        assert isinstance(judge(path, SCOPES[name]), bool)


FOLDERS = frozenset({"skills", ".ssh", "users"})
LOOKS = {"s": "\uff53", "k": "\u212a", "i": "\u2170", "e": "\uff45", "n": "\U0001d427", ".": "\uff0e", "A": "\uff21"}


@given(st.sampled_from(["skills", ".env", "AGENTS.md", ".ssh", "users", "SOUL.md", "id_rsa.pem"]), st.data())
def test_case_and_look_alikes_of_a_name_count_as_the_name(name: str, data: st.DataObject) -> None:
    spelled = "".join(
        data.draw(st.sampled_from([letter, letter.upper(), letter.lower(), LOOKS.get(letter, letter)]))
        for letter in name
    )
    path = normalize(f"{spelled}/x" if name in FOLDERS else spelled)

    assert name_key(spelled) == name_key(name)
    judged = (
        is_sensitive(path),
        is_guarded(path, OperatorScope()),
        is_hidden(path, OperatorScope()),
        is_document(path),
    )
    assert any(judged)


@contextmanager
def flipping(place: Path, one: Path, other: Path) -> Iterator[None]:
    """Somebody who swaps a file for a link and back as fast as can be, as a shell in the sandbox could."""
    stop = threading.Event()

    def flip() -> None:
        spare = place.with_name("spare")
        while not stop.is_set():
            for target in (one, other):
                spare.symlink_to(target) if target is other else spare.write_text("mine")
                os.replace(spare, place)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_file_swapped_for_a_link_between_check_and_opening_is_never_followed(tmp_path: Path) -> None:
    root = planted(tmp_path, OperatorScope())
    place = root / "mine.txt"
    outcomes: set[str] = set()

    with flipping(place, place, tmp_path / "secret.txt"):
        for _ in range(400):
            try:
                found = locate(root, OperatorScope(), "mine.txt")
                outcomes.add(read_file(root, found.parts, 1000).data.decode())
            except (WorkspaceError, OSError) as error:
                outcomes.add(type(error).__name__)

    assert SECRET not in outcomes
    assert "mine" in outcomes


def test_folder_swapped_for_a_link_after_the_check_is_never_entered(tmp_path: Path) -> None:
    root = planted(tmp_path, OperatorScope())
    (root / "deep" / "secret.txt").write_text("mine")
    found = locate(root, OperatorScope(), "deep/secret.txt")
    (root / "deep").rename(root / "was-deep")
    (root / "deep").symlink_to(tmp_path)

    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        read_file(root, found.parts, 1000)


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless"])
async def test_what_is_no_file_is_an_error_at_once(kind: str, tmp_path: Path) -> None:
    root = planted(tmp_path, OperatorScope())
    match kind:
        case "pipe":
            os.mkfifo(root / "it")
        case "folder":
            (root / "it").mkdir()
        case _:
            (root / "it").symlink_to("/dev/zero")

    assert (await run(root, "read_file", OperatorScope(), path="it")).is_error
    assert (await run(root, "write_file", OperatorScope(), path="it/x/../y", content="x")).is_error
    with pytest.raises(WorkspaceError):
        read_attachments(root, OperatorScope(), ["it"], lambda text: False)


async def test_link_to_itself_is_an_error(tmp_path: Path) -> None:
    root = planted(tmp_path, OperatorScope())
    (root / "loop").symlink_to("loop")
    (root / "round").symlink_to("deep/../round/x")

    for path in ("loop", "loop/x", "round"):
        assert (await run(root, "read_file", OperatorScope(), path=path)).is_error
