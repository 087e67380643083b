"""Recordings through the real SDK and a server on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

import pytest
from aiohttp import web
from pydantic import SecretStr

from agent.llm.base import Usage
from agent.llm.errors import BudgetExceeded, LLMError, TransientError
from agent.llm.settings import OpenAISettings
from agent.llm.speech import MODEL, OpenAISpeech, Recording

VOICE = Recording("audio/ogg; codecs=opus", b"OggS" + b"v" * 3_996)


@dataclass
class Ledger:
    """Counts calls; refuses once the budget is used up."""

    is_empty: bool = False
    records: list[tuple[str, str, Decimal, str]] = field(default_factory=list)

    async def check(self, *, unattended: bool) -> None:
        if self.is_empty:
            raise BudgetExceeded("used up")

    async def record(self, provider: str, model: str, usage: Usage, cost: Decimal, account: str) -> None:
        self.records.append((provider, model, cost, account))


@dataclass
class Server:
    """OpenAI, as far as recordings go."""

    answer: web.Response | None = None
    requests: list[tuple[str, dict[str, str], tuple[str, str, bytes]]] = field(default_factory=list)
    port: int = 0

    async def handle(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        self.requests.append((request.path, fields, (file.filename, file.content_type, file.file.read())))
        return self.answer or web.json_response({"text": "buy milk", "usage": {"type": "duration", "seconds": 120}})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_post("/{path:.*}", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()


def speech(server: Server, ledger: Ledger, *, has_key: bool = True) -> OpenAISpeech:
    key = SecretStr("sk-" + "a" * 30) if has_key else None
    settings = OpenAISettings(api_key=key, base_url=f"http://127.0.0.1:{server.port}/v1")
    return OpenAISpeech(settings, ledger, timeout=timedelta(seconds=5))


async def test_recording_is_written_down_and_paid_by_the_minute(server: Server) -> None:
    ledger = Ledger()
    model = speech(server, ledger)

    assert await model.transcribe(VOICE, "turn 1") == "buy milk"
    await model.close()

    [(path, fields, file)] = server.requests
    assert path == "/v1/audio/transcriptions"
    assert fields == {"model": MODEL, "response_format": "json"}
    assert file == ("recording.ogg", "audio/ogg", VOICE.data)
    assert ledger.records == [("openai", MODEL, Decimal("0.009"), "turn 1")]


async def test_length_is_estimated_where_the_server_does_not_tell_it(server: Server) -> None:
    ledger = Ledger()
    server.answer = web.json_response({"text": "hi"})
    model = speech(server, ledger)

    await model.transcribe(VOICE, "turn 1")
    await model.close()

    assert ledger.records[0][2] == Decimal("0.00015")


async def test_answer_that_cannot_be_read_is_a_fault_and_paid(server: Server) -> None:
    ledger = Ledger()
    server.answer = web.Response(text="no JSON")
    model = speech(server, ledger)

    with pytest.raises(TransientError):
        await model.transcribe(VOICE, "turn 1")
    await model.close()

    assert len(ledger.records) == 1


async def test_refusal_is_a_fault(server: Server) -> None:
    server.answer = web.json_response({"error": {"message": "bad format", "param": "file"}}, status=400)
    model = speech(server, Ledger())

    with pytest.raises(LLMError):
        await model.transcribe(VOICE, "turn 1")
    await model.close()


async def test_nothing_is_sent_once_the_budget_is_used_up(server: Server) -> None:
    with pytest.raises(BudgetExceeded):
        await speech(server, Ledger(is_empty=True)).transcribe(VOICE, "turn 1")

    assert server.requests == []


def test_only_known_formats_are_taken_and_nothing_without_a_key() -> None:
    server, ledger = Server(port=1), Ledger()

    assert speech(server, ledger).takes("audio/ogg; codecs=opus")
    assert not speech(server, ledger).takes("audio/aiff")
    assert not speech(server, ledger, has_key=False).takes("audio/ogg")
