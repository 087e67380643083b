"""What is shown while a turn runs: nothing for quick answers, else the typing sign and the text as it is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from uuid import UUID, uuid4

from sqlalchemy import select

from agent.conversation.live import TextSoFar, ToolBegan, ToolEnded, TurnBegan, TurnEnded, TurnPlace
from agent.llm.base import Completion, CompletionRequest, FinishReason, OnText
from agent.model.ids import ThreadId
from agent.store.base import Transaction
from agent.store.open import open_store
from agent.store.tables import drafts
from bot.presenter import Presenter
from channels.message import Address, Draft, StepState, ToolStep
from tests.support.bot import Bot
from tests.support.fake_clock import FakeClock
from tests.support.memory_channel import MemoryChannel
from tests.support.memory_store import MemoryStore
from tests.support.scripted_llm import ScriptedLLM, say

HERE = Address(channel="telegram", chat_id="1")
KEY = "sk-proj-" + "Ab3dEf6hIj" * 4


class DraftingChannel(MemoryChannel):
    """Remembers when each draft was shown, and shows them as a message that can be edited."""

    name: ClassVar[str] = "telegram"

    def __init__(self, name: str = "telegram") -> None:
        super().__init__(name)
        self.shown_at: list[float] = []
        self.steps: list[ToolStep] = []
        self.shown = asyncio.Condition()
        self.slow: asyncio.Event | None = None

    async def show(self, draft: Draft) -> str | None:
        self.drafts.append(draft)
        self.shown_at.append(time.monotonic())
        async with self.shown:
            self.shown.notify_all()
        if self.slow is not None:
            await self.slow.wait()
        return "draft-1" if draft.text else None

    async def show_step(self, step: ToolStep) -> None:
        self.steps.append(step)
        async with self.shown:
            self.shown.notify_all()

    async def drafted(self, text: str) -> None:
        async with asyncio.timeout(5), self.shown:
            await self.shown.wait_for(lambda: any(text in draft.text for draft in self.drafts))


@dataclass
class StreamingLLM(ScriptedLLM):
    """Says its pieces one after the other; an event among them makes it wait."""

    pieces: Sequence[str | asyncio.Event] = ()
    said: list[str] = field(default_factory=list)

    async def complete(self, request: CompletionRequest, on_text: OnText | None = None) -> Completion:
        self.requests.append(request)
        for piece in self.pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                self.said.append(piece)
                if on_text is not None:
                    on_text(piece)
        return Completion("".join(self.said), FinishReason.STOP, model="scripted-1")


@asynccontextmanager
async def streaming(home: Path, llm: ScriptedLLM) -> AsyncIterator[tuple[Bot, DraftingChannel]]:
    """A bot whose Telegram shows drafts at the pace of a surface of its own."""
    bot = Bot(home, llm)
    channel = DraftingChannel()
    bot.channels["telegram"] = bot.telegram = channel
    bot.steps = {"telegram": channel}
    async with bot:
        yield bot, channel


@asynccontextmanager
async def presenting(home: Path, *, quick: bool = True) -> AsyncIterator[tuple[Presenter, DraftingChannel]]:
    """A presenter on one channel, at a terminal's pace or at a platform's."""
    store, channel = open_store(home), DraftingChannel()
    channels, steps = {"telegram": channel}, {"telegram": channel} if quick else {}
    presenter = Presenter(channels, steps, store, FakeClock())
    async with asyncio.TaskGroup() as group:
        service = group.create_task(presenter.run())
        await asyncio.sleep(0)
        yield presenter, channel
        service.cancel()
    await store.close()


def place() -> TurnPlace:
    return TurnPlace(ThreadId(UUID(int=1)), uuid4(), HERE)


# -- the presenter ---------------------------------------------------------------------------------------------
async def test_quick_answer_is_preceded_by_no_sign(tmp_path: Path) -> None:
    async with presenting(tmp_path, quick=False) as (presenter, channel):
        here = place()
        presenter.publish(TurnBegan(here))
        presenter.publish(TextSoFar(here, lambda: "hi"))
        await asyncio.sleep(0)
        await presenter.rest(here)
        await asyncio.sleep(1.2)

    assert channel.drafts == []


async def test_platform_is_shown_typing_first_and_then_text_at_most_once_a_second(tmp_path: Path) -> None:
    async with presenting(tmp_path, quick=False) as (presenter, channel):
        here, began = place(), time.monotonic()
        presenter.publish(TurnBegan(here))
        async with asyncio.timeout(5), channel.shown:
            await channel.shown.wait_for(lambda: bool(channel.drafts))
        for number in range(1000):
            presenter.publish(TextSoFar(here, lambda number=number: f"text {number}"))  # type: ignore[misc]
        await channel.drafted("text 999")
        await presenter.rest(here)

    assert [draft.text for draft in channel.drafts] == ["", "text 999"]
    assert channel.shown_at[0] - began >= 0.95
    assert channel.shown_at[1] - channel.shown_at[0] >= 0.95


async def test_draft_keeps_its_id_and_its_message_from_sight_to_sight(tmp_path: Path) -> None:
    async with presenting(tmp_path) as (presenter, channel):
        here = place()
        presenter.publish(TurnBegan(here))
        for text in ("one", "two", "three"):
            presenter.publish(TextSoFar(here, lambda text=text: text))  # type: ignore[misc]
            await channel.drafted(text)
        await presenter.rest(here)

    texts = [draft for draft in channel.drafts if draft.text]
    assert {draft.id for draft in texts} == {here.reply_id}
    assert [draft.platform_id for draft in texts] == [None] + ["draft-1"] * (len(texts) - 1)


async def test_rest_waits_for_the_draft_under_way_and_nothing_is_shown_after_it(tmp_path: Path) -> None:
    async with presenting(tmp_path) as (presenter, channel):
        channel.slow = asyncio.Event()
        here = place()
        presenter.publish(TurnBegan(here))
        presenter.publish(TextSoFar(here, lambda: "half an answ"))
        await channel.drafted("half")
        resting = asyncio.ensure_future(presenter.rest(here))
        await asyncio.sleep(0)
        assert not resting.done()
        channel.slow.set()
        await resting
        count = len(channel.drafts)
        presenter.publish(TextSoFar(here, lambda: "half an answer and more"))
        presenter.publish(TurnEnded(here))
        await asyncio.sleep(0.25)

    assert len(channel.drafts) == count


async def test_two_turns_are_shown_apart(tmp_path: Path) -> None:
    async with presenting(tmp_path) as (presenter, channel):
        one, other = place(), place()
        for here, text in ((one, "first"), (other, "second")):
            presenter.publish(TurnBegan(here))
            presenter.publish(TextSoFar(here, lambda text=text: text))  # type: ignore[misc]
        await channel.drafted("first")
        await channel.drafted("second")
        await presenter.rest(one)
        presenter.publish(TextSoFar(other, lambda: "second, longer"))
        await channel.drafted("second, longer")
        await presenter.rest(other)

    assert {(draft.id, draft.text[:5]) for draft in channel.drafts if draft.text} == {
        (one.reply_id, "first"),
        (other.reply_id, "secon"),
    }


async def test_tool_steps_are_shown_where_the_channel_shows_them(tmp_path: Path) -> None:
    async with presenting(tmp_path) as (presenter, channel):
        here = place()
        presenter.publish(ToolBegan(here, "c1", "shell"))
        presenter.publish(ToolEnded(here, "c1", "shell", ok=False, preview="no"))
        async with asyncio.timeout(5), channel.shown:
            await channel.shown.wait_for(lambda: len(channel.steps) == 2)

    assert [(step.state, step.detail) for step in channel.steps] == [(StepState.STARTED, ""), (StepState.FAILED, "no")]


async def test_database_that_is_away_costs_no_more_than_the_drafts_id(tmp_path: Path) -> None:
    store, channel = MemoryStore(), DraftingChannel()
    store.refuse_writes = True
    presenter = Presenter({"telegram": channel}, {"telegram": channel}, store, FakeClock())
    async with asyncio.TaskGroup() as group:
        service = group.create_task(presenter.run())
        await asyncio.sleep(0)
        here = place()
        presenter.publish(TurnBegan(here))
        for text in ("one", "one two"):
            presenter.publish(TextSoFar(here, lambda text=text: text))  # type: ignore[misc]
            await channel.drafted(text)
        await presenter.rest(here)
        assert not service.done()
        service.cancel()


# -- the whole path --------------------------------------------------------------------------------------------
async def test_answer_replaces_its_draft(tmp_path: Path) -> None:
    go = asyncio.Event()
    llm = StreamingLLM(pieces=["Once upon ", "a time ", go, "there was."])
    async with streaming(tmp_path, llm) as (bot, channel):
        await bot.say("tell me a story")
        await channel.drafted("Once upon")
        go.set()
        post = await bot.post("there was.")

    assert post.message.edits == "draft-1"
    assert {draft.id for draft in channel.drafts} == {post.message.id}
    assert len(channel.posted) == 1


async def test_answer_replaces_the_draft_of_a_process_that_was_killed(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with streaming(tmp_path, StreamingLLM(pieces=["Once upon a time ", go])) as (bot, channel):
        await bot.say("tell me a story")
        await channel.drafted("Once upon")
        async with asyncio.timeout(5):
            while not await bot.store.read(_has_draft):
                await asyncio.sleep(0.01)
    async with Bot(tmp_path, ScriptedLLM([say("The end.")])) as bot:
        post = await bot.post("The end.")

    assert post.message.edits == "draft-1"


def _has_draft(tx: Transaction) -> bool:
    return tx.connection.execute(select(drafts)).first() is not None


async def test_no_part_of_a_secret_shows_in_a_draft_however_it_is_cut(tmp_path: Path) -> None:
    shown = asyncio.Event()
    pieces: list[str | asyncio.Event] = ["The key of the house is ", *KEY, " and that is all there is to say.", shown]
    llm = StreamingLLM(pieces=pieces)
    async with streaming(tmp_path, llm) as (bot, channel):
        await bot.say("what is the key?")
        await channel.drafted("The key")
        shown.set()
        post = await bot.post("The key of the house")
        texts = [draft.text for draft in channel.drafts]

    assert KEY not in post.text
    assert all(KEY[:length] not in text for text in texts for length in (12, len(KEY)))
    assert not any("sk-proj-A" in text for text in texts)


async def test_secret_that_arrives_slowly_is_never_half_shown(tmp_path: Path) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    parts = ["The key of the house is ", KEY[:9], KEY[9:30], KEY[30:], " and so on, and so on."]
    pieces = [each for pair in zip(parts, [*gates, asyncio.Event()], strict=True) for each in pair]
    async with streaming(tmp_path, StreamingLLM(pieces=pieces)) as (bot, channel):
        await bot.say("what is the key?")
        await channel.drafted("The key")
        for gate in gates:
            count = len(channel.drafts)
            gate.set()
            async with asyncio.timeout(5), channel.shown:
                await channel.shown.wait_for(lambda count=count: len(channel.drafts) > count + 1)  # type: ignore[misc]
        texts = [draft.text for draft in channel.drafts]

    assert not any(KEY[:start] in text for text in texts for start in range(9, len(KEY)))


async def test_thinking_is_not_shown(tmp_path: Path) -> None:
    go = asyncio.Event()
    llm = StreamingLLM(pieces=["<thi", "nk>let me plot", "</think>", "Here is ", "the plan. ", go, "Done."])
    async with streaming(tmp_path, llm) as (bot, channel):
        await bot.say("plan")
        await channel.drafted("Here is")
        go.set()
        post = await bot.post("Done.")

    assert "plot" not in post.text + "".join(draft.text for draft in channel.drafts)


async def test_quick_answer_of_the_whole_bot_shows_no_draft(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("hi")])) as bot:
        await bot.say("hello")
        await bot.post("hi")

    assert bot.telegram.drafts == []
