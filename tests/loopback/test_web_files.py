"""Files on the page: told in events and history, served to whoever may see the page, harmless in a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from agent.store.blobs import Blob
from bot.web.backend import FileView, SentView, TurnView
from channels.message import Address, OutgoingMessage, ReplyKind
from tests.support.parts import PNG, Parts, note, png
from tests.support.web_bench import BEARER, Bench, running_bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_bench() as running:
        yield running


def serve(bench: Bench, blob: Blob) -> str:
    bench.backend.files[blob.file.digest] = FileView(blob.file, blob.data)
    return f"/api/chat/files/{blob.file.digest}"


async def test_plain_image_is_shown(bench: Bench) -> None:
    async with bench.http.get(serve(bench, png("chart.png")), headers=BEARER) as answer:
        assert await answer.read() == PNG
        assert answer.headers["Content-Type"] == "image/png"
        assert answer.headers["Content-Disposition"].startswith("inline;")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "x.js", "fake.png", "naïve; filename=x.txt"])
async def test_anything_else_is_saved_and_never_run(bench: Bench, name: str) -> None:
    async with bench.http.get(serve(bench, note(name, "<svg onload='alert(1)'/>")), headers=BEARER) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert ";" not in answer.headers["Content-Disposition"].partition("filename*=")[2]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


async def test_file_is_served_with_the_token_only(bench: Bench) -> None:
    status, _ = await bench.call("GET", serve(bench, png()), headers={})

    assert status == 401


@pytest.mark.parametrize("digest", ["0" * 64, "..%2f..%2fkeys", "x"])
async def test_file_that_was_not_sent_to_the_page_is_not_found(bench: Bench, digest: str) -> None:
    status, _ = await bench.call("GET", f"/api/chat/files/{digest}")

    assert status == 404


async def test_event_of_a_message_names_its_files(bench: Bench) -> None:
    file = png()
    message = OutgoingMessage(
        address=Address(channel="web", chat_id="main"), kind=ReplyKind.MESSAGE, text="look", files=(file.file,)
    )
    async with bench.events() as events:
        await bench.channel.send(message, Parts(files=[file]))
        event = await events.next()

    assert (event.name, event.data["kind"]) == ("response", "message")
    files = event.data["files"]
    assert isinstance(files, list)
    [told] = files
    assert (told["name"], told["is_image"]) == ("chart.png", True)
    assert told["url"] == serve(bench, file)


async def test_history_has_what_was_sent_during_a_turn(bench: Bench) -> None:
    sent = SentView(UUID(int=9), "look", (note("plan.txt").file,))
    bench.backend.add("main", TurnView(1, "please", "done", "completed", messages=(sent,)))

    _, history = await bench.call("GET", "/api/chat/history")

    turns = history["turns"]
    assert isinstance(turns, list)
    [turn] = turns
    [message] = turn["messages"]
    assert (message["text"], message["message_id"]) == ("look", str(UUID(int=9)))
    assert [each["name"] for each in message["files"]] == ["plan.txt"]
