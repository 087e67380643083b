"""Health, readiness and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from bot.web.access import has_bearer, is_local_request
from bot.web.errors import Refused

Faults = Callable[[], Awaitable[Mapping[str, str]]]
"""What is not ready and why, by name ("store", "telegram"); empty when all is well. Reasons hold no secrets."""


@dataclass(frozen=True, slots=True)
class Operations:
    """What an operator's programs ask for. Without a registry there is no `/metrics`."""

    faults: Faults
    registry: CollectorRegistry | None = None


class OperationsPages:
    """The request handlers of `/healthz`, `/readyz` and `/metrics`."""

    def __init__(self, operations: Operations, token: str) -> None:
        self._operations = operations
        self._token = token

    async def healthz(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "alive"})

    async def readyz(self, request: web.Request) -> web.StreamResponse:
        faults = dict(await self._operations.faults())
        if faults:
            return web.json_response({"status": "not ready", "faults": faults}, status=503)
        return web.json_response({"status": "ready"})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        if not is_local_request(request.remote, request.headers) and not has_bearer(request.headers, self._token):
            raise Refused(401, "unauthorized", "Metrics need Authorization: Bearer with the web token.")
        if self._operations.registry is None:
            raise Refused(404, "not_found", "Metrics are off; METRICS_ENABLED=true turns them on.")
        text = generate_latest(self._operations.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})
