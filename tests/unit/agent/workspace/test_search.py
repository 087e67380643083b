from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.chunks import CHUNK_WORDS, chunk_text, match_expression
from agent.store.search import SEARCH_DDL, SearchIndex
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope
from agent.workspace.workspace import FolderWorkspace
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore

ME = OperatorScope()
ANN = PersonScope("telegram", "5")
GROUP = GroupScope("telegram", "-9", "5")


class World:
    """A workspace with its index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = FolderWorkspace(root, FakeClock())
        self.store = MemoryStore(SEARCH_DDL)
        self.index = SearchIndex(self.store)

    async def paths(self, scope: Scope, query: str) -> list[str]:
        return [hit.path for hit in await self.index.search(self.workspace.corpus(scope), query)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_what_was_written_is_found_by_any_of_its_words(world: World) -> None:
    await world.workspace.append_memory(ME, "The dentist is on Tuesday.")
    await world.workspace.write(ME, "projects/a.md", "Nothing of the kind.")

    assert await world.paths(ME, "when is my DENTIST appointment") == ["MEMORY.md"]


async def test_accents_do_not_matter(world: World) -> None:
    await world.workspace.append_memory(ME, "Frau Müller, café")

    assert await world.paths(ME, "muller") == ["MEMORY.md"]
    assert await world.paths(ME, "CAFE") == ["MEMORY.md"]


async def test_edits_by_hand_are_found_at_once_and_deleted_documents_no_more(world: World) -> None:
    await world.workspace.write(ME, "note.md", "alpha")
    assert await world.paths(ME, "alpha") == ["note.md"]

    (world.root / "note.md").write_text("beta gamma")
    (world.root / "new.md").write_text("delta")
    assert await world.paths(ME, "alpha") == []
    assert await world.paths(ME, "beta") == ["note.md"]
    assert await world.paths(ME, "delta") == ["new.md"]

    (world.root / "note.md").unlink()
    assert await world.paths(ME, "beta") == []


async def test_nobody_finds_what_is_anothers(world: World) -> None:
    """Invariant 1."""
    await world.workspace.append_memory(ME, "canary of the operator")
    await world.workspace.append_memory(ANN, "canary of ann")
    await world.workspace.append_memory(GROUP, "canary of the group")
    await world.workspace.write(GROUP, "people/5.md", "canary of a member")
    (world.root / "AGENTS.md").write_text("canary of the agent")

    async def found(scope: Scope) -> set[str]:
        hits = await world.index.search(world.workspace.corpus(scope), "canary")
        return {hit.text.rsplit(" ", 1)[1] for hit in hits}

    for _ in range(2):  # the second time every scope has been indexed
        assert await found(ME) == {"operator", "agent"}
        assert await found(ANN) == {"ann", "agent"}
        assert await found(GROUP) == {"group", "member", "agent"}
        assert await found(GroupScope("telegram", "-9", "6")) == {"group", "agent"}
        assert await found(GroupScope("telegram", "-10", "5")) == {"agent"}


async def test_files_with_credentials_and_generated_files_are_not_indexed(world: World) -> None:
    for path in (".env", "node_modules/a.md", ".git/config", "b.py", "ok.md"):
        (world.root / path).parent.mkdir(exist_ok=True)
        (world.root / path).write_text("canary")

    assert await world.paths(ME, "canary") == ["ok.md"]


async def test_scores_fall_with_the_rank_from_one(world: World) -> None:
    for number in range(3):
        await world.workspace.write(ME, f"{number}.md", "tea " * (number + 1) + "filler " * 40)

    hits = await world.index.search(world.workspace.corpus(ME), "tea", limit=2)

    assert [hit.score for hit in hits] == [1.0, 0.9839]


async def test_a_store_that_takes_no_writes_still_searches_what_it_has(world: World) -> None:
    await world.workspace.write(ME, "a.md", "alpha")
    assert await world.paths(ME, "alpha") == ["a.md"]
    await world.workspace.write(ME, "b.md", "alpha")

    world.store.refuse_writes = True
    assert await world.paths(ME, "alpha") == ["a.md"]

    world.store.refuse_writes = False
    assert sorted(await world.paths(ME, "alpha")) == ["a.md", "b.md"]


@pytest.mark.parametrize(
    "query", ['"', "NEAR(", "a AND", "* OR -x", "body:tea", "^", "(((", "'; DROP TABLE x", "tea\0", "💥"]
)
async def test_operators_in_a_question_are_words_or_nothing(world: World, query: str) -> None:
    await world.workspace.write(ME, "a.md", "tea and and")

    assert set(await world.paths(ME, query)) <= {"a.md"}


@given(st.text(max_size=60))
def test_a_match_expression_holds_quoted_words_alone(query: str) -> None:
    expression = match_expression(query)

    assert all(part[0] == part[-1] == '"' and '"' not in part[1:-1] for part in expression.split(" OR ") if part)


@given(st.integers(0, 4000))
def test_chunks_cover_the_text_overlap_and_have_no_tiny_rest(count: int) -> None:
    words = [f"w{number}" for number in range(count)]

    chunks = [chunk.split() for chunk in chunk_text("\n".join(words))]

    assert [word for chunk in chunks for word in chunk][:1] == words[:1]
    assert {word for chunk in chunks for word in chunk} == set(words)
    assert all(one[-120:] == other[:120] for one, other in pairwise(chunks))
    assert all(len(chunk) == CHUNK_WORDS for chunk in chunks[:-1])
    assert not chunks[1:] or len(chunks[-1]) - 120 >= 50 or len(chunks[-1]) >= CHUNK_WORDS
