"""The web server: the page, its API and events, platform deliveries, health and metrics, in one application."""

from __future__ import annotations

import errno
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import structlog
from aiohttp import web
from pydantic import SecretStr

from agent.clock import Clock, SystemClock
from agent.errors import NotYours
from agent.store.errors import StoreUnavailable
from bot.web.access import has_bearer, is_foreign, is_loopback_host, is_same, names_loopback
from bot.web.api import ChatApi
from bot.web.backend import WebBackend
from bot.web.deliveries import Route, serve
from bot.web.errors import AddressTaken, Refused
from bot.web.operations import Operations, OperationsPages
from bot.web.pages import Door, Pages, StaticFile, load_static
from bot.web.sse import EventStreams
from channels.errors import Unavailable
from channels.web import FILES_PATH, WebChannel

log = structlog.get_logger(__name__)

PORTS_TRIED = 50
SHUTDOWN_SECONDS = 3.0

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "optimclaw",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class WebSettings(Protocol):
    """Where to listen and what opens the page."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def port_is_explicit(self) -> bool: ...

    @property
    def token(self) -> SecretStr | None: ...


class WebServer:
    """Listens while `running` is entered. `link` opens the page; it holds the token and is for the operator's eyes."""

    def __init__(
        self,
        settings: WebSettings,
        channel: WebChannel,
        backend: WebBackend,
        operations: Operations,
        routes: Sequence[Route] = (),
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._channel = channel
        self._token = settings.token.get_secret_value() if settings.token else secrets.token_urlsafe(24)
        self._door = Door(self._token)
        self._api = ChatApi(channel, backend, clock or SystemClock())
        self._streams = EventStreams(channel.hub)
        self._operations = OperationsPages(operations, self._token)
        self._routes = tuple(routes)
        self._port = settings.port

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._port

    @property
    def url(self) -> str:
        """Where the page is, for somebody on this machine if the server listens on all addresses."""
        host = self._settings.host
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    @property
    def link(self) -> str:
        """The address that opens the page, token included: print it, do not log it."""
        return f"{self.url}/?token={self._token}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve until left; gives the page's address. Raises AddressTaken where the settings cannot be served."""
        app = self._application(await load_static())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
        await runner.setup()
        try:
            self._port = await self._listen(runner)
            self._door.name_cookie_after(self._port)
            yield self.url
        finally:
            self._channel.hub.close()
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> int:
        host, wanted = self._settings.host, self._settings.port
        last = wanted if self._settings.port_is_explicit else min(wanted + PORTS_TRIED, 65535)
        for port in range(wanted, last + 1):
            site = web.TCPSite(runner, host, port)
            try:
                await site.start()
            except OSError as error:
                await site.stop()
                if error.errno != errno.EADDRINUSE or port == last:
                    raise AddressTaken(host, port, _reason(error)) from error
                continue
            if port != wanted:
                log.warning("web_port_busy", wanted=wanted, port=port)
            return int(runner.addresses[0][1])
        raise AssertionError("the range of ports is not empty")

    def _application(self, static: Mapping[str, StaticFile]) -> web.Application:
        app = web.Application(middlewares=[_errors_as_json, self._guard])
        app.on_response_prepare.append(_add_security_headers)
        pages = Pages(self._door, static)
        app.router.add_get("/", pages.index)
        app.router.add_get("/static/{name}", pages.static)
        app.router.add_get("/healthz", self._operations.healthz)
        app.router.add_get("/readyz", self._operations.readyz)
        app.router.add_get("/metrics", self._operations.metrics)
        app.router.add_post("/api/chat/send", self._api.send)
        app.router.add_post("/api/chat/approval", self._api.approval)
        app.router.add_get("/api/chat/threads", self._api.threads)
        app.router.add_get("/api/chat/history", self._api.history)
        app.router.add_get(f"{FILES_PATH}/{{digest:[0-9a-f]{{64}}}}", self._api.file)
        app.router.add_get("/api/events", self._streams.serve, allow_head=False)
        for route in self._routes:
            app.router.add_post(route.path, serve(route))
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Deliveries and probes come under any name and verify themselves; all else is the operator's alone."""
        is_api = request.path.startswith("/api/")
        is_private = is_api or request.path == "/" or request.path.startswith("/static/")
        if is_private and is_loopback_host(self._settings.host) and not names_loopback(request.headers):
            text = "This address is for this machine only. For others set WEB_HOST and WEB_TOKEN."
            raise Refused(403, "foreign_host", text)
        if is_api:
            if is_foreign(request.headers):
                raise Refused(403, "foreign_origin", "Only the bot's own page may call this.")
            if not self._may_call(request):
                text = "Open the link that the bot printed at its start, or send Authorization: Bearer."
                raise Refused(401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        return await handler(request)

    def _may_call(self, request: web.Request) -> bool:
        if has_bearer(request.headers, self._token) or self._door.is_open_to(request):
            return True
        # EventSource cannot send headers; anywhere else a token in the query would end up in logs.
        return request.path == "/api/events" and is_same(request.query.get("token", ""), self._token)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refused as error:
        return _error(error.status, error.code, error.message, error.headers)
    except NotYours:
        return _error(404, "not_found", "There is no such thread or file.")
    except (Unavailable, StoreUnavailable):
        text = "The bot cannot take this now; nothing was kept. Try again in a moment."
        return _error(503, "unavailable", text, {"Retry-After": "2"})
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return _error(405, "method_not_allowed", f"Allowed here: {allowed}.", {"Allow": allowed})
    except web.HTTPNotFound:
        return _error(404, "not_found", "There is nothing at this address.")
    except web.HTTPRequestEntityTooLarge:
        return _error(413, "too_large", "The request is too large; send less.")


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> web.StreamResponse:
    return web.json_response({"error": {"code": code, "message": message}}, status=status, headers=headers)


async def _add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)
    if request.path.startswith("/api/"):
        response.headers["Cache-Control"] = "no-store"


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use"
    if error.errno == errno.EACCES:
        return "this user may not listen there"
    return "the address is not one of this machine"
