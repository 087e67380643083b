"""One server as a service: connected while it can be, tried again with growing waits, asking for what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import structlog

from agent.clock import Clock
from agent.mcp.config import Endpoint, Program, ServerConfig
from agent.mcp.connection import Limits, Session, http_streams, quiet_library, session_over
from agent.mcp.errors import CredentialNeeded, ServerError, ServerLost, TokenRefused
from agent.mcp.http import Wire
from agent.mcp.names import token_name
from agent.mcp.oauth import Authorization, SignIn, Vault, has_tokens
from agent.mcp.sent import Sent
from agent.mcp.stdio import running
from agent.mcp.tool import Offer, read_offer
from agent.model.ids import OPERATOR
from agent.model.tool_call import JsonValue
from agent.store.credentials import AUTH_TTL
from agent.store.errors import StoreError
from channels.message import Address

if TYPE_CHECKING:
    from agent.net.client import Resolve

log = structlog.get_logger(__name__)

FIRST_WAIT = timedelta(seconds=2)
LONGEST_WAIT = timedelta(minutes=5)
CALM_AFTER = timedelta(minutes=5)
PING_EVERY = timedelta(minutes=1)
RELIST_PAUSE = timedelta(seconds=2)

Tell = Callable[[Address, str], Awaitable[None]]
Publish = Callable[[str, Offer], None]


class State(StrEnum):
    """How a server stands."""

    CONNECTING = "connecting"
    READY = "connected"
    WAITING = "not reachable, tried again by itself"
    NEEDS_CREDENTIAL = "needs a credential"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all servers share. `redirect`: where a browser ends after signing in; `hide` masks the process's secrets."""

    clock: Clock
    vault: Vault
    tell: Tell
    hide: Callable[[str], str]
    redirect: str
    limits: Limits = field(default_factory=Limits)
    resolve: Resolve | None = None


class Server:
    """Runs one server. Everything but `run` may be called from other tasks."""

    def __init__(self, config: ServerConfig, around: Surroundings, publish: Publish) -> None:
        self.config = config
        self.state = State.CONNECTING
        self.detail = ""
        self._around = around
        self._publish = publish
        self._session: Session | None = None
        self._sent = Sent(config, around.vault)
        self._nudged = asyncio.Event()
        self._settled = asyncio.Event()
        self._sign_in: SignIn | None = None
        self._tell_at: Address | None = None
        self._refresh_first = False

    async def run(self) -> None:
        """Serve until cancelled."""
        wait = FIRST_WAIT
        while True:
            began = self._around.clock.now()
            self._nudged.clear()
            fault = await self._attempt_until_nudged()
            if fault is None or isinstance(fault, TokenRefused):
                wait = FIRST_WAIT
                continue
            calm = self._around.clock.now() - began > CALM_AFTER
            wait = FIRST_WAIT if calm else wait
            await self._settle(
                State.NEEDS_CREDENTIAL if isinstance(fault, CredentialNeeded) else State.WAITING, str(fault)
            )
            log.warning("mcp_server_off", server=self.config.name, reason=str(fault), retry_s=wait.total_seconds())
            if isinstance(fault, CredentialNeeded):
                await self._nudged.wait()
            else:
                await _until_any(self._around.clock.sleep(wait), self._nudged.wait())
                wait = min(wait * 2, LONGEST_WAIT)

    def nudge(self, *, sign_in: SignIn | None = None, tell: Address | None = None) -> None:
        """Connect anew, and at once. `tell`: where it is said how that went."""
        if self._sign_in is not None:
            self._sign_in.end()
        self.state, self.detail = State.CONNECTING, ""
        self._sign_in, self._tell_at = sign_in, tell
        self._refresh_first = False
        self._settled.clear()
        self._nudged.set()

    def paste(self, text: str) -> bool:
        """Hand over what a person sent to finish a sign-in; False if none waits for it."""
        if self._sign_in is None or not self._sign_in.waits_for_paste:
            return False
        self._sign_in.paste(text)
        return True

    async def settled(self) -> None:
        """Return once it is known whether the server can be used, or after the time that connecting may take."""
        try:
            async with asyncio.timeout((self._around.limits.connect + self._around.limits.listing).total_seconds()):
                await self._settled.wait()
        except TimeoutError:
            return

    async def call(self, name: str, arguments: Mapping[str, JsonValue]) -> Mapping[str, object]:
        """The server's record of a call. Raises ServerError."""
        if self._session is None:
            raise ServerLost("the server is not connected at the moment. The call was not made.")
        return await self._session.call(name, arguments)

    # -- one connection ------------------------------------------------------------------------------------------
    async def _attempt_until_nudged(self) -> ServerError | None:
        """Why the connection ended; None if it was ended to begin anew."""
        try:
            async with asyncio.TaskGroup() as group:
                attempt = group.create_task(self._attempt())
                nudged = group.create_task(self._nudged.wait())
                await asyncio.wait({attempt, nudged}, return_when=asyncio.FIRST_COMPLETED)
                attempt.cancel()
                nudged.cancel()
        finally:
            self._withdraw()
        # One that ended by itself at the very moment is ended for what was asked for since.
        return None if attempt.cancelled() or self._nudged.is_set() else attempt.result()

    async def _attempt(self) -> ServerError:
        quiet_library()
        limits, ended = self._around.limits, asyncio.Event()
        access = _Access(self._sign_in)
        limit = limits.connect + limits.listing + (AUTH_TTL if access.sign_in else timedelta())
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(limit.total_seconds()):
                    session = await self._open(stack, ended, access)
                    await self._take(session)
                try:
                    await self._came_up(access)
                    return await self._stay(session)
                finally:  # before the end of the connection, which may take seconds
                    self._withdraw()
        except Exception as error:  # noqa: BLE001 - a supervisor of a service: any fault costs this server alone
            return self._reason(error, access)

    async def _open(self, stack: AsyncExitStack, ended: asyncio.Event, access: _Access) -> Session:
        config, around = self.config, self._around
        match config.place:
            case Program() as program:
                variables = await self._sent.variables(program)
                hide = partial(_both, self._sent.hide, around.hide)
                streams = await stack.enter_async_context(running(config.name, program, variables, hide, ended))
            case Endpoint(url=url) as endpoint:
                access.wire = Wire(endpoint, around.resolve)
                headers = await self._sent.headers(endpoint, with_token=access.sign_in is None)
                access.authorization = await self._authorization(endpoint, access.wire, headers, access.sign_in)
                provider = access.authorization.provider() if access.authorization else None
                client = access.wire.client(tuple(headers.items()), provider)
                streams = await stack.enter_async_context(http_streams(url, client))
        return await stack.enter_async_context(session_over(streams, around.limits, ended))

    async def _authorization(
        self, endpoint: Endpoint, wire: Wire, headers: Mapping[str, str], sign_in: SignIn | None
    ) -> Authorization | None:
        if sign_in is None and (
            any(name.lower() == "authorization" for name in headers)
            or not await has_tokens(self._around.vault, self.config.name, endpoint.host)
        ):
            return None
        return Authorization(
            self.config.name,
            endpoint.url,
            self._around.redirect,
            wire,
            self._around.vault,
            sign_in,
            stale=self._refresh_first,
        )

    async def _take(self, session: Session) -> None:
        """Read the server's tools and publish them."""
        listing = await session.tools()
        offer = await asyncio.to_thread(
            read_offer, self.config, listing.tools, self.call, self._sent.hide, self._around.limits.call
        )
        self._session = session
        count = len(offer.tools)
        notes = [f"{count} tool{'' if count == 1 else 's'}"]
        if offer.unusable:
            notes.append(f"{offer.unusable} more cannot be used")
        if listing.is_cut:
            notes.append("those beyond the first 128 are left out")
        self.detail = ", ".join(notes)
        self._publish(self.config.name, offer)

    async def _came_up(self, access: _Access) -> None:
        if access.sign_in is not None:  # who signed in does not want the token that was there before
            await self._around.vault.delete(OPERATOR, token_name(self.config.name))
        if access.authorization is not None:
            access.authorization.end_sign_in()
        self._refresh_first = False
        log.info("mcp_server_connected", server=self.config.name, tools=self.detail)
        await self._settle(State.READY, self.detail)

    async def _stay(self, session: Session) -> ServerError:
        """Keep the list up to date until the server is gone."""
        clock = self._around.clock
        asked, listed = clock.now(), clock.now() - RELIST_PAUSE
        while True:
            # It is not listed more often than that, however often the server says that its tools changed.
            pause = RELIST_PAUSE - (clock.now() - listed)
            await _until_any(
                session.ended.wait(),
                session.doubted.wait(),
                session.changed.wait() if pause <= timedelta() else clock.sleep(pause),
                clock.sleep(PING_EVERY - (clock.now() - asked)),
            )
            if session.ended.is_set():
                return ServerLost("its program ended.")
            if session.doubted.is_set() or clock.now() - asked >= PING_EVERY:
                session.doubted.clear()
                asked = clock.now()
                if not await session.is_alive():
                    return ServerLost("it does not answer any more.")
            if session.changed.is_set() and clock.now() - listed >= RELIST_PAUSE:
                session.changed.clear()
                listed = clock.now()
                async with asyncio.timeout(self._around.limits.listing.total_seconds()):
                    await self._take(session)

    def _withdraw(self) -> None:
        """Take the tools back and answer calls with an error."""
        self._session = None
        self._publish(self.config.name, Offer())

    # -- what becomes of it --------------------------------------------------------------------------------------
    def _reason(self, error: Exception, access: _Access) -> ServerError:
        """The fault that a connection ended with, in our words: the library's own hold addresses and answers."""
        authorization, known = access.authorization, _known(error)
        if _holds(error, StoreError):
            return ServerLost("the credential store is not reachable.")
        if authorization is not None and authorization.failure is not None:
            return CredentialNeeded(authorization.failure)
        if authorization is not None and authorization.is_needed:
            if not self._refresh_first:
                self._refresh_first = True  # a token may have been withdrawn before its time
                return TokenRefused("its token was refused.")
            return CredentialNeeded("its sign-in is no longer valid; a person has to sign in again.")
        if known is not None:
            return known
        if access.wire is not None and access.wire.is_refused:
            return CredentialNeeded("it refuses requests without a valid credential.")
        if _holds(error, TimeoutError):
            return ServerLost("it did not answer in time.")
        log.debug("mcp_connection_failed", server=self.config.name, error=type(error).__name__)
        return ServerLost("it could not be reached.")

    async def _settle(self, state: State, detail: str) -> None:
        if self._nudged.is_set():
            return
        self.state, self.detail = state, detail
        sign_in, tell_at = self._sign_in, self._tell_at
        self._sign_in = self._tell_at = None
        if sign_in is not None:
            tell_at = sign_in.address if sign_in.has_link else None  # without a link the tool itself says it
            sign_in.end()
        self._settled.set()
        if tell_at is not None:
            await self._say(tell_at)

    async def _say(self, address: Address) -> None:
        """Tell in a chat how the server stands."""
        text = f"{self.config.name} is not connected: {self.detail}"
        if self.state is State.READY:
            text = f"{self.config.name} is connected: {self.detail}."
        elif self.state is State.NEEDS_CREDENTIAL:
            text += f" Ask me to connect {self.config.name} to try again."
        try:
            await self._around.tell(address, text)
        except StoreError as error:
            log.error("mcp_outcome_not_told", server=self.config.name, error=type(error).__name__)


@dataclass(slots=True)
class _Access:
    """What one attempt knows of our right to ask."""

    sign_in: SignIn | None
    wire: Wire | None = None
    authorization: Authorization | None = None


def _known(error: BaseException) -> ServerError | None:
    """The first of our own faults in an error or a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _known(each)) is not None), None)
    return error if isinstance(error, ServerError) else None


def _holds(error: BaseException, kind: type[Exception]) -> bool:
    """Whether an error, or one in a group of errors, is of a kind."""
    if isinstance(error, BaseExceptionGroup):
        return any(_holds(each, kind) for each in error.exceptions)
    return isinstance(error, kind)


def _both(first: Callable[[str], str], second: Callable[[str], str], text: str) -> str:
    return second(first(text))


async def _until_any(*waits: Coroutine[object, object, object]) -> None:
    """Return when the first of `waits` does; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
