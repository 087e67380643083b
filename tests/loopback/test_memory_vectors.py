"""Search by meaning with the real client against a server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.llm.embeddings import MeteredEmbedder, OpenAIEmbedder, QueryVectors
from agent.llm.errors import BudgetExceeded, LLMError
from agent.llm.settings import OpenAISettings
from agent.loop.cost_guard import CostGuard, Limits
from agent.safety.layer import SafetyLayer
from agent.store import spend
from agent.store.meaning import NearestPassages
from agent.store.open import open_store
from agent.store.search import Hit
from agent.store.sqlite import SqliteStore
from agent.tools.builtin.memory import MemorySearch, MemorySearchArguments
from agent.workspace.scope import GroupScope, OperatorScope, PersonScope, Scope
from agent.workspace.workspace import FolderWorkspace
from bot.archive import StoreLedger
from bot.memory_vectors import MemoryVectors, build_index, build_vectors
from tests.support.fake_clock import FakeClock
from tests.support.fake_llm_api import Break, Fail, FakeLLMApi, fake_llm_api
from tests.support.settings import make_settings
from tests.support.tool_context import make_context

SECRET = "our-own-configured-token"
ME = OperatorScope()
ANN = PersonScope("telegram", "5")
GROUP = GroupScope("telegram", "-9", "5")
MEANINGS = (
    frozenset({"dentist", "teeth", "tooth"}),
    frozenset({"car", "automobile", "vehicle"}),
    frozenset({"canary", "bird"}),
)

NO_LIMITS = Limits()


class Memory:
    """A workspace with its index and vectors, on a real database."""

    def __init__(self, home: Path, api: FakeLLMApi, limits: Limits, variables: Mapping[str, str]) -> None:
        self.api = api
        self.clock = FakeClock()
        self.store = open_store(home)
        self.workspace = FolderWorkspace(home / "workspace", self.clock)
        self.guard = CostGuard(limits, StoreLedger(self.store), self.clock)
        server = {"MEMORY_EMBEDDING_PROVIDER": "openai", "MEMORY_EMBEDDING_BASE_URL": f"{api.url}/v1"}
        settings = make_settings(home, server | dict(variables))
        is_secret = SafetyLayer((SECRET,)).contains_secret
        vectors = build_vectors(settings, self.store, self.clock, self.guard, is_secret)
        assert vectors is not None
        self.vectors: MemoryVectors = vectors
        self.index = build_index(self.store, vectors)

    async def fill(self, *scopes: Scope) -> int:
        """Index what is there, then give it vectors."""
        for scope in scopes or (ME,):
            await self.index.search(self.workspace.corpus(scope), "x")
        return await self.vectors.backfill.fill()

    async def hits(self, query: str, scope: Scope = ME, limit: int = 10) -> tuple[Hit, ...]:
        return await self.index.search(self.workspace.corpus(scope), query, limit)

    async def paths(self, query: str, scope: Scope = ME) -> list[str]:
        return [hit.path for hit in await self.hits(query, scope)]

    async def dollars(self) -> Decimal:
        return await self.store.read(lambda tx: spend.dollars_on(tx, self.clock.now().date()))


@asynccontextmanager
async def memory_at(
    home: Path, api: FakeLLMApi, limits: Limits = NO_LIMITS, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Memory]:
    memory = Memory(home, api, limits, variables or {})
    try:
        yield memory
    finally:
        await memory.vectors.close()
        await memory.store.close()


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as served:
        served.meanings = MEANINGS
        yield served


@pytest.fixture
async def memory(tmp_path: Path, api: FakeLLMApi) -> AsyncIterator[Memory]:
    async with memory_at(tmp_path, api) as opened:
        yield opened


async def test_passage_that_shares_no_word_with_the_query_is_found_by_its_meaning(memory: Memory) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.workspace.write(ME, "garage.md", "New tyres for the automobile.")
    assert await memory.paths("sore tooth") == []

    await memory.fill()

    first, second = await memory.hits("sore tooth")
    assert (first.path, first.word_rank, first.vector_rank, first.score) == ("health.md", None, 1, 1.0)
    assert second.path == "garage.md"


async def test_tool_tells_how_a_passage_was_found(memory: Memory) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.workspace.write(ME, "teeth.md", "Something else about a tooth.")
    await memory.fill()

    asked = MemorySearchArguments(query="dentist")
    output = await MemorySearch(memory.workspace, memory.index).run(asked, make_context(ME))

    first, second = json.loads(output.text)
    assert (first["path"], first["found_by"], first["document_id"]) == ("health.md", "words and meaning", "health.md#0")
    assert (second["path"], second["found_by"]) == ("teeth.md", "meaning")


async def test_what_both_methods_find_comes_first(memory: Memory) -> None:
    await memory.workspace.write(ME, "a.md", "vehicle " * 3)
    await memory.workspace.write(ME, "b.md", "tuesday tuesday tuesday")
    await memory.workspace.write(ME, "c.md", "car on tuesday")
    await memory.fill()

    first = (await memory.hits("car tuesday"))[0]

    assert (first.path, first.score) == ("c.md", 1.0)
    assert first.word_rank is not None
    assert first.vector_rank is not None


async def test_nearest_passage_of_another_owner_is_never_a_candidate(memory: Memory) -> None:
    """Invariant 1: neither as a hit nor by taking up the places of one's own."""
    for number in range(60):
        await memory.workspace.write(ME, f"notes/{number}.md", f"canary canary {number}")
    await memory.workspace.append_memory(GROUP, "canary canary of the group")
    await memory.workspace.write(ANN, "hers.md", "a bird, an automobile and a dentist")
    await memory.fill(ME, ANN, GROUP)

    found = await memory.hits("canary", ANN, limit=20)

    assert [(hit.path, hit.word_rank, hit.vector_rank) for hit in found] == [("hers.md", None, 1)]
    assert {hit.path for hit in await memory.hits("bird", GROUP, limit=20)} == {"MEMORY.md"}
    assert all(hit.path.startswith("notes/") for hit in await memory.hits("bird", limit=20))


async def test_numbers_of_removed_passages_that_are_given_out_again_lead_to_no_old_vector(memory: Memory) -> None:
    """Invariant 1."""
    await memory.workspace.write(ME, "mine.md", "dentist")
    await memory.fill()
    await memory.workspace.delete(ME, "mine.md")
    assert await memory.paths("dentist") == []
    await memory.workspace.write(ANN, "hers.md", "something about an automobile")
    await memory.hits("x", ANN)  # takes the number

    assert await memory.paths("teeth") == []
    assert await memory.paths("teeth", ANN) == []
    await memory.vectors.backfill.fill()
    assert await memory.paths("vehicle", ANN) == ["hers.md"]


@pytest.mark.parametrize("fault", [Fail(500), Fail(401), Fail(429), Fail(400), Fail(200, {"data": []}), Fail(200)])
async def test_fault_of_the_server_leaves_the_search_by_words(memory: Memory, fault: Fail) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.fill()
    memory.api.play_embeddings(fault)

    with capture_logs() as logs:
        (hit,) = await memory.hits("tuesday")

    assert (hit.path, hit.word_rank, hit.vector_rank) == ("health.md", 1, None)
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["search_by_words_only"]
    assert (await memory.hits("tuesday"))[0].vector_rank == 1  # and the next search tries again


async def test_slow_server_leaves_the_search_by_words_and_the_call_is_counted(tmp_path: Path, memory: Memory) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.fill()
    spent = await memory.dollars()
    memory.api.play_embeddings(Break.SILENCE)
    queries = QueryVectors(memory.vectors.embedder)
    nearest = NearestPassages(memory.store, queries, lambda _: False, timedelta(milliseconds=200))

    with capture_logs() as logs:
        assert await nearest.nearest(["@operator"], "tooth " * 1000, 50) == ()

    assert [entry["reason"] for entry in logs] == ["the embedding server was too slow"]
    assert await memory.dollars() > spent


async def test_server_that_is_away_delays_the_vectors_and_nothing_else(tmp_path: Path) -> None:
    async with fake_llm_api() as gone:
        url = gone
    async with memory_at(tmp_path, url) as memory:
        await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")

        with pytest.raises(LLMError):
            await memory.fill()

        assert await memory.paths("tuesday") == ["health.md"]


async def test_used_up_budget_makes_no_call(tmp_path: Path, api: FakeLLMApi) -> None:
    """Invariant 6."""
    async with memory_at(tmp_path, api) as memory:
        await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
        await memory.fill()
        await memory.workspace.write(ME, "later.md", "A tooth.")
    before = len(api.requests)
    async with memory_at(tmp_path, api, Limits(calls_per_hour=1)) as memory:
        with capture_logs() as logs:
            assert await memory.paths("tuesday") == ["health.md"]
        assert [entry["reason"] for entry in logs if entry["event"] == "search_by_words_only"] == ["budget used up"]
        with pytest.raises(BudgetExceeded):
            await memory.vectors.backfill.fill()

    assert len(api.requests) == before


async def test_last_of_a_budget_is_for_people_and_not_for_the_backfill(tmp_path: Path, api: FakeLLMApi) -> None:
    """Invariant 6."""
    async with memory_at(tmp_path, api, Limits(calls_per_hour=5)) as memory:
        await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
        await memory.fill()
        await memory.workspace.write(ME, "more.md", "A tooth.")
        for query in ("one", "two", "three"):
            await memory.hits(query)

        with pytest.raises(BudgetExceeded):
            await memory.vectors.backfill.fill()
        assert await memory.paths("teeth") == ["health.md"]

    assert api.embedded == ["The dentist is on Tuesday.", "one", "two", "three", "teeth"]


async def test_every_call_is_counted_with_its_price(memory: Memory) -> None:
    """Invariant 6."""
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.fill()
    await memory.hits("tooth")

    (spent,) = await memory.store.read(lambda tx: spend.of_account(tx, "memory"))

    assert (spent.model, spent.calls, spent.input_tokens) == ("openai:text-embedding-3-small", 2, 20)
    assert spent.dollars == Decimal(20) * Decimal("0.02") / 1_000_000


async def test_same_query_is_paid_once(memory: Memory) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.fill()

    for _ in range(3):
        await memory.hits("tooth")

    assert memory.api.embedded.count("tooth") == 1


async def test_document_that_is_indexed_again_sends_only_what_is_new(memory: Memory) -> None:
    first, second = ("alpha " * 800).strip(), ("beta " * 800).strip()
    await memory.workspace.write(ME, "long.md", f"{first} {second}")
    await memory.fill()
    sent = len(memory.api.embedded)

    await memory.workspace.append(ME, "long.md", "gamma " * 700)
    await memory.workspace.write(ME, "copy.md", first)
    await memory.fill()

    again = memory.api.embedded[sent:]
    assert first[:100] not in {text[:100] for text in again}
    assert all("gamma" in text or "beta" in text for text in again)


async def test_document_that_is_moved_costs_nothing(memory: Memory) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.fill()
    sent = len(memory.api.embedded)

    (memory.workspace.root / "health.md").rename(memory.workspace.root / "moved.md")

    assert await memory.fill() == 0
    assert await memory.paths("tooth") == ["moved.md"]
    assert memory.api.embedded[sent:] == ["tooth"]


async def test_restart_in_the_middle_goes_on_with_what_is_missing(tmp_path: Path, api: FakeLLMApi) -> None:
    async with memory_at(tmp_path, api) as memory:
        for number in range(40):
            await memory.workspace.write(ME, f"{number}.md", f"note {number} about a tooth")
        await memory.hits("x")
        api.play_embeddings(Fail(429))
        with pytest.raises(LLMError):
            await memory.vectors.backfill.fill()
        api.reached.clear()
        run = asyncio.ensure_future(memory.vectors.backfill.run())
        await api.reached.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    async with memory_at(tmp_path, api) as memory:
        await memory.vectors.backfill.fill()
        done = len(api.embedded)

        assert await memory.vectors.backfill.fill() == 0
        assert len(api.embedded) == done
        assert len(await memory.hits("dentist", limit=50)) == 40


async def test_service_waits_longer_after_each_failure_and_begins_when_the_index_changes(memory: Memory) -> None:
    await memory.workspace.write(ME, "health.md", "The dentist is on Tuesday.")
    await memory.hits("x")
    memory.api.play_embeddings(Fail(500), Fail(500))
    run = asyncio.ensure_future(memory.vectors.backfill.run())
    began = memory.clock.now()
    async with asyncio.timeout(5):
        await memory.clock.wait_for_due(began + timedelta(seconds=30))
        memory.clock.advance(timedelta(seconds=30))
        await memory.clock.wait_for_due(began + timedelta(seconds=90))
        memory.clock.advance(timedelta(seconds=60))
        while not await memory.paths("tooth"):
            await asyncio.sleep(0)
        await memory.workspace.write(ME, "garage.md", "automobile")
        while "garage.md" not in await memory.paths("vehicle"):
            await asyncio.sleep(0)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def test_texts_and_queries_with_secrets_stay_here(memory: Memory) -> None:
    await memory.workspace.write(ME, "keys.md", f"tooth {SECRET}")
    await memory.workspace.write(ME, "health.md", "dentist")
    await memory.fill()

    assert await memory.paths(f"teeth {SECRET}") == ["keys.md"]  # by its words, on this machine
    assert await memory.paths("teeth") == ["health.md"]
    assert all(SECRET not in text for text in memory.api.embedded)
    assert await memory.vectors.backfill.fill() == 0


async def test_other_model_gets_new_vectors_and_old_ones_go(tmp_path: Path, api: FakeLLMApi) -> None:
    async with memory_at(tmp_path, api) as memory:
        await memory.workspace.write(ME, "health.md", "dentist")
        await memory.fill()
    async with memory_at(tmp_path, api, variables={"MEMORY_EMBEDDING_MODEL": "other"}) as memory:
        assert await memory.paths("teeth") == []
        assert api.embedded == ["dentist"]  # nothing to compare with: the query is not paid for
        assert await memory.vectors.backfill.fill() == 1
        assert await memory.paths("teeth") == ["health.md"]
        assert await _models(memory.store) == ["other"]

    assert [request.body["model"] for request in api.requests][-1] == "other"


async def test_dimensions_are_asked_for_and_tell_vectors_apart(tmp_path: Path, api: FakeLLMApi) -> None:
    async with memory_at(tmp_path, api, variables={"MEMORY_EMBEDDING_DIMENSIONS": "256"}) as memory:
        await memory.workspace.write(ME, "health.md", "dentist")
        await memory.fill()
        assert await _models(memory.store) == ["text-embedding-3-small@256"]

    assert api.requests[-1].body["dimensions"] == 256


async def test_text_that_is_too_long_for_the_model_is_sent_shorter(memory: Memory) -> None:
    await memory.workspace.write(ME, "long.md", "tooth " * 700)
    too_long = Fail(400, {"error": {"message": "maximum context length", "code": "context_length_exceeded"}})
    memory.api.play_embeddings(too_long, too_long)

    await memory.fill()

    assert [len(text) for text in memory.api.embedded] == [4199, 4199, 3000]
    assert await memory.paths("dentist") == ["long.md"]


async def test_text_that_the_server_refuses_for_good_is_not_sent_for_ever(memory: Memory) -> None:
    await memory.workspace.write(ME, "odd.md", "tooth")
    memory.api.play_embeddings(*[Fail(422)] * 9)

    await memory.fill()

    assert await memory.vectors.backfill.fill() == 0
    assert await memory.paths("tooth") == ["odd.md"]


async def test_missing_package_is_told_at_the_start_with_its_cure(memory: Memory, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, {"MEMORY_EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": "sk-x"})

    with capture_logs() as logs:
        built = build_vectors(
            settings, memory.store, memory.clock, memory.guard, lambda _: False, installed=lambda _: None
        )

    assert built is None
    assert [(entry["event"], entry["cure"]) for entry in logs] == [
        ("search_by_words_only", "pip install 'optimclaw[vectors]'")
    ]


async def test_key_of_another_server_is_not_shown(tmp_path: Path, api: FakeLLMApi) -> None:
    async with memory_at(tmp_path, api, variables={"OPENAI_API_KEY": "sk-of-openai"}) as memory:
        await memory.workspace.write(ME, "health.md", "dentist")
        await memory.fill()

    assert "sk-of-openai" not in str([request.headers for request in api.requests])


async def test_vectors_can_be_compared_though_the_server_gives_other_lengths(api: FakeLLMApi) -> None:
    embedder = OpenAIEmbedder(
        OpenAISettings(base_url=f"{api.url}/v1"), model=None, dimensions=None, timeout=timedelta(seconds=5)
    )
    metered = MeteredEmbedder(embedder, _Free())

    once, thrice = await metered.embed(("tooth " * 50, "tooth " * 150), unattended=False)
    await metered.close()

    assert len(once) == len(thrice) == 2 * (len(MEANINGS) + 1)
    assert once[:2] == thrice[:2] == b"\x00\x3c"  # 1.0


class _Free:
    async def check(self, *, unattended: bool) -> None: ...

    async def record(self, provider: str, model: str, usage: object, cost: Decimal, account: str) -> None: ...


async def _models(store: SqliteStore) -> Sequence[str]:
    query = "SELECT DISTINCT model FROM search_vectors"
    return await store.read(lambda tx: list(tx.connection.exec_driver_sql(query).scalars()))
