"""What a process remembers of its threads: never anything but what the rows say, and never more reading than needed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from agent.conversation.memories import Counted, ThreadMemories
from agent.conversation.prompt import News, notes_digest, user_text
from agent.llm.messages import AssistantTurn, ChatMessage, UserText
from agent.model.history import HistoryView
from agent.model.ids import ThreadId
from agent.model.session import Thread, ThreadState, TurnState
from agent.store import conversations, turns
from agent.store.base import Transaction, Work
from agent.store.conversations import Prefix
from agent.store.turns import Ending
from tests.support.builders import NOON, make_message, make_thread
from tests.support.memory_store import MemoryStore
from tests.unit.agent.conversation.schema import SCHEMA
from tests.unit.agent.store.rows import begin

T = TypeVar("T")
NOTES = "the plumber comes at four\nand the cat is fed"


class WatchedStore(MemoryStore):
    """Counts reads, and keeps the spans of history that were asked for."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.reads = 0
        self.spans: list[tuple[int, int]] = []

    async def read(self, work: Work[T]) -> T:
        self.reads += 1

        def watched(tx: Transaction) -> T:
            event.listen(tx.connection, "before_cursor_execute", self._note)
            return work(tx)

        return await super().read(watched)

    def _note(self, _c: object, _cursor: object, statement: str, parameters: Any, _x: object, _many: object) -> None:
        if "FROM entries" in statement:
            self.spans.append((parameters[1], parameters[2]))


class Conversation:
    """A thread that is served, here or by another process."""

    def __init__(self) -> None:
        self.store = WatchedStore()
        self.count = 0

    async def turn(self, *messages: ChatMessage) -> tuple[Thread, HistoryView]:
        """A whole turn that adds these messages: the thread as it was claimed, and the history it left."""
        self.count += 1

        def work(tx: Transaction) -> tuple[Thread, HistoryView]:
            thread, turn = begin(tx, self.count)
            ending = Ending(ThreadState.IDLE, TurnState.COMPLETE, messages)
            return thread, turns.settle(tx, thread, turn, ending, NOON)

        return await self.store.write(work)

    async def exchange(self, word: str) -> tuple[Thread, HistoryView]:
        return await self.turn(UserText(word), AssistantTurn(f"re {word}"))

    async def go_to(self, view: HistoryView) -> None:
        thread = await self.thread()
        await self.store.write(lambda tx: turns.change_view(tx, thread, view, NOON))

    async def thread(self) -> Thread:
        def look(tx: Transaction) -> Thread:
            found = conversations.get(tx, begun)
            assert found is not None
            return found

        begun = (await self.store.write(lambda tx: conversations.threads_of(tx, make_thread().user)))[0].id
        return await self.store.write(look)


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


def words(history: tuple[ChatMessage, ...]) -> list[str]:
    return [message.text for message in history]


async def test_whoever_looks_on_leaves_nothing_in_memory(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories, thread = ThreadMemories(conversation.store), await conversation.thread()

    assert words((await memories.peek(thread)).history) == ["a", "re a"]
    assert memories.known(thread.id) is None


async def test_whoever_looks_on_sees_the_rows_and_leaves_what_the_runner_knows(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories, thread = ThreadMemories(conversation.store), await conversation.thread()
    known = await memories.load(thread)
    await conversation.exchange("b")

    assert words((await memories.peek(await conversation.thread())).history) == ["a", "re a", "b", "re b"]
    assert memories.known(thread.id) is known


async def test_looking_at_what_is_known_reads_nothing(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories, thread = ThreadMemories(conversation.store), await conversation.thread()
    known = await memories.load(thread)
    reads = conversation.store.reads

    assert await memories.peek(thread) is known
    assert await memories.load(thread) is known
    assert conversation.store.reads == reads


async def test_first_turn_of_a_thread_reads_nothing() -> None:
    store = WatchedStore()

    assert (await ThreadMemories(store).load(make_thread())).history == ()
    assert store.reads == 0


async def test_turns_of_another_process_are_read_at_once_and_nothing_else(conversation: Conversation) -> None:
    for word in ("a", "b", "c"):
        await conversation.exchange(word)
    memories = ThreadMemories(conversation.store)
    before = await memories.load(await conversation.thread())
    for word in ("d", "e"):
        await conversation.exchange(word)
    conversation.store.reads, conversation.store.spans = 0, []
    after = await memories.load(await conversation.thread())

    assert words(after.history) == [each for word in "abcde" for each in (word, f"re {word}")]
    assert after.history[:6] == before.history
    assert conversation.store.reads == 1
    assert conversation.store.spans == [(6, 10)]


async def test_messages_known_already_stay_the_same_objects(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories = ThreadMemories(conversation.store)
    before = await memories.load(await conversation.thread())
    await conversation.exchange("b")
    after = await memories.load(await conversation.thread())

    assert all(mine is theirs for mine, theirs in zip(after.history, before.history, strict=False))


async def test_history_that_went_back_is_read_anew_and_its_weight_forgotten(conversation: Conversation) -> None:
    await conversation.exchange("a")
    _, view = await conversation.exchange("b")
    memories = ThreadMemories(conversation.store)
    thread = await conversation.thread()
    await memories.load(thread)
    memories.note_prefix(thread.id, Prefix("stamp", "prefix"))
    memories.note_count(thread.id, Counted(4, 1_000))
    await conversation.go_to(view.last(2))
    memory = await memories.load(await conversation.thread())

    assert words(memory.history) == ["b", "re b"]
    assert memory.counted is None
    assert memory.prefix == Prefix("stamp", "prefix")


async def test_own_turns_are_remembered_without_reading(conversation: Conversation) -> None:
    memories = ThreadMemories(conversation.store)
    entries = (UserText("a"), AssistantTurn("re a"))
    thread, view = await conversation.turn(*entries)
    await memories.load(replace(thread, view=HistoryView()))
    memories.extend(thread.id, view, entries)
    conversation.store.reads = 0
    memory = await memories.load(await conversation.thread())

    assert memory.history == entries
    assert conversation.store.reads == 0


async def test_what_does_not_fit_together_is_forgotten(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories = ThreadMemories(conversation.store)
    thread = await conversation.thread()
    await memories.load(thread)
    await conversation.exchange("b")  # another process's
    entries = (UserText("c"), AssistantTurn("re c"))
    _, view = await conversation.turn(*entries)
    memories.extend(thread.id, view, entries)

    assert memories.known(thread.id) is None
    assert words((await memories.load(await conversation.thread())).history) == ["a", "re a", "b", "re b", "c", "re c"]


async def test_turn_that_adds_nothing_changes_nothing(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories, thread = ThreadMemories(conversation.store), await conversation.thread()
    known = await memories.load(thread)
    memories.extend(thread.id, thread.view, ())

    assert memories.known(thread.id) is known


async def test_thread_used_longest_ago_is_forgotten_first() -> None:
    memories = ThreadMemories(WatchedStore(), capacity=2)
    first, second, third = (replace(make_thread(), id=ThreadId(UUID(int=n))) for n in (1, 2, 3))
    await memories.load(first)
    await memories.load(second)
    await memories.load(first)
    await memories.load(third)

    assert [memories.known(each.id) is not None for each in (first, second, third)] == [True, False, True]


# -- notes of the day -----------------------------------------------------------------------------------------------
def telling(notes: str) -> UserText:
    return UserText(user_text([make_message("hello")], NOON, ZoneInfo("UTC"), News(notes=notes)))


async def test_notes_count_as_told_when_the_history_holds_them(conversation: Conversation) -> None:
    memories = ThreadMemories(conversation.store)
    entries = (telling(NOTES), AssistantTurn("ok"))
    thread, view = await conversation.turn(*entries)
    await memories.load(replace(thread, view=HistoryView()))
    assert (await memories.current(thread)).told.notes_digest == ""
    memories.extend(thread.id, view, entries)
    later = (UserText("more"), AssistantTurn("ok"))
    _, view = await conversation.turn(*later)
    memories.extend(thread.id, view, later)

    known = memories.known(thread.id)
    assert known is not None
    assert known.told.notes_digest == notes_digest(NOTES)
    assert (await ThreadMemories(conversation.store).load(await conversation.thread())) == known


async def test_notes_that_were_left_out_are_news_again(conversation: Conversation) -> None:
    await conversation.turn(telling(NOTES), AssistantTurn("ok"))
    _, view = await conversation.exchange("b")
    memories, thread = ThreadMemories(conversation.store), await conversation.thread()
    memory = await memories.load(thread)
    assert memory.told.notes_digest == notes_digest(NOTES)
    memories.swap(thread.id, view.last(2), memory.history[-2:])

    known = memories.known(thread.id)
    assert known is not None
    assert known.told.notes_digest == ""


async def test_notes_that_another_process_told_are_no_news(conversation: Conversation) -> None:
    await conversation.exchange("a")
    memories = ThreadMemories(conversation.store)
    await memories.load(await conversation.thread())
    await conversation.turn(telling(NOTES), AssistantTurn("ok"))

    assert (await memories.load(await conversation.thread())).told.notes_digest == notes_digest(NOTES)


# -- any way of events ----------------------------------------------------------------------------------------------
happenings = st.lists(st.sampled_from(("mine", "theirs", "back", "shorter", "look", "forget")), max_size=20)


@settings(max_examples=50)
@given(happenings)
def test_memory_is_always_what_the_rows_say(events: list[str]) -> None:
    asyncio.run(follow(events))


async def follow(events: list[str]) -> None:
    conversation = Conversation()
    memories = ThreadMemories(conversation.store)
    await conversation.exchange("start")
    for number, happening in enumerate(events):
        thread = await conversation.thread()
        entries = (UserText(f"q{number}"), AssistantTurn(f"a{number}"))
        match happening:
            case "mine":
                await memories.load(thread)
                _, view = await conversation.turn(*entries)
                memories.extend(thread.id, view, entries)
            case "theirs":
                await conversation.turn(*entries)
            case "back":
                positions = len(thread.view)
                await conversation.go_to(
                    HistoryView(tuple((at, at + 1) for at in [*thread.view.positions()][: positions - 2]))
                )
            case "shorter":
                await conversation.go_to(thread.view.last(max(len(thread.view) - 2, 0)))
            case "look":
                await memories.peek(thread)
            case _:
                memories.forget(thread.id)
    thread = await conversation.thread()
    rows = await conversation.store.read(lambda tx: turns.history(tx, thread.id, thread.view))

    memory = await memories.load(thread)
    assert memory.history == rows
    assert memory.view == thread.view
