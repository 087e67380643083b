"""How the Discord adapter keeps, loses and regains its connection, with the real SDK on real sockets."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from channels.base import ChannelState
from channels.errors import Unauthorized, Unavailable
from tests.support.discord_bench import Bench, bench
from tests.support.fake_discord import ALICE, BOT, DIRECT, GENERAL, TOKEN, FakeDiscord


async def test_lost_connection_is_resumed_and_nothing_is_missed() -> None:
    async with bench() as (fake, table):
        await fake.say("before")
        await table.next()
        await fake.drop()
        await fake.say("meanwhile")
        await fake.until(lambda: len(fake.resumes) == 1)
        await fake.say("after")

        assert [(await table.next()).text for _ in range(2)] == ["meanwhile", "after"]
        assert table.accepted.empty()

    assert len(fake.identifies) == 1
    assert fake.resumes[0]["session_id"].startswith("session-")


async def test_request_to_reconnect_is_followed_by_resume() -> None:
    async with bench() as (fake, table):
        await fake.say("before")
        await table.next()
        await fake.ask_to_reconnect()
        await fake.until(lambda: len(fake.resumes) == 1)
        await fake.say("after")

        assert (await table.next()).text == "after"


async def test_ended_session_is_replaced_after_a_pause_and_missed_messages_are_fetched_once() -> None:
    async with bench() as (fake, table):
        await fake.say("known chat")
        await fake.say(f"<@{BOT}> known too", channel=GENERAL, mentions=[BOT])
        known = [await table.next() for _ in range(2)]
        await fake.say("missed in direct", offline=True)
        await fake.say(f"<@{BOT}> missed in server", channel=GENERAL, mentions=[BOT], offline=True)
        await fake.say("own", author=BOT, channel=GENERAL, offline=True)
        old = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
        await fake.say("too old", offline=True, timestamp=old)
        await fake.end_sessions()

        missed = [await table.next() for _ in range(2)]
        await fake.say("live again")
        live = await table.next()

    assert len(known) == 2
    assert sorted(message.text for message in missed) == ["missed in direct", "missed in server"]
    assert all(message.metadata.addressed_to_bot for message in missed)
    assert live.text == "live again"
    assert len(fake.identifies) == 2
    assert any(timedelta(seconds=1) <= pause <= timedelta(seconds=5) for pause in table.clock.slept)


async def test_first_session_fetches_no_history() -> None:
    async with FakeDiscord().serve() as fake:
        await fake.say("long ago")
        table = Bench(fake)
        async with table.running():
            await fake.until(lambda: bool(fake.sessions))
            await fake.say("now")

            assert (await table.next()).text == "now"

    assert fake.made("GET", "/messages") == []


async def test_message_that_could_not_be_stored_comes_again_with_the_next_run() -> None:
    async with FakeDiscord().serve() as fake:
        table = Bench(fake)
        table.refusing = lambda message: message.text == "two"
        task = asyncio.get_running_loop().create_task(table.channel.run(table.accept))
        await fake.until(lambda: bool(fake.sessions))
        for text in ("one", "two", "three"):
            await fake.say(text)
        with pytest.raises(ConnectionAbortedError):
            await task
        table.refusing = lambda _: False

        async with table.running():
            texts = [(await table.next()).text for _ in range(3)]

    assert texts == ["one", "two", "three"]
    assert len(fake.identifies) == 1


@pytest.mark.parametrize("step", ["login", "gateway"])
async def test_wrong_token_is_final_and_names_the_setting(step: str) -> None:
    async with FakeDiscord().serve() as fake:
        table = Bench(fake, bot_token=SecretStr("wrong.token.of-nobody"))
        if step == "gateway":
            table = Bench(fake)
            fake.gateway_token = "another"

        with pytest.raises(Unauthorized) as fault:
            async with asyncio.timeout(10):
                await table.channel.run(table.accept)

    assert "DISCORD_BOT_TOKEN" in fault.value.cure
    assert table.channel.health.state is ChannelState.OFF
    assert TOKEN not in str(fault.value)


async def test_intent_that_is_not_granted_is_final_and_named() -> None:
    async with FakeDiscord().serve() as fake:
        fake.content_intent_granted = False
        table = Bench(fake)

        with pytest.raises(Unauthorized) as fault:
            async with asyncio.timeout(10):
                await table.channel.run(table.accept)

    assert "Message Content Intent" in fault.value.cure
    assert table.channel.health == type(table.channel.health)(ChannelState.OFF, fault.value.cure)


async def test_unreachable_api_is_unavailable() -> None:
    async with FakeDiscord().serve() as fake:
        table = Bench(fake, api_base_url="http://127.0.0.1:9")

        with pytest.raises(Unavailable):
            await table.channel.run(table.accept)

    assert table.channel.health.state is ChannelState.DEGRADED


async def test_gateway_that_stays_away_is_unavailable_after_growing_pauses() -> None:
    async with FakeDiscord().serve() as fake:
        fake.refuse_connections = 100
        table = Bench(fake)

        with pytest.raises(Unavailable):
            async with asyncio.timeout(10):
                await table.channel.run(table.accept)

    assert fake.refuse_connections == 95
    assert len(table.clock.slept) == 4


async def test_short_outage_of_the_gateway_is_bridged_with_resume() -> None:
    async with bench() as (fake, table):
        await fake.say("before")
        await table.next()
        fake.refuse_connections = 2
        await fake.drop()
        await fake.say("meanwhile")

        assert (await table.next()).text == "meanwhile"
        assert table.channel.health.state is ChannelState.CONNECTED

    assert len(fake.identifies) == 1


async def test_health_is_degraded_while_the_connection_is_away() -> None:
    async with bench() as (fake, table):
        await fake.say("before")
        await table.next()
        gate = fake.hold_gateway()
        await fake.drop()
        await fake.until(lambda: fake.waiting_at_gateway > 0)

        while_away = table.channel.health
        gate.set()
        await fake.until(lambda: bool(fake.resumes))
        await fake.say("after")
        await table.next()
        afterwards = table.channel.health

    assert while_away.state is ChannelState.DEGRADED
    assert while_away.reason
    assert afterwards.state is ChannelState.CONNECTED


async def test_cancelling_ends_the_session_and_leaves_no_task_or_thread() -> None:
    async with FakeDiscord().serve() as fake:
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        table = Bench(fake)
        async with table.running():
            await fake.until(lambda: bool(fake.sessions))
            await fake.say("hi")
            await table.next()
        await fake.until(lambda: not fake.sessions)
        for thread in threading.enumerate():
            if thread.name.startswith("keep-alive-handler"):
                await asyncio.to_thread(thread.join, 5)

        assert table.channel.health.state is ChannelState.OFF
        assert not [task for task in asyncio.all_tasks() if "discord" in task.get_name()]
        assert len(asyncio.all_tasks()) <= tasks
        assert not [t for t in threading.enumerate() if t.name.startswith("keep-alive-handler")]
        assert threads >= 1


async def test_cancelling_before_the_login_is_answered_is_clean() -> None:
    async with FakeDiscord().serve() as fake:
        release = fake.hold("/users/@me")
        table = Bench(fake)
        async with table.running():
            await fake.until(lambda: bool(fake.made("GET", "/users/@me")))
        release.set()

    assert fake.identifies == []


async def test_channel_can_run_again_after_it_was_stopped() -> None:
    async with FakeDiscord().serve() as fake:
        table = Bench(fake)
        for text in ("first", "second"):
            async with table.running():
                await fake.until(lambda: bool(fake.sessions))
                await fake.say(text)
                assert (await table.next()).text == text
            await fake.until(lambda: not fake.sessions)

    assert len(fake.identifies) == 2


async def test_logs_hold_neither_token_nor_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with bench() as (fake, table):
        await fake.say("a secret question", author=ALICE, channel=DIRECT)
        await table.next()
        await table.send("a secret answer")

    assert TOKEN not in caplog.text
    assert "secret" not in caplog.text
