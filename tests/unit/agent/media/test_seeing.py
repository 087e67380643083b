from __future__ import annotations

import base64

import pytest

from agent.llm.base import CompletionRequest
from agent.llm.errors import RequestRefused
from agent.llm.messages import ImageRef, UserText
from agent.media.seeing import SeeingProvider
from tests.support.scripted_llm import ScriptedLLM, say

FILES = {"a.png": b"cat", "b.png": b"dog"}


def ref(name: str) -> ImageRef:
    return ImageRef(f"digest of {name}", "image/png", name, name, 3)


def load(image: ImageRef) -> bytes | None:
    return FILES.get(image.place)


def request(*names: str) -> CompletionRequest:
    return CompletionRequest("", [UserText("look", tuple(map(ref, names)))])


def names_shown(llm: ScriptedLLM) -> list[list[str]]:
    return [[digest[-5:] for digest in each.pictures] for each in llm.requests]


async def test_pictures_of_a_conversation_go_along() -> None:
    llm = ScriptedLLM([say("a cat")])

    await SeeingProvider(llm, load).complete(request("a.png"))

    assert llm.requests[0].pictures == {"digest of a.png": base64.b64encode(b"cat")}


async def test_picture_that_is_gone_is_left_out() -> None:
    llm = ScriptedLLM([say("hm")])

    await SeeingProvider(llm, load).complete(request("gone.png", "a.png"))

    assert names_shown(llm) == [["a.png"]]


async def test_refused_picture_does_not_close_the_conversation() -> None:
    llm = ScriptedLLM([say("a cat"), RequestRefused("no"), say("still here"), say("and here")])
    seeing = SeeingProvider(llm, load)

    await seeing.complete(request("a.png"))
    answer = await seeing.complete(request("a.png", "b.png"))
    await seeing.complete(request("a.png", "b.png"))

    assert answer.text == "still here"
    assert names_shown(llm) == [["a.png"], ["a.png", "b.png"], ["a.png"], ["a.png"]]


async def test_refusal_that_no_picture_causes_is_passed_on_and_blames_none() -> None:
    llm = ScriptedLLM([RequestRefused("no"), RequestRefused("no"), say("yes")])
    seeing = SeeingProvider(llm, load)

    with pytest.raises(RequestRefused):
        await seeing.complete(request("a.png"))
    await seeing.complete(request("a.png"))

    assert names_shown(llm) == [["a.png"], [], ["a.png"]]


async def test_request_without_pictures_is_passed_on_as_it_is() -> None:
    llm = ScriptedLLM([say("hi")])
    asked = CompletionRequest("", [UserText("hi")])

    await SeeingProvider(llm, load).complete(asked)

    assert llm.requests[0].pictures == {}
