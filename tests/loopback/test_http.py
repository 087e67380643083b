"""The http tool against a server on this machine: what is sent, what is added, what comes back."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from pydantic import SecretStr

from agent.extensions.services import Carrier, Injection
from agent.model.ids import UserId
from agent.net.client import WebClient, WebRequest
from agent.net.page import Page
from agent.safety.layer import SafetyLayer
from agent.tools.base import Approval, Effect
from agent.tools.builtin.http import Http, HttpArguments
from agent.workspace.scope import GroupScope, PersonScope
from tests.support.tls import HERE, NAME, Names, serving
from tests.support.tool_context import make_context

TOKEN = "plain-opaque-credential-0815"
LEAK = "ghp_" + "a" * 40


class Stored:
    """Credentials of one service on the server's host."""

    def __init__(self, carrier: Carrier = Carrier.HEADER, host: str = NAME) -> None:
        self._host = host
        name, value = ("Authorization", f"Bearer {TOKEN}") if carrier is Carrier.HEADER else ("key", TOKEN)
        self._injection = Injection(carrier, name, SecretStr(value))

    def knows(self, host: str) -> bool:
        return host == self._host

    async def injections(self, user: UserId, host: str) -> Sequence[Injection]:
        return (self._injection,) if self.knows(host) else ()


class Api:
    """Says back what it was told."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        match request.path:
            case "/elsewhere":
                return web.Response(status=307, headers={"Location": "/echo"})
            case "/no":
                return web.json_response({"error": "not allowed"}, status=403)
            case "/data":
                return web.Response(body=b"\x00\x01" * 1000, content_type="application/octet-stream")
        body = await request.text()
        return web.json_response({"method": request.method, "body": body, "headers": dict(request.headers)})

    def url(self, path: str) -> str:
        return f"https://{NAME}:{self.port}{path}"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    made = Api()
    async with serving(tmp_path, made.answer) as made.port:
        yield made


def make_http(tmp_path: Path, stored: Stored | None = None, *, may_save: bool = True) -> Http:
    tls = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    client = WebClient(Names([HERE]), lambda address: address == HERE, tls)
    workspace = tmp_path / "workspace"
    return Http(
        client.send,
        stored or Stored(host="other.example"),
        SafetyLayer().contains_secret,
        workspace,
        lambda context: may_save,
    )


async def test_a_value_goes_as_json_and_text_as_it_is(api: Api, tmp_path: Path) -> None:
    http = make_http(tmp_path)

    for body, sent, media in (({"a": [1]}, '{"a": [1]}', "application/json"), ("a=1", "a=1", None)):
        arguments = HttpArguments.model_validate({"method": "post", "url": api.url("/echo"), "body": body})
        output = await http.run(arguments, make_context())

        assert f'"body": {json.dumps(sent)}' in output.text
        assert api.requests[-1].method == "POST"
        assert media is None or api.requests[-1].headers["Content-Type"] == media


@pytest.mark.parametrize("carrier", list(Carrier))
async def test_a_stored_credential_is_added_and_never_told(api: Api, tmp_path: Path, carrier: Carrier) -> None:
    http = make_http(tmp_path, Stored(carrier))

    output = await http.run(HttpArguments(url=api.url("/echo")), make_context())

    request = api.requests[0]
    assert TOKEN in (request.headers.get("Authorization", "") if carrier is Carrier.HEADER else request.query_string)
    assert "A stored credential was used." in output.text
    assert TOKEN not in output.text


async def test_a_shared_chat_uses_no_stored_credential(api: Api, tmp_path: Path) -> None:
    http = make_http(tmp_path, Stored())

    output = await http.run(HttpArguments(url=api.url("/echo")), make_context(GroupScope("telegram", "-1", "5")))

    assert "Authorization" not in api.requests[0].headers
    assert "private chats alone" in output.text


async def test_a_redirect_takes_no_credential_along(api: Api, tmp_path: Path) -> None:
    output = await make_http(tmp_path, Stored()).run(HttpArguments(url=api.url("/elsewhere")), make_context())
    plain = await make_http(tmp_path).run(HttpArguments(url=api.url("/elsewhere")), make_context())

    assert output.is_error
    assert "elsewhere" in output.text
    assert [request.path for request in api.requests] == ["/elsewhere", "/elsewhere", "/echo"]
    assert not plain.is_error


@pytest.mark.parametrize(
    "leak",
    [
        {"body": f"token: {LEAK}"},
        {"body": {"deep": [LEAK]}},
        {"headers": {"X-Note": LEAK}},
        {"url": f"/echo?note={LEAK}"},
        {"url": f"/echo?note=%67hp_{'a' * 40}"},
    ],
)
async def test_a_secret_is_not_sent(api: Api, tmp_path: Path, leak: dict[str, object]) -> None:
    path = str(leak.pop("url", "/echo"))
    arguments = HttpArguments.model_validate({"method": "POST", "url": api.url(path), **leak})

    output = await make_http(tmp_path).run(arguments, make_context())

    assert output.is_error
    assert LEAK not in output.text
    assert not api.requests


async def test_an_answer_can_be_saved_in_the_folder_of_the_one_who_asks(api: Api, tmp_path: Path) -> None:
    http, ann = make_http(tmp_path), PersonScope("telegram", "41")

    output = await http.run(HttpArguments(url=api.url("/data"), save_to="in/data.bin"), make_context(ann))

    assert "Saved 2,000 bytes to in/data.bin" in output.text
    assert len((tmp_path / "workspace/users/telegram/41/in/data.bin").read_bytes()) == 2000


@pytest.mark.parametrize("path", ["../x", "/etc/x", ".env", "MEMORY.md", "users/telegram/41/x", "skills/a/SKILL.md"])
async def test_an_answer_is_saved_nowhere_else(api: Api, tmp_path: Path, path: str) -> None:
    output = await make_http(tmp_path).run(HttpArguments(url=api.url("/data"), save_to=path), make_context())

    assert output.is_error
    assert not [each for each in (tmp_path / "workspace").rglob("*") if each.is_file()]


async def test_somebody_without_file_tools_saves_nothing(api: Api, tmp_path: Path) -> None:
    http = make_http(tmp_path, may_save=False)

    output = await http.run(HttpArguments(url=api.url("/data"), save_to="x"), make_context())

    assert output.is_error
    assert not api.requests


async def test_what_is_no_text_is_named_and_an_error_status_is_an_error(api: Api, tmp_path: Path) -> None:
    http = make_http(tmp_path)

    data = await http.run(HttpArguments(url=api.url("/data")), make_context())
    refused = await http.run(HttpArguments(url=api.url("/no")), make_context())

    assert "2000 bytes that are no text" in data.text
    assert refused.is_error
    assert "Status: 403" in refused.text
    assert "not allowed" in refused.text


# -- what is decided before anything is sent -----------------------------------------------------------------------
HAND_GIVEN = [
    {"headers": {"Authorization": "x"}},
    {"headers": {"authorization": "Bearer x"}},
    {"headers": [{"name": "X-Api-Key", "value": "x"}]},
    {"headers": {"Cookie": "a=b"}},
    {"headers": {"X-My-Secret": "x"}},
    {"headers": {"X-Csrf-Token": "x"}},
    {"headers": {"X-Note": "Basic abc"}},
    {"headers": {"X-Note": "AWS4-HMAC-SHA256 Credential=x"}},
    {"url": "https://a.example/?access_token=x"},
    {"url": "https://a.example/?API_KEY=x"},
    {"url": "https://a.example/?sig=x"},
    {"url": "https://a.example/?my_password=x"},
]


@pytest.mark.parametrize("given", HAND_GIVEN)
def test_a_credential_given_by_hand_always_asks(tmp_path: Path, given: dict[str, object]) -> None:
    spec = Http(no_send, Stored(), bool, tmp_path, bool).spec
    arguments = HttpArguments.model_validate({"url": "https://a.example/", **given})

    assert spec.assess is not None
    assert spec.assess(arguments) is Approval.ALWAYS


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({"url": "https://a.example/x"}, "https://a.example/x"),
        ({"url": f"https://{NAME}/x"}, None),
        ({"url": "https://a.example/x", "method": "DELETE"}, None),
        ({"url": "https://a.example/x", "headers": {"Accept": "text/plain"}}, None),
        ({"url": "https://a.example/x", "body": "b"}, None),
    ],
)
def test_only_a_plain_get_without_credentials_can_go_unasked(
    tmp_path: Path, given: dict[str, object], address: str | None
) -> None:
    spec = Http(no_send, Stored(), bool, tmp_path, bool).spec
    arguments = HttpArguments.model_validate(given)

    assert spec.told_address is not None
    assert spec.told_address(arguments) == address
    assert spec.assess is not None
    assert spec.assess(arguments) is Approval.UNLESS_ALWAYS


@pytest.mark.parametrize(
    "given",
    [
        {"url": "http://a.example/"},
        {"url": "https://127.0.0.1/"},
        {"url": "https://[::ffff:10.0.0.1]/"},
        {"url": "https://169.254.169.254/latest/meta-data"},
        {"url": "https://user:word@a.example/"},
        {"url": "https://a.example/", "headers": {"Host": "b.example"}},
        {"url": "https://a.example/", "headers": {"X-A": "b\r\nX-C: d"}},
        {"url": "https://a.example/", "headers": {"X A": "b"}},
        {"url": "https://a.example/", "headers": {"Transfer-Encoding": "chunked"}},
        {"url": "https://a.example/", "method": "POST", "body": "x" * 1_100_000},
        {"url": "https://a.example/", "headers": {f"X-{number}": "x" for number in range(50)}},
    ],
)
def test_what_may_not_be_sent_is_refused_before_anybody_is_asked(tmp_path: Path, given: dict[str, object]) -> None:
    spec = Http(no_send, Stored(), bool, tmp_path, bool).spec

    assert spec.check is not None
    assert spec.check(HttpArguments.model_validate(given)) is not None


def test_reading_is_told_from_changing(tmp_path: Path) -> None:
    effect = Http(no_send, Stored(), bool, tmp_path, bool).spec.assess_effect
    get = HttpArguments(url="https://a.example/")

    assert effect is not None
    assert effect(get) is Effect.READ
    assert effect(get.model_copy(update={"save_to": "x"})) is Effect.WRITE
    assert effect(HttpArguments.model_validate({"url": "https://a.example/", "method": "post"})) is Effect.OUTSIDE


async def no_send(request: WebRequest, timeout: timedelta, most_bytes: int) -> Page:
    raise AssertionError("nothing is sent here")
