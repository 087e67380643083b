"""An MCP server over HTTP with its authorization server, on one port of this machine."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import Counter
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from aiohttp.test_utils import TestServer

TOOL: dict[str, object] = {
    "name": "lookup",
    "description": "Looks something up.",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    "annotations": {"readOnlyHint": True},
}


class FakeMcpHttp:
    """`token`: what requests must bear; None lets everybody in. `signs_in`: offers OAuth to those who bear none."""

    def __init__(self, *, token: str | None = None, signs_in: bool = False) -> None:
        self.tokens = {token} if token else set()
        self.is_open = token is None and not signs_in
        self.signs_in = signs_in
        self.tools: list[dict[str, object]] = [TOOL]
        self.says = "found"
        self.seen: list[str] = []
        """The Authorization headers of the requests, oldest first."""
        self.counts: Counter[str] = Counter()
        self.expires_in = 3600
        self.refuses_codes = False
        self.refuses_refresh = False
        self.authorize_url: str | None = None
        self.hangs = asyncio.Event()
        self._challenges: dict[str, str] = {}
        self._refresh: set[str] = set()
        self._server = TestServer(self._make_app())

    async def __aenter__(self) -> Self:
        await self._server.start_server()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.close()

    async def stop(self) -> None:
        """Be gone, as after a crash."""
        self._port = self._server.port or 0
        await self._server.close()

    async def start_again(self) -> None:
        """Be there again, at the same address."""
        self._server = TestServer(self._make_app(), port=self._port)
        await self._server.start_server()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def open_link(self, link: str) -> str:
        """What a person does with the link: the address where their browser ends."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
        assert query["code_challenge_method"] == "S256"
        code = f"code-{len(self._challenges)}"
        self._challenges[code] = query["code_challenge"]
        return f"{query['redirect_uri']}?code={code}&state={query['state']}"

    def withdraw_tokens(self) -> None:
        """No token that was given out is taken any more; renewing one still works."""
        self.tokens.clear()

    def _make_app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self._mcp)
        app.router.add_get("/mcp", self._no_stream)
        if self.signs_in:
            app.router.add_get("/.well-known/oauth-protected-resource/mcp", self._resource)
            app.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
            app.router.add_post("/register", self._register)
            app.router.add_post("/token", self._token)
        return app

    async def _mcp(self, request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        self.seen.append(given)
        if not self.is_open and given.removeprefix("Bearer ") not in self.tokens:
            metadata = f'resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
            return web.Response(status=401, headers={"WWW-Authenticate": f"Bearer {metadata if self.signs_in else ''}"})
        message = await request.json()
        self.counts[message["method"]] += 1
        if "id" not in message:
            return web.Response(status=202)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": await self._result(message)}
        return web.json_response(answer)

    async def _result(self, message: dict[str, object]) -> dict[str, object]:
        match message:
            case {"method": "initialize", "params": {"protocolVersion": version}}:
                info = {"name": "fake", "version": "1"}
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case {"method": "tools/list"}:
                return {"tools": self.tools}
            case {"method": "tools/call"}:
                if self.says == "hang":
                    await self.hangs.wait()
                return {"content": [{"type": "text", "text": self.says}]}
            case _:
                return {}

    async def _no_stream(self, request: web.Request) -> web.Response:
        return web.Response(status=405)

    async def _resource(self, request: web.Request) -> web.Response:
        return web.json_response({"resource": self.url, "authorization_servers": [self.base]})

    async def _metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.base,
                "authorization_endpoint": self.authorize_url or f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "registration_endpoint": f"{self.base}/register",
                "code_challenge_methods_supported": ["S256"],
                "response_types_supported": ["code"],
            }
        )

    async def _register(self, request: web.Request) -> web.Response:
        self.counts["register"] += 1
        return web.json_response({**(await request.json()), "client_id": "client-1"}, status=201)

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.counts[str(form["grant_type"])] += 1
        if form["grant_type"] == "refresh_token":
            granted = not self.refuses_refresh and form["refresh_token"] in self._refresh
        else:
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            granted = not self.refuses_codes and self._challenges.pop(str(form["code"]), "") == challenge
        if not granted:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token, refresh = f"access-{sum(self.counts.values())}", f"refresh-{sum(self.counts.values())}"
        self.tokens.add(token)
        self._refresh.add(refresh)
        answer = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": refresh,
        }
        return web.json_response(answer)
