"""The hub behind the event stream: order, bounds, replay."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import Rejected
from channels.web import EventHub, EventName, PageEvent, Subscription, TooManyStreams, WebChannel


async def drain(stream: Subscription, count: int) -> list[PageEvent]:
    async with asyncio.timeout(1):
        events = [await stream.next() for _ in range(count)]
    return [each for each in events if each is not None]


def publish(hub: EventHub, text: str, key: str | None = None) -> int:
    return hub.publish(EventName.RESPONSE, {"text": text}, user="operator", key=key)


def text_of(event: PageEvent) -> object:
    return json.loads(event.data).get("text")


@given(st.lists(st.none() | st.sampled_from("abc"), max_size=30), st.integers(min_value=0, max_value=30))
async def test_a_page_that_comes_back_misses_nothing_that_still_counts(keys: list[str | None], seen: int) -> None:
    hub = EventHub(first_id=1, capacity=100)
    ids = [publish(hub, str(number), key) for number, key in enumerate(keys)]
    last_id = ids[min(seen, len(ids)) - 1] if seen and ids else 0
    final = {key: event_id for event_id, key in zip(ids, keys, strict=True) if key is not None}
    expected = [i for i, key in zip(ids, keys, strict=True) if i > last_id and (key is None or final[key] == i)]

    with hub.subscribe("operator", last_id) as stream:
        events = await drain(stream, len(expected))

    assert [each.id for each in events] == expected


async def test_an_answer_in_progress_takes_one_place_in_the_buffer() -> None:
    hub = EventHub(first_id=1, capacity=3)
    publish(hub, "before")
    for number in range(50):
        publish(hub, f"draft {number}", key="answer")

    with hub.subscribe("operator", 0) as stream:
        events = await drain(stream, 2)

    assert [text_of(each) for each in events] == ["before", "draft 49"]


async def test_a_slow_page_loses_events_and_is_told() -> None:
    hub = EventHub(first_id=1, queue_capacity=3)

    with hub.subscribe("operator") as stream:
        for number in range(4):
            publish(hub, str(number))
        publish(hub, "after")
        lost, after = await drain(stream, 2)

    assert json.loads(lost.data) == {"code": "events_lost"}
    assert (text_of(after), after.id) == ("after", 5)


async def test_a_slow_page_does_not_slow_others() -> None:
    hub = EventHub(first_id=1, queue_capacity=2)

    with hub.subscribe("operator"), hub.subscribe("operator") as quick:
        for number in range(5):
            publish(hub, str(number))
            assert [text_of(each) for each in await drain(quick, 1)] == [str(number)]


@pytest.mark.parametrize("last_id", [1, 3, 999])
async def test_an_id_of_before_a_restart_or_out_of_the_buffer_is_told_as_lost(last_id: int) -> None:
    hub = EventHub(first_id=10, capacity=5)
    publish(hub, "one")

    with hub.subscribe("operator", last_id) as stream:
        (event,) = await drain(stream, 1)

    assert json.loads(event.data) == {"code": "events_lost"}
    assert event.id == 10


async def test_ids_go_on_increasing_over_a_restart() -> None:
    before = publish(EventHub(), "one")

    assert publish(EventHub(), "two") >= before


async def test_the_limit_of_streams_holds_and_a_place_is_given_back() -> None:
    hub = EventHub(max_streams=1)

    with hub.subscribe("operator"), pytest.raises(TooManyStreams), hub.subscribe("operator"):
        pass
    with hub.subscribe("operator"):
        assert hub.is_full


async def test_events_are_for_their_user_alone_live_and_replayed() -> None:
    hub = EventHub(first_id=1)

    with hub.subscribe("somebody") as live:
        publish(hub, "secret")
        hub.publish(EventName.RESPONSE, {"text": "own"}, user="somebody")
        assert [text_of(each) for each in await drain(live, 1)] == ["own"]
    with hub.subscribe("somebody", 0) as replayed:
        assert [text_of(each) for each in await drain(replayed, 1)] == ["own"]


async def test_a_closed_hub_ends_its_streams() -> None:
    hub = EventHub()

    with hub.subscribe("operator") as stream:
        publish(hub, "late")
        hub.close()
        assert await stream.next() is None


async def test_the_page_has_no_user_but_the_operator() -> None:
    channel = WebChannel(EventHub())

    assert await channel.open_private_chat("operator") == "main"
    with pytest.raises(Rejected):
        await channel.open_private_chat("7")
