from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest

from channels.base import ChannelState
from channels.errors import Unauthorized
from channels.message import Choice, OutgoingMessage
from channels.slack import SlackChannel
from tests.support.fake_slack import SIGNING_SECRET, FakeSlack, signed
from tests.support.parts import Parts
from tests.support.slack_bench import DIRECT, Inbox, RestlessClock, running, settings, until

HTTP: dict[str, Any] = {"app_token": None, "signing_secret": SIGNING_SECRET}


def event(slack: FakeSlack, text: str = "hi") -> str:
    return json.dumps({"type": "event_callback", "event_id": "Ev1", "event": slack.say(text, "D1")})


async def post(channel: SlackChannel, body: str, headers: dict[str, str] | None = None) -> tuple[int, str, str]:
    return await channel.handle_events(body.encode(), headers or signed(body, int(time.time())))


async def test_a_signed_event_is_confirmed_after_it_was_accepted() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        inbox.gate.clear()
        async with asyncio.TaskGroup() as group:
            request = group.create_task(post(channel, event(slack)))
            await until(lambda: inbox.seen)
            assert not request.done()
            inbox.gate.set()
        assert not slack.connections

    assert request.result()[0] == 200
    assert [message.text for message in inbox.taken] == ["hi"]


async def test_an_event_that_could_not_be_accepted_is_not_confirmed() -> None:
    inbox = Inbox()
    inbox.failures = 1
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        body = event(slack)
        statuses = [(await post(channel, body))[0] for _ in range(2)]

    assert statuses == [500, 200]


async def test_the_challenge_is_answered() -> None:
    async with FakeSlack() as slack, running(slack, **HTTP) as channel:
        status, _, body = await post(channel, json.dumps({"type": "url_verification", "challenge": "c0ffee"}))

    assert status == 200
    assert "c0ffee" in body


@pytest.mark.parametrize(
    "change",
    [
        {"X-Slack-Signature": "v0=00"},
        {"X-Slack-Signature": ""},
        {"X-Slack-Signature": "v0=é"},
        {"X-Slack-Request-Timestamp": str(int(time.time()) + 100)},
        {"X-Slack-Request-Timestamp": "soon"},
        {"X-Slack-Request-Timestamp": "9" * 400},
        {"X-Slack-Request-Timestamp": "-5"},
    ],
)
async def test_a_request_that_slack_did_not_sign_is_refused(change: dict[str, str]) -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        body = event(slack)
        status, _, _ = await post(channel, body, signed(body, int(time.time())) | change)

    assert status == 401
    assert not inbox.taken


@pytest.mark.parametrize("seconds", [-301, 301])
async def test_an_old_or_early_signature_is_refused(seconds: int) -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        body = event(slack)
        assert (await post(channel, body, signed(body, int(time.time()) + seconds)))[0] == 401
        assert (await post(channel, body, signed(body, int(time.time()), secret="other")))[0] == 401

    assert not inbox.taken


async def test_headers_count_in_any_case() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        body = event(slack)
        headers = {name.upper(): value for name, value in signed(body, int(time.time())).items()}
        assert (await post(channel, body, headers))[0] == 200

    assert len(inbox.taken) == 1


@pytest.mark.parametrize("body", ["{", "[1]", '"x"', "", "payload=%7B", "a=b", "null"])
async def test_a_malformed_body_is_no_message(body: str) -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        await post(channel, body)
        as_json = signed(body, int(time.time())) | {"Content-Type": "application/json"}
        assert (await post(channel, body, as_json))[0] in (200, 400)

    assert not inbox.taken


async def test_a_body_is_not_read_before_its_signature_was_checked() -> None:
    async with FakeSlack() as slack, running(slack, **HTTP) as channel:
        for body in (b"{", b"[1]", b"\xff", b'{"a":' * 100_000):
            status, _, _ = await channel.handle_events(body, {"Content-Type": "application/json"})
            assert status == 401


async def test_presses_and_commands_come_as_forms() -> None:
    inbox = Inbox()
    command = {
        "command": "/optimclaw",
        "text": "explain payload",
        "channel_id": "D1",
        "user_id": "U1",
        "trigger_id": "t",
    }
    async with FakeSlack() as slack, running(slack, inbox, **HTTP) as channel:
        asked = OutgoingMessage(address=DIRECT, text="Which?", choices=(Choice(label="Tea", data="tea"),))
        await channel.send(asked, Parts())
        press = slack.press_payload(slack.shown("D1")[0], "tea")
        for form in ({"payload": json.dumps(press)}, command):
            assert (await post(channel, urlencode(form)))[0] == 200

    assert [message.text for message in inbox.taken] == ["tea", "explain payload"]


async def test_without_a_secret_every_request_is_refused() -> None:
    inbox = Inbox()
    async with FakeSlack() as slack, running(slack, inbox) as channel:
        assert (await post(channel, event(slack)))[0] == 404

    assert not inbox.taken


async def test_deliveries_before_and_after_the_run_are_left_to_be_repeated() -> None:
    async with FakeSlack() as slack:
        channel = SlackChannel(settings(slack, **HTTP), RestlessClock())
        assert (await post(channel, event(slack)))[0] == 503
        async with running(slack, **HTTP) as other:
            pass
        assert (await post(other, event(slack)))[0] == 503


async def test_neither_app_token_nor_secret_is_said_in_words() -> None:
    async with FakeSlack() as slack:
        channel = SlackChannel(settings(slack, app_token=None), RestlessClock())
        with pytest.raises(Unauthorized, match="SLACK_APP_TOKEN"):
            await channel.run(Inbox().accept)

    assert channel.health.state is ChannelState.OFF
