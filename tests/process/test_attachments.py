"""What a person sends on a platform reaches the model of a bot that runs as a process of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.bot_process import on_fakes, started
from tests.support.documents import pdf, png
from tests.support.fake_llm_api import FakeLLMApi, Say, fake_llm_api
from tests.support.fake_telegram import FakeTelegram


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as server:
        yield server


async def test_photo_and_document_reach_a_model_that_sees(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    api.play(Say("A cat."), Say("It says hello."))
    telegram.files |= {"p1": png(), "d1": pdf("Hello there")}
    variables = on_fakes(tmp_path, telegram, api) | {"LLM_MODEL": "gpt-6.1-sol"}
    async with started(["run"], variables, tmp_path):
        photo = [{"file_id": "p1", "file_unique_id": "u1", "width": 3, "height": 2}]
        await telegram.push(telegram.said(None, photo=photo, caption="what is it?"))
        await telegram.wait(lambda: answers(telegram) == ["A cat."])
        document = {"file_id": "d1", "file_unique_id": "u2", "file_name": "a.pdf", "mime_type": "application/pdf"}
        await telegram.push(telegram.said(None, document=document))
        await telegram.wait(lambda: answers(telegram) == ["A cat.", "It says hello."])

    first, second = (request.body for request in api.requests)
    picture = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
    assert picture in json.dumps(first)
    assert picture in json.dumps(second)
    assert "Hello there" in json.dumps(second)
    kept = {path.name for path in tmp_path.rglob("attachments/*/*")}
    assert kept == {"a.pdf", "picture.jpg"}


def answers(telegram: FakeTelegram) -> list[str]:
    return [params["text"] for params in telegram.made("sendMessage")]
