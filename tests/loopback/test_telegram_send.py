"""Answers on their way to Telegram, through the real library over real sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import structlog
from pydantic import SecretStr

from channels.base import Accepted, Uncertain
from channels.errors import Migrated, RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Address, Choice, Draft, IncomingMessage, OutgoingMessage, ReplyKind
from channels.settings import TelegramSettings, UncertainSend
from channels.telegram import TelegramChannel
from tests.support.fake_telegram import CANT_PARSE, TOKEN, FakeTelegram, LeapingClock, Refusal, flood, styled
from tests.support.parts import Parts

PRIVATE = Address(channel="telegram", chat_id="7")
GROUP = Address(channel="telegram", chat_id="-100")
LONG = "\n\n".join(f"Paragraph {number}: " + "word " * 300 for number in range(6))


def answer(text: str, **more: Any) -> OutgoingMessage:
    return OutgoingMessage(**{"address": PRIVATE, "text": text, **more})


def said_texts(fake: FakeTelegram) -> list[str]:
    return [params["text"] for params in fake.made("sendMessage")]


async def no_messages(_: IncomingMessage) -> Accepted:
    return Accepted()


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
def clock() -> LeapingClock:
    return LeapingClock()


@asynccontextmanager
async def connected(fake: FakeTelegram, clock: LeapingClock, **more: Any) -> AsyncIterator[TelegramChannel]:
    settings = TelegramSettings(bot_token=SecretStr(TOKEN), api_base_url=fake.base_url, **more)
    channel = TelegramChannel(settings, clock=clock)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(channel.run(no_messages))
        await fake.wait(lambda: bool(fake.offsets))
        yield channel
        task.cancel()


@pytest.fixture
async def channel(fake: FakeTelegram, clock: LeapingClock) -> AsyncIterator[TelegramChannel]:
    async with connected(fake, clock) as running:
        yield running


async def test_answer_is_sent_with_entities_and_without_previews(fake: FakeTelegram, channel: TelegramChannel) -> None:
    platform_id = await channel.send(answer("😀 **bold** and `code`", reply_to="100"), Parts())

    (params,) = fake.made("sendMessage")
    assert params["text"] == "😀 bold and code"
    assert styled(params) == [("bold", "bold"), ("code", "code")]
    assert "parse_mode" not in params
    assert params["link_preview_options"] == {"is_disabled": True}
    assert params["reply_parameters"]["message_id"] == 100
    assert (7, int(platform_id)) in fake.messages


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_blank_answer_is_not_sent(text: str, fake: FakeTelegram, channel: TelegramChannel) -> None:
    assert await channel.send(answer(text), Parts()) == ""
    assert fake.tried("sendMessage") == []


async def test_flood_wait_in_the_middle_repeats_no_part(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    message, delivery = answer(LONG), Parts()
    fake.refuse("sendMessage", None, flood(30))

    with pytest.raises(RateLimited) as caught:
        await channel.send(message, delivery)
    assert caught.value.retry_after == timedelta(seconds=30)
    assert len(delivery.sent) == 1

    clock.advance(timedelta(seconds=30))
    await channel.send(message, delivery)
    assert len(said_texts(fake)) == 3
    assert "".join("".join(said_texts(fake)).split()) == "".join(LONG.split())


async def test_chat_in_flood_wait_is_left_alone_and_others_are_not(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    fake.refuse("sendMessage", flood(30))
    with pytest.raises(RateLimited):
        await channel.send(answer("one"), Parts())

    clock.advance(timedelta(seconds=10))
    with pytest.raises(RateLimited) as caught:
        await channel.send(answer("one"), Parts())
    await channel.send(answer("other", address=GROUP), Parts())

    assert caught.value.retry_after == timedelta(seconds=20)
    assert len(fake.tried("sendMessage")) == 2


async def test_only_first_part_replies_and_only_last_has_buttons(fake: FakeTelegram, channel: TelegramChannel) -> None:
    choices = (Choice(label="Yes", data=f"apr:{uuid4()}:y"), Choice(label="No", data=f"apr:{uuid4()}:n"))

    await channel.send(answer(LONG, choices=choices, reply_to="5"), Parts())

    parts = fake.made("sendMessage")
    assert ["reply_parameters" in part for part in parts] == [True, False, False]
    assert ["reply_markup" in part for part in parts] == [False, False, True]
    (row,) = parts[-1]["reply_markup"]["inline_keyboard"]
    assert [button["text"] for button in row] == ["Yes", "No"]


async def test_every_call_for_a_topic_names_it(fake: FakeTelegram, channel: TelegramChannel) -> None:
    fake.topics.add((-100, 55))
    topic = Address(channel="telegram", chat_id="-100", thread_id="55")

    await channel.send(answer(LONG, address=topic), Parts())
    await channel.show(Draft(id=uuid4(), address=topic))
    await channel.show(Draft(id=uuid4(), address=topic, text="so far"))

    calls = [*fake.tried("sendMessage"), *fake.tried("sendChatAction")]
    assert len(calls) == 5
    assert all(params["message_thread_id"] == "55" for params in calls)


async def test_answer_to_unknown_topic_goes_nowhere_else(fake: FakeTelegram, channel: TelegramChannel) -> None:
    with pytest.raises(Rejected):
        await channel.send(answer("hi", address=GROUP.model_copy(update={"thread_id": "9"})), Parts())

    assert len(fake.tried("sendMessage")) == 1


async def test_refused_entities_are_dropped_once_and_only_once(fake: FakeTelegram, channel: TelegramChannel) -> None:
    fake.refuse("sendMessage", CANT_PARSE)

    await channel.send(answer("**hi**"), Parts())

    first, second = fake.tried("sendMessage")
    assert "entities" in first
    assert "entities" not in second
    assert second["text"] == "hi"


async def test_plain_text_that_is_refused_too_is_given_up(fake: FakeTelegram, channel: TelegramChannel) -> None:
    fake.refuse("sendMessage", CANT_PARSE, CANT_PARSE)

    with pytest.raises(Rejected):
        await channel.send(answer("**hi**"), Parts())

    assert len(fake.tried("sendMessage")) == 2


async def test_text_that_is_too_long_for_telegram_is_cut_smaller(fake: FakeTelegram, channel: TelegramChannel) -> None:
    fake.refuse("sendMessage", Refusal(400, "Bad Request: message is too long"))

    await channel.send(answer("one two three four"), Parts())

    assert said_texts(fake) == ["one two", "three four"]


async def test_vanished_question_is_answered_without_reply(fake: FakeTelegram, channel: TelegramChannel) -> None:
    fake.refuse("sendMessage", Refusal(400, "Bad Request: message to be replied not found"))

    await channel.send(answer("hi", reply_to="5"), Parts())

    assert "reply_parameters" not in fake.made("sendMessage")[0]


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Refusal(403, "Forbidden: bot was blocked by the user"), Rejected),
        (Refusal(400, "Bad Request: chat not found"), Rejected),
        (Refusal(401, "Unauthorized"), Unauthorized),
        (Refusal(500, "Internal Server Error"), Unavailable),
        (Refusal(0, "cut", processed=True), Unavailable),
        (Refusal(400, "Bad Request: group chat was upgraded", {"migrate_to_chat_id": -1001}), Migrated),
    ],
)
async def test_refusals_become_decisions(
    refusal: Refusal, error: type[Exception], fake: FakeTelegram, channel: TelegramChannel
) -> None:
    fake.refuse("sendMessage", refusal)

    with pytest.raises(error):
        await channel.send(answer("hi"), Parts())


async def test_migration_names_the_new_chat(fake: FakeTelegram, channel: TelegramChannel) -> None:
    fake.refuse("sendMessage", Refusal(400, "Bad Request: upgraded", {"migrate_to_chat_id": -1001}))

    with pytest.raises(Migrated) as caught:
        await channel.send(answer("hi", address=GROUP), Parts())

    assert (caught.value.old_chat_id, caught.value.new_chat_id) == ("-100", "-1001")


@pytest.mark.parametrize(
    ("refusal", "maybe"), [(Refusal(0, "cut", processed=True), True), (Refusal(502, "Bad Gateway"), False)]
)
async def test_cut_connection_may_have_sent_and_a_refusal_has_not(
    refusal: Refusal, maybe: bool, fake: FakeTelegram, channel: TelegramChannel
) -> None:
    fake.refuse("sendMessage", refusal)

    with pytest.raises(Unavailable) as caught:
        await channel.send(answer("hi"), Parts())

    assert caught.value.maybe_sent is maybe


async def test_draft_message_becomes_the_answer(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    draft = Draft(id=uuid4(), address=GROUP, text="so", reply_to="5")
    platform_id = await channel.show(draft)
    assert platform_id is not None

    await channel.send(answer(LONG, id=draft.id, address=GROUP, edits=platform_id), Parts())

    assert fake.messages[-100, int(platform_id)]["text"].startswith("Paragraph 0")
    assert said_texts(fake)[0] == "so"
    assert len(fake.made("editMessageText")) == 1
    assert len(fake.made("sendMessage")) == 3


async def test_answer_that_is_shown_already_is_not_edited(fake: FakeTelegram, channel: TelegramChannel) -> None:
    draft = Draft(id=uuid4(), address=GROUP, text="all of it")
    platform_id = await channel.show(draft)

    assert (
        await channel.send(answer("all of it", id=draft.id, address=GROUP, edits=platform_id), Parts()) == platform_id
    )
    assert fake.tried("editMessageText") == []


async def test_unchanged_edit_is_a_success(fake: FakeTelegram, channel: TelegramChannel) -> None:
    platform_id = await channel.send(answer("same"), Parts())

    assert await channel.send(answer("same", edits=platform_id), Parts()) == platform_id
    assert said_texts(fake) == ["same"]


async def test_deleted_draft_is_replaced_by_a_new_message(fake: FakeTelegram, channel: TelegramChannel) -> None:
    await channel.send(answer("hi", edits="4711"), Parts())

    assert said_texts(fake) == ["hi"]


async def test_amendment_changes_the_text_and_drops_the_buttons(fake: FakeTelegram, channel: TelegramChannel) -> None:
    question = answer("Run it?", choices=(Choice(label="Yes", data="apr:1:y"),))
    platform_id = await channel.send(question, Parts())

    await channel.send(answer("Run it? Approved.", kind=ReplyKind.AMENDMENT, edits=platform_id), Parts())

    message = fake.messages[7, int(platform_id)]
    assert message["text"] == "Run it? Approved."
    assert "reply_markup" not in message


async def test_amendment_of_a_deleted_message_is_dropped(fake: FakeTelegram, channel: TelegramChannel) -> None:
    await channel.send(answer("Approved.", kind=ReplyKind.AMENDMENT, edits="4711"), Parts())

    assert said_texts(fake) == []


async def test_private_draft_is_native_paced_and_never_repeated(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    draft = Draft(id=uuid4(), address=PRIVATE, text="a")
    for text, seconds in (("a", 0), ("a b", 0.5), ("a b c", 0.6), ("a b c", 2), ("a b c d", 0)):
        clock.advance(timedelta(seconds=seconds))
        assert await channel.show(draft.model_copy(update={"text": text})) is None

    drafts = fake.made("sendMessageDraft")
    assert [params["text"] for params in drafts] == ["a", "a b c", "a b c d"]
    assert len({params["draft_id"] for params in drafts}) == 1


async def test_no_draft_is_shown_during_a_flood_wait_and_the_answer_arrives_after_it(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    draft = Draft(id=uuid4(), address=GROUP, text="start")
    platform_id = await channel.show(draft)
    fake.refuse("editMessageText", flood(33))
    for number in range(30):
        clock.advance(timedelta(seconds=1))
        shown = draft.model_copy(update={"text": f"start {number}", "platform_id": platform_id})
        assert await channel.show(shown) == platform_id
    assert len(fake.tried("editMessageText")) == 1

    clock.advance(timedelta(seconds=10))
    await channel.send(answer("the end", id=draft.id, address=GROUP, edits=platform_id), Parts())
    assert fake.messages[-100, int(platform_id or 0)]["text"] == "the end"


async def test_draft_after_its_answer_is_not_shown(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    draft = Draft(id=uuid4(), address=GROUP, text="late")
    await channel.send(answer("done", id=draft.id, address=GROUP), Parts())
    clock.advance(timedelta(seconds=5))

    await channel.show(draft)

    assert said_texts(fake) == ["done"]


async def test_long_draft_shows_what_fits_into_one_message(fake: FakeTelegram, channel: TelegramChannel) -> None:
    await channel.show(Draft(id=uuid4(), address=PRIVATE, text=LONG))

    assert fake.made("sendMessageDraft")[0]["text"].endswith("…")


async def test_typing_sign_is_paced(fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock) -> None:
    for _ in range(9):
        await channel.show(Draft(id=uuid4(), address=PRIVATE))
        clock.advance(timedelta(seconds=1))

    assert len(fake.made("sendChatAction")) == 3


async def test_without_streaming_only_typing_is_shown(fake: FakeTelegram, clock: LeapingClock) -> None:
    async with connected(fake, clock, streaming=False) as channel:
        await channel.show(Draft(id=uuid4(), address=PRIVATE, text="so far"))

    assert fake.tried("sendMessageDraft") == []
    assert len(fake.made("sendChatAction")) == 1


async def test_showing_never_raises(fake: FakeTelegram, channel: TelegramChannel) -> None:
    for refusal in (Refusal(403, "Forbidden: blocked"), Refusal(0, "cut"), Refusal(400, "Bad Request: no")):
        fake.refuse("sendChatAction", refusal)
        await channel.show(Draft(id=uuid4(), address=PRIVATE.model_copy(update={"chat_id": str(refusal.status + 1)})))

    assert len(fake.tried("sendChatAction")) == 3


async def test_server_without_native_drafts_gets_typing_signs(
    fake: FakeTelegram, channel: TelegramChannel, clock: LeapingClock
) -> None:
    fake.refuse("sendMessageDraft", Refusal(404, "Not Found"))
    for text in ("a", "b"):
        await channel.show(Draft(id=uuid4(), address=PRIVATE, text=text))
        clock.advance(timedelta(seconds=2))

    assert len(fake.tried("sendMessageDraft")) == 1
    assert len(fake.made("sendChatAction")) == 1


async def test_sending_waits_for_the_connection(fake: FakeTelegram, clock: LeapingClock) -> None:
    channel = TelegramChannel(TelegramSettings(bot_token=SecretStr(TOKEN), api_base_url=fake.base_url), clock=clock)
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(channel.send(answer("early"), Parts()))
        receiving = group.create_task(channel.run(no_messages))
        assert await sending
        receiving.cancel()


async def test_refused_token_ends_waiting_sends(fake: FakeTelegram, clock: LeapingClock) -> None:
    channel = TelegramChannel(TelegramSettings(bot_token=SecretStr("1:wrong"), api_base_url=fake.base_url), clock=clock)

    results = await asyncio.gather(
        channel.send(answer("early"), Parts()), channel.run(no_messages), return_exceptions=True
    )

    assert [type(result) for result in results] == [Unauthorized, Unauthorized]


async def test_burst_of_answers_all_arrive(fake: FakeTelegram, channel: TelegramChannel) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(300):
            address = PRIVATE.model_copy(update={"chat_id": str(number + 1)})
            group.create_task(channel.send(answer(f"to {number}", address=address), Parts()))

    assert sorted(said_texts(fake)) == sorted(f"to {number}" for number in range(300))


async def test_uncertain_message_is_settled_as_the_operator_chose(fake: FakeTelegram, clock: LeapingClock) -> None:
    for setting, expected in ((UncertainSend.SKIP, Uncertain.SKIP), (UncertainSend.RESEND, Uncertain.RESEND)):
        settings = TelegramSettings(bot_token=SecretStr(TOKEN), uncertain_send=setting)
        assert await TelegramChannel(settings).settle(answer("hi"), Parts()) is expected


async def test_private_chat_has_the_id_of_its_person(channel: TelegramChannel) -> None:
    assert await channel.open_private_chat("700100") == "700100"
    for user_id in ("ada", "@ada", "-5", "", "٣"):
        with pytest.raises(Rejected):
            await channel.open_private_chat(user_id)


async def test_faults_of_sending_tell_neither_token_nor_text(
    fake: FakeTelegram, channel: TelegramChannel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    refusals = (Refusal(0, "cut"), Refusal(502, "Bad"), Refusal(403, "Forbidden: x"), Refusal(400, "Bad Request: x"))
    with structlog.testing.capture_logs() as logs:
        for refusal in refusals:
            fake.refuse("sendMessage", refusal)
            with pytest.raises((Unavailable, Rejected)) as caught:
                await channel.send(answer("canary text"), Parts())
            told.append(str(caught.getrepr(style="native", chain=True)))
            told.append(repr(caught.value.__cause__))

    told += [repr(logs), caplog.text]
    assert not any(TOKEN.split(":")[1] in text for text in told)
    assert "canary" not in repr(logs) + caplog.text
