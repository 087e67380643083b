"""The one way out of containers: HTTP on a socket of the file system, which each container finds mounted.

A token opens the job it was made for and nothing else. Tokens are in memory alone: a restart forgets all of them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog

from agent.jobs.container.assignment import Assignment, Denied
from agent.jobs.container.limits import FOLDER_HEADER, MAX_BODY_BYTES, MAX_MODEL_BYTES, SOCKET_NAME
from agent.jobs.container.protocol import Event, ModelAsk, Result, Status, Wire

if TYPE_CHECKING:
    from aiohttp import web

log = structlog.get_logger(__name__)

W = TypeVar("W", bound=Wire)
_ANY_READER, _ANY_CALLER = 0o755, 0o666


class ContainerDoor:
    """Listens from the first container on until `close`. `mark` tells the doors of this home from all others."""

    def __init__(self, mark: str) -> None:
        self._prefix = f"optimclaw-door-{mark.strip(':')}-"
        self._assignments: list[Assignment] = []
        self._runner: web.AppRunner | None = None
        self._place: Path | None = None
        self._lock = asyncio.Lock()

    async def folder(self) -> Path:
        """The folder with the socket, to be mounted. Raises OSError where there can be none."""
        async with self._lock:
            if self._place is None:
                self._place = await self._listen()
            return self._place

    @contextmanager
    def admitting(self, assignment: Assignment) -> Iterator[None]:
        """Let a container in by its token while entered."""
        self._assignments.append(assignment)
        try:
            yield
        finally:
            self._assignments.remove(assignment)

    async def close(self) -> None:
        """Listen no more."""
        async with self._lock:
            if self._runner is not None:
                await self._runner.cleanup()
            if self._place is not None:
                await asyncio.to_thread(shutil.rmtree, self._place.parent, ignore_errors=True)
            self._runner = self._place = None

    async def _listen(self) -> Path:
        from aiohttp import web  # a bot without a page and without containers has no use for it

        app = web.Application(middlewares=[web.middleware(_guarded)], client_max_size=MAX_MODEL_BYTES)
        app.router.add_get("/job", self._job, allow_head=False)
        app.router.add_get("/prompts", self._prompts, allow_head=False)
        app.router.add_post("/llm", self._llm)
        app.router.add_post("/events", self._events)
        app.router.add_post("/status", self._status)
        app.router.add_post("/result", self._result)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        # Others of this machine cannot enter the outer folder; in a container, whoever works there can the inner one.
        place = await asyncio.to_thread(_make_folder, self._prefix)
        try:
            await web.UnixSite(runner, str(place / SOCKET_NAME)).start()
            await asyncio.to_thread(place.chmod, _ANY_READER)
            await asyncio.to_thread((place / SOCKET_NAME).chmod, _ANY_CALLER)
        except BaseException:
            await runner.cleanup()
            await asyncio.to_thread(shutil.rmtree, place.parent, ignore_errors=True)
            raise
        self._runner = runner
        return place

    # -- what is asked ---------------------------------------------------------------------------------------------
    async def _job(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._caller(request).begin(request.headers.get(FOLDER_HEADER, "")))

    async def _prompts(self, request: web.Request) -> web.StreamResponse:
        return _json(await self._caller(request).prompts())

    async def _llm(self, request: web.Request) -> web.StreamResponse:
        caller = self._caller(request)
        ask = await _read(request, caller, ModelAsk, MAX_MODEL_BYTES)
        return _json(await caller.ask_model(ask))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self._said(request, Event, Assignment.tell)

    async def _status(self, request: web.Request) -> web.StreamResponse:
        return await self._said(request, Status, Assignment.report)

    async def _result(self, request: web.Request) -> web.StreamResponse:
        return await self._said(request, Result, Assignment.finish)

    async def _said(
        self, request: web.Request, kind: type[W], take: Callable[[Assignment, W], Awaitable[None]]
    ) -> web.StreamResponse:
        caller = self._caller(request)
        await take(caller, await _read(request, caller, kind, MAX_BODY_BYTES))
        return _json(Status(iteration=0))

    def _caller(self, request: web.Request) -> Assignment:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            found = [each for each in self._assignments if each.matches(token.strip())]  # all are compared
            if found:
                return found[0]
        raise Denied(401, "no job has this token")


def _make_folder(prefix: str) -> Path:
    """A folder for the socket, short enough for its name; those that killed processes of this home left go. Blocks."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if left.lstat().st_uid == os.geteuid():
            shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=prefix)) / "door"
    place.mkdir()
    return place


async def _read(request: web.Request, caller: Assignment, kind: type[W], most: int) -> W:
    """The body, bounded and validated. Nobody who does what a worker does sends more than that."""
    from pydantic import ValidationError

    from bot.web.bodies import read_body
    from bot.web.errors import Refused

    try:
        body = await read_body(request, most)
    except Refused as error:
        if error.status == 413:
            caller.refuse_flood("a request of more than it may have")
        raise Denied(error.status, error.code) from error
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise Denied(400, f"{error.error_count()} fields are not as they must be") from error


async def _guarded(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    from aiohttp import web

    try:
        return await handler(request)
    except Denied as error:
        return web.json_response({"error": error.text}, status=error.status)
    except web.HTTPException as error:
        return web.json_response({"error": "nothing is there"}, status=error.status)
    except Exception as error:  # noqa: BLE001 - one container's request must not break the door for the others
        log.error("container_request_broke", error=type(error).__name__, path=request.match_info.route.name)
        return web.json_response({"error": "it could not be done"}, status=500)


def _json(value: Wire) -> web.StreamResponse:
    from aiohttp import web

    return web.Response(body=value.model_dump_json().encode(), content_type="application/json")
