"""The page itself: a closed set of files, and the door before it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from aiohttp import web

from bot.web.access import cookie_name, cookie_value, is_same
from bot.web.errors import Refused

COOKIE_SECONDS = 30 * 24 * 3600
_TYPES: Mapping[str, str] = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page in memory."""

    body: bytes
    content_type: str
    etag: str


async def load_static() -> Mapping[str, StaticFile]:
    """The files of the page by name."""
    return await asyncio.to_thread(_load)


def _load() -> Mapping[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for entry in files("bot.web").joinpath("static").iterdir():
        content_type = _TYPES.get(entry.name.rpartition(".")[2])
        if content_type is not None:
            body = entry.read_bytes()
            found[entry.name] = StaticFile(body, content_type, hashlib.sha256(body).hexdigest()[:16])
    return found


class Door:
    """Turns the printed link into a cookie that scripts cannot read, and recognises the cookie."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._cookie_value = cookie_value(token)
        self._cookie_name = cookie_name(0)

    def name_cookie_after(self, port: int) -> None:
        """Told once, when the port is known."""
        self._cookie_name = cookie_name(port)

    def is_open_to(self, request: web.Request) -> bool:
        """Whether the request carries the page's cookie."""
        given = request.cookies.get(self._cookie_name)
        return given is not None and is_same(given, self._cookie_value)

    def enter(self, given: str) -> web.StreamResponse | None:
        """The answer to a link with this token: a cookie and the page without the token in its address."""
        if not is_same(given, self._token):
            return None
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            self._cookie_name,
            self._cookie_value,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="Strict",
            path="/",
        )
        return response


class Pages:
    """The request handlers of `/` and `/static/`."""

    def __init__(self, door: Door, static: Mapping[str, StaticFile]) -> None:
        self._door = door
        self._static = static

    async def index(self, request: web.Request) -> web.StreamResponse:
        given = request.query.get("token")
        if given is not None:
            entered = self._door.enter(given)
            if entered is not None:
                return entered
        elif self._door.is_open_to(request):
            return _answer(request, self._static["index.html"])
        return _answer(request, self._static["closed.html"], status=401)

    async def static(self, request: web.Request) -> web.StreamResponse:
        found = self._static.get(request.match_info["name"])
        if found is None or found.content_type == "text/html":
            raise Refused(404, "not_found", "There is no such file.")
        return _answer(request, found)


def _answer(request: web.Request, file: StaticFile, status: int = 200) -> web.StreamResponse:
    headers = {"Cache-Control": "no-store"} if file.content_type == "text/html" else {"Cache-Control": "no-cache"}
    if status == 200 and headers["Cache-Control"] == "no-cache":
        headers["ETag"] = f'"{file.etag}"'
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
    return web.Response(status=status, body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)
