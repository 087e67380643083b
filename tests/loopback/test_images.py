"""Pictures through the real SDK and a server on this machine."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import SecretStr

from agent.llm.base import Usage
from agent.llm.errors import AuthenticationFailed, BudgetExceeded, RequestRefused, TransientError
from agent.llm.images import OpenAIImages, Picture
from agent.llm.settings import OpenAISettings
from agent.safety.layer import SafetyLayer
from agent.store.blobs import Blob
from agent.tools.base import ToolContext
from agent.tools.builtin.images import (
    ImageAnalyze,
    ImageAnalyzeArguments,
    ImageDesk,
    ImageEdit,
    ImageEditArguments,
    ImageGenerate,
    ImageGenerateArguments,
    picture_type,
)
from agent.workspace.scope import GroupScope
from channels.message import Address
from tests.support.tool_context import make_context

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
KEY = "sk-" + "a" * 30


@dataclass
class Ledger:
    """Counts calls; refuses once the budget is used up."""

    is_empty: bool = False
    records: list[tuple[str, Usage, Decimal, str]] = field(default_factory=list)

    async def check(self, *, unattended: bool) -> None:
        if self.is_empty:
            raise BudgetExceeded("used up")

    async def record(self, provider: str, model: str, usage: Usage, cost: Decimal, account: str) -> None:
        self.records.append((model, usage, cost, account))


@dataclass
class Posts:
    """What was shown in chats."""

    shown: list[tuple[Address, Sequence[Blob]]] = field(default_factory=list)

    async def post(self, context: ToolContext, address: Address, text: str, files: Sequence[Blob] = ()) -> bool:
        self.shown.append((address, files))
        return True


@dataclass
class Server:
    """OpenAI, as far as pictures go."""

    requests: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    uploads: list[tuple[str, bytes]] = field(default_factory=list)
    status: int = 200
    port: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        if request.content_type == "multipart/form-data":
            fields: dict[str, object] = {}
            form = await request.post()
            for name, value in form.items():
                if isinstance(value, web.FileField):
                    self.uploads.append((value.content_type, value.file.read()))
                else:
                    fields[name] = value
        else:
            fields = await request.json()
        self.requests.append((request.path, fields))
        if self.status != 200:
            return web.json_response({"error": {"message": "no", "code": "bad", "param": None}}, status=self.status)
        if request.path.endswith("/chat/completions"):
            return web.json_response(
                {
                    "choices": [{"message": {"content": "A cat."}}],
                    "usage": {"prompt_tokens": 50, "completion_tokens": 3},
                }
            )
        return web.json_response(
            {
                "created": 1,
                "data": [{"b64_json": base64.b64encode(PNG).decode()}],
                "usage": {"input_tokens": 10, "output_tokens": 1000, "total_tokens": 1010},
            }
        )


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[Server]:
    app = web.Application()
    app.router.add_post("/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with running(Server()) as made:
        yield made


def make_model(server: Server, ledger: Ledger, *, has_key: bool = True) -> OpenAIImages:
    settings = OpenAISettings(
        api_key=SecretStr(KEY) if has_key else None, base_url=f"http://127.0.0.1:{server.port}/v1"
    )
    return OpenAIImages(settings, ledger, model=None, seeing_model="gpt-5.4", timeout=timedelta(seconds=5))


def make_desk(model: OpenAIImages, root: Path, posts: Posts) -> ImageDesk:
    return ImageDesk(model, root, posts, SafetyLayer().contains_secret)


async def test_a_picture_is_made_kept_shown_and_paid(server: Server, tmp_path: Path) -> None:
    ledger, posts = Ledger(), Posts()
    model = make_model(server, ledger)
    context = make_context(GroupScope("telegram", "-1", "5"))

    output = await ImageGenerate(make_desk(model, tmp_path, posts)).run(
        ImageGenerateArguments(prompt="a cat", size="1024x1024"), context
    )
    await model.close()

    assert not output.is_error, output.text
    (saved,) = (tmp_path / "groups/telegram/-1/images").iterdir()
    assert saved.read_bytes() == PNG
    assert [(address, [file.data for file in files]) for address, files in posts.shown] == [(context.address, [PNG])]
    ((path, body),) = server.requests
    assert path == "/v1/images/generations"
    assert (body["prompt"], body["size"], body["n"]) == ("a cat", "1024x1024", 1)
    ((model_name, usage, cost, account),) = ledger.records
    assert (usage, account) == (Usage(10, 1000), str(context.turn))
    assert body["model"] == model_name
    assert cost > 0


async def test_a_picture_is_changed_from_a_file_of_the_folder(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    posts, model = Posts(), make_model(server, Ledger())

    output = await ImageEdit(make_desk(model, tmp_path, posts)).run(
        ImageEditArguments(prompt="with a hat", image_path="cat.png"), make_context()
    )
    await model.close()

    assert not output.is_error, output.text
    assert server.uploads == [("image/png", PNG)]
    assert server.requests[0][0] == "/v1/images/edits"
    assert server.requests[0][1]["prompt"] == "with a hat"
    assert (tmp_path / "cat.png").read_bytes() == PNG
    assert len(posts.shown) == 1


async def test_a_question_about_a_picture_is_answered(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    ledger = Ledger()
    model = make_model(server, ledger)

    output = await ImageAnalyze(make_desk(model, tmp_path, Posts())).run(
        ImageAnalyzeArguments(image_path="cat.png", question="What is it?"), make_context()
    )
    await model.close()

    assert output.text == "A cat."
    assert base64.b64encode(PNG).decode() in json.dumps(server.requests[0][1])
    assert ledger.records[0][:2] == ("gpt-5.4", Usage(50, 3))


async def test_without_a_key_every_tool_says_so_and_asks_nobody(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    desk = make_desk(make_model(server, Ledger(), has_key=False), tmp_path, Posts())

    outputs = [
        await ImageGenerate(desk).run(ImageGenerateArguments(prompt="x"), make_context()),
        await ImageEdit(desk).run(ImageEditArguments(prompt="x", image_path="cat.png"), make_context()),
        await ImageAnalyze(desk).run(ImageAnalyzeArguments(image_path="cat.png"), make_context()),
    ]

    assert all(output.is_error and "OPENAI_API_KEY" in output.text for output in outputs)
    assert not server.requests


@pytest.mark.parametrize("path", ["../cat.png", "note.txt", "missing.png", ".env", "MEMORY.md", "link.png"])
async def test_what_is_no_picture_of_ones_own_is_not_sent(server: Server, tmp_path: Path, path: str) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (tmp_path / "cat.png").write_bytes(PNG)
    (root / "note.txt").write_text("no picture")
    (root / "link.png").symlink_to(tmp_path / "cat.png")
    model = make_model(server, Ledger())

    output = await ImageAnalyze(make_desk(model, root, Posts())).run(
        ImageAnalyzeArguments(image_path=path), make_context()
    )

    assert output.is_error
    assert not server.requests


async def test_a_prompt_with_a_secret_is_not_sent(server: Server, tmp_path: Path) -> None:
    desk = make_desk(make_model(server, Ledger()), tmp_path, Posts())

    output = await ImageGenerate(desk).run(ImageGenerateArguments(prompt=f"write {KEY} on it"), make_context())

    assert output.is_error
    assert not server.requests


async def test_a_used_up_budget_stops_the_call_before_it_is_made(server: Server, tmp_path: Path) -> None:
    desk = make_desk(make_model(server, Ledger(is_empty=True)), tmp_path, Posts())

    output = await ImageGenerate(desk).run(ImageGenerateArguments(prompt="x"), make_context())

    assert output.is_error
    assert "budget" in output.text
    assert not server.requests


@pytest.mark.parametrize(
    ("status", "fault"), [(400, RequestRefused), (401, AuthenticationFailed), (500, TransientError)]
)
async def test_faults_of_the_server_are_told_apart(server: Server, status: int, fault: type[Exception]) -> None:
    server.status = status
    ledger = Ledger()
    model = make_model(server, ledger)

    with pytest.raises(fault):
        await model.draw("x", "auto", "turn")
    await model.close()

    assert not ledger.records


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"RIFF\x00\x00\x00\x00WEBPrest", "image/webp"),
        (b"GIF89arest", "image/gif"),
        (b"<svg/>", None),
        (b"", None),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(data: bytes, media_type: str | None) -> None:
    assert picture_type(data) == media_type
    assert Picture("image/png", data).data == data
