"""A stop is never lost, whenever it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from agent.conversation.envelope import Envelope
from agent.store.base import Store, T, Work
from tests.support.bot import Bot
from tests.support.scripted_llm import Held, ScriptedLLM, say


class Interposed:
    """A store that lets something happen between the commit of a claim and the moment its runner hears of it."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.after_claim: Callable[[], Awaitable[object]] | None = None

    async def write(self, work: Work[T]) -> T:
        result = await self._inner.write(work)
        if isinstance(result, Envelope) and self.after_claim is not None:
            happen, self.after_claim = self.after_claim, None
            await happen()
        return result

    async def read(self, work: Work[T]) -> T:
        return await self._inner.read(work)

    async def read_in_thread(self, work: Work[T]) -> T:
        return await self._inner.read_in_thread(work)

    async def close(self) -> None:
        await self._inner.close()


async def test_stop_that_comes_while_a_turn_is_being_claimed_is_obeyed(tmp_path: Path) -> None:
    bot = Bot(tmp_path, ScriptedLLM([Held(say("never"))]))
    stores: list[Interposed] = []

    def interpose(store: Store) -> Store:
        stores.append(Interposed(store))
        return stores[0]

    bot.wrap_store = interpose
    async with bot:
        stores[0].after_claim = lambda: bot.say("/stop")
        await bot.say("think for ever")
        await bot.post("Stopped.")
        await bot.rest()

    assert bot.llm.requests == []


async def test_stop_between_turns_does_not_stop_the_next_one(tmp_path: Path) -> None:
    async with Bot(tmp_path, ScriptedLLM([say("one"), say("two")])) as bot:
        await bot.say("first")
        await bot.post("one")
        await bot.say("/stop")
        await bot.post("nothing to stop")
        await bot.say("second")
        await bot.post("two")
