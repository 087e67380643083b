from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from channels.base import ChannelState
from channels.errors import ChannelError, Unauthorized
from channels.message import Choice, OutgoingMessage, ReplyKind
from channels.slack import SlackChannel
from tests.support.fake_slack import BOT_USER, FakeSlack
from tests.support.parts import Parts
from tests.support.slack_bench import CHANNEL, DIRECT, Inbox, RestlessClock, running, settings, until

REQUEST = "11111111-2222-4333-8444-555555555555"


async def test_a_mention_arrives_once_by_key_though_slack_sends_two_events() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        said = slack.say(f"<@{BOT_USER}> hello")
        mention = {key: value for key, value in said.items() if key != "channel_type"} | {"type": "app_mention"}
        for event in (mention, said):
            await (await slack.deliver(event)).acked.wait()

    assert [message.text for message in inbox.taken] == ["hello", "hello"]
    assert len({message.delivery_key for message in inbox.taken}) == 1


async def test_an_envelope_is_acknowledged_only_after_the_message_was_accepted() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        inbox.gate.clear()
        envelope = await slack.deliver(slack.say("hi", "D1"))
        await until(lambda: inbox.seen)
        assert not envelope.acked.is_set()

        inbox.gate.set()
        await envelope.acked.wait()

    assert len(inbox.taken) == 1


async def test_an_envelope_that_could_not_be_accepted_is_left_for_slack_to_repeat() -> None:
    inbox = Inbox()
    inbox.failures = 1
    async with FakeSlack() as slack, running(slack, inbox):
        first = await slack.deliver(slack.say("first", "D1"))
        second = await slack.deliver(slack.say("second", "D1"))
        await second.acked.wait()
        assert not first.acked.is_set()

        await slack.repeat(first)
        await first.acked.wait()

    assert [message.text for message in inbox.taken] == ["second", "first"]


async def test_what_is_not_for_us_is_acknowledged_and_not_handed_on() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        said = slack.say(f"<@{BOT_USER}> https://a.example")
        changed = {"type": "message", "subtype": "message_changed", "channel": "C1", "ts": slack.ts(), "message": said}
        await (await slack.deliver(changed | {"hidden": True})).acked.wait()
        await (await slack.deliver(slack.say("beep", "D1", bot_id="B0OTHER"))).acked.wait()
        await (await slack.send("interactive", {"type": "view_submission", "view": {}})).acked.wait()

    assert not inbox.taken


async def test_deliveries_of_a_strange_shape_are_acknowledged_and_harm_nothing() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        for payload in ({"team": 5}, {"authorizations": [3]}, {"event": "x", "type": "event_callback"}, {"user": [1]}):
            await (await slack.send("events_api", payload)).acked.wait()
        await slack.sockets[-1].send_str("[]")
        await slack.sockets[-1].send_str("{")
        await slack.sockets[-1].send_bytes(b"x")
        await (await slack.deliver(slack.say("hi", "D1"))).acked.wait()

    assert [message.text for message in inbox.taken] == ["hi"]


async def test_a_thread_is_joined_by_a_mention_and_by_an_answer_of_ours_for_a_day() -> None:
    inbox, clock = Inbox(), RestlessClock()
    async with FakeSlack() as slack, running(slack, inbox, clock) as channel:
        asked = slack.say(f"<@{BOT_USER}> hello")
        other = slack.say("no question")
        await (await slack.deliver(asked)).acked.wait()
        answer = OutgoingMessage(address=CHANNEL.model_copy(update={"thread_id": other["ts"]}), text="news")
        await channel.send(answer, Parts())
        for thread in (asked, other):
            await (await slack.deliver(slack.say("and?", thread_ts=thread["ts"]))).acked.wait()
        clock.advance(timedelta(hours=25))
        await (await slack.deliver(slack.say("late", thread_ts=asked["ts"]))).acked.wait()

    assert [message.metadata.addressed_to_bot for message in inbox.taken] == [True, True, True, False]


async def test_names_are_learnt_for_the_next_message_with_one_call_a_person() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        for text in ("one", "two"):
            await (await slack.deliver(slack.say(text, "D1"))).acked.wait()
            await slack.until(lambda: slack.calls_of("users.info"))
        await until(lambda: slack.calls_of("users.info"))
        for text in ("three", "four"):
            await (await slack.deliver(slack.say(text, "D1"))).acked.wait()
        lookups = len(slack.calls_of("users.info"))

    assert lookups == 1
    assert inbox.taken[0].sender.display_name == "U1"
    assert (inbox.taken[-1].sender.display_name, inbox.taken[-1].sender.username) == ("Alice", "alice")


async def test_a_pressed_button_comes_back_in_the_conversation_of_its_question_with_a_note() -> None:
    inbox = Inbox(note="Noted.")
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        asked = slack.say(f"<@{BOT_USER}> run it")
        await (await slack.deliver(asked)).acked.wait()
        prompt = OutgoingMessage(
            address=inbox.taken[0].address,
            kind=ReplyKind.APPROVAL,
            text="Run **it**?",
            choices=(Choice(label="Yes", data=f"apr:{REQUEST}:y"), Choice(label="No", data=f"apr:{REQUEST}:n")),
        )
        await channel.send(prompt, Parts())
        post = slack.shown("C1")[-1]
        await (await slack.press(post, f"apr:{REQUEST}:y")).acked.wait()
        await slack.until(lambda: any(post.ephemeral_for for post in slack.posts.values()))
        whispered = [post for post in slack.posts.values() if post.ephemeral_for]

    question, pressed = inbox.taken
    assert json.loads(pressed.text)["ExecApproval"] == {"request_id": REQUEST, "approved": True, "always": False}
    assert (pressed.address, pressed.external_thread_id) == (question.address, question.external_thread_id)
    assert pressed.metadata.answers_approval == REQUEST
    assert [(post.ephemeral_for, post.text, post.thread_ts) for post in whispered] == [("U1", "Noted.", asked["ts"])]


async def test_a_slash_command_is_taken_as_a_message() -> None:
    inbox = Inbox()
    form = {"command": "/optimclaw", "text": "explain payload", "channel_id": "D1", "user_id": "U1", "trigger_id": "t1"}
    async with FakeSlack() as slack, running(slack, inbox):
        await (await slack.send("slash_commands", form)).acked.wait()

    assert [message.text for message in inbox.taken] == ["explain payload"]


async def test_the_next_connection_stands_before_the_old_one_goes() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox):
        old = slack.sockets[0]
        slack.hold["apps.connections.open"] = asyncio.Event()
        await slack.ask_to_reconnect()
        await slack.until(lambda: len(slack.calls_of("apps.connections.open")) == 2)
        assert not old.closed
        await (await slack.deliver(slack.say("in between", "D1"))).acked.wait()

        slack.hold["apps.connections.open"].set()
        await slack.until(lambda: slack.connections == 2 and old.closed)
        await (await slack.deliver(slack.say("afterwards", "D1"))).acked.wait()

    assert [message.text for message in inbox.taken] == ["in between", "afterwards"]


async def test_a_lost_connection_shows_and_is_made_again_with_growing_waits() -> None:
    inbox, clock = Inbox(), RestlessClock()
    async with FakeSlack() as slack, running(slack, inbox, clock) as channel:
        slack.fail("apps.connections.open", times=3, status=503)
        slack.hold["apps.connections.open"] = asyncio.Event()
        slack.drop()
        await slack.until(lambda: len(slack.calls_of("apps.connections.open")) == 2)
        assert channel.health.state is ChannelState.DEGRADED

        slack.hold["apps.connections.open"].set()
        await slack.until(lambda: slack.connections == 2)
        await until(lambda: channel.health.state is ChannelState.CONNECTED)
        await (await slack.deliver(slack.say("back", "D1"))).acked.wait()

    waits = [wait.total_seconds() for wait in clock.slept[:4]]
    assert len(waits) == 4
    assert all(0.8 * expected <= wait <= expected for wait, expected in zip(waits, (1, 2, 4, 8), strict=True))


async def test_a_socket_on_which_nothing_is_heard_is_replaced() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack:
        slack.answers_pings = False
        async with running(slack, inbox, heartbeat=timedelta(milliseconds=40)):
            slack.answers_pings = True
            await slack.until(lambda: slack.connections >= 2)
            await until(lambda: slack.sockets)
            await (await slack.deliver(slack.say("heard", "D1"))).acked.wait()

    assert [message.text for message in inbox.taken] == ["heard"]


async def test_slack_that_does_not_greet_is_not_connected() -> None:
    async with FakeSlack() as slack:
        slack.greets = False
        channel = SlackChannel(settings(slack), RestlessClock())
        async with asyncio.TaskGroup() as group:
            task = group.create_task(channel.run(Inbox().accept))
            await slack.until(lambda: slack.connections == 1)
            assert channel.health.state is ChannelState.STARTING
            slack.greets = True
            slack.drop()
            await until(lambda: channel.health.state is ChannelState.CONNECTED)
            task.cancel()


async def test_no_connection_is_left_after_the_end() -> None:
    async with FakeSlack() as slack:
        async with running(slack) as channel:
            await slack.ask_to_reconnect()
            await slack.until(lambda: slack.connections == 2)
        await slack.until(lambda: not slack.sockets)

        assert channel.health.state is ChannelState.OFF


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"bot_token": "xoxb-wrong"}, "SLACK_BOT_TOKEN"), ({"app_token": "xapp-wrong"}, "SLACK_APP_TOKEN")],
)
async def test_a_refused_token_is_final_and_says_which_one(wrong: dict[str, str], named: str) -> None:
    async with FakeSlack() as slack:
        channel = SlackChannel(settings(slack, **wrong), RestlessClock())
        with pytest.raises(Unauthorized, match=named):
            await channel.run(Inbox().accept)

        assert channel.health.state is ChannelState.OFF
        assert named in channel.health.reason
        with pytest.raises(Unauthorized):
            await channel.send(OutgoingMessage(address=DIRECT, text="hi"), Parts())


async def test_a_message_that_waits_for_the_connection_learns_that_none_will_come() -> None:
    async with FakeSlack() as slack:
        slack.hold["auth.test"] = asyncio.Event()
        channel = SlackChannel(settings(slack, bot_token="xoxb-wrong"), RestlessClock())
        async with asyncio.TaskGroup() as group:
            run = group.create_task(_outcome(channel.run(Inbox().accept)))
            sending = group.create_task(_outcome(channel.send(OutgoingMessage(address=DIRECT, text="hi"), Parts())))
            await slack.until(lambda: slack.calls_of("auth.test"))
            slack.hold["auth.test"].set()

    assert isinstance(run.result(), Unauthorized)
    assert isinstance(sending.result(), Unauthorized)


async def _outcome(work: Awaitable[object]) -> ChannelError | None:
    try:
        await work
    except ChannelError as error:
        return error
    return None


async def test_slack_being_away_at_start_is_waited_for() -> None:
    clock = RestlessClock()
    async with FakeSlack() as slack:
        slack.fail("auth.test", times=2, status=502)
        slack.fail("auth.test", status=429, error="ratelimited", retry_after="7")
        async with running(slack, clock=clock):
            pass

    assert clock.slept[2] == timedelta(seconds=7)


async def test_no_secret_and_no_text_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    inbox = Inbox()
    inbox.failures = 1
    with capture_logs() as logged:
        async with FakeSlack() as slack, running(slack, inbox, signing_secret="signing-secret-canary") as channel:
            await slack.deliver(slack.say("text-canary", "D1"))
            await (await slack.deliver(slack.say("text-canary too", "D1"))).acked.wait()
            await channel.handle_events(b"text-canary", {"X-Slack-Signature": "v0=canary"})
            await channel.send(OutgoingMessage(address=DIRECT, text="text-canary"), Parts())
            slack.drop()
            await slack.until(lambda: slack.connections == 2)

    records = [record.getMessage() for record in caplog.records if not record.name.startswith("aiohttp.server")]
    assert "canary" not in "\n".join(records)
    assert "canary" not in repr(logged)
    assert any(entry["event"] == "slack_delivery_failed" for entry in logged)
    assert not slack.violations
