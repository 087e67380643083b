"""Slack: messages come by Socket Mode or as signed HTTP requests, answers go out as `mrkdwn`.

Bolt verifies and unpacks what Slack delivers; one middleware of ours hands it on. A delivery is confirmed only after
`accept` has returned: an envelope by its acknowledgement, a request by status 200. Slack repeats all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import ClassVar
from urllib.parse import parse_qsl

import aiohttp
import structlog
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier

from channels.base import Accept, Accepted, ChannelHealth, ChannelLimits, ChannelState, Delivery, Uncertain
from channels.download import check_size
from channels.errors import ChannelError, RateLimited, Unauthorized, Unavailable
from channels.message import Attachment, Draft, EarlierMessage, IncomingMessage, OutgoingMessage, Sender
from channels.pacing import Clock, SystemClock, backoff
from channels.settings import GroupTrigger, SlackSettings
from channels.slack_api import Names, SlackApi
from channels.slack_events import NAME, Me, normalize_delivery
from channels.slack_files import read_upload
from channels.slack_history import earlier_of, thread_before
from channels.slack_memory import Participation, Recent
from channels.slack_render import MAX_TEXT
from channels.slack_send import SlackSender
from channels.slack_socket import SocketMode

log = structlog.get_logger(__name__)

Chore = Callable[[], Awaitable[None]]


class SlackChannel:
    """One app in one Slack workspace."""

    name: ClassVar[str] = NAME
    limits: ClassVar[ChannelLimits] = ChannelLimits(max_text=MAX_TEXT, buttons=True, threads=True)

    def __init__(
        self, settings: SlackSettings, clock: Clock | None = None, heartbeat: timedelta = timedelta(seconds=10)
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._heartbeat = heartbeat
        self._health = ChannelHealth(ChannelState.STARTING)
        self._accept: Accept | None = None
        self._me: Me | None = None
        self._refusal: Unauthorized | None = None
        self._known = asyncio.Event()  # whether Slack takes our token or not
        self._api = SlackApi(settings.bot_token.get_secret_value(), settings.api_base_url, _library_log())
        self._sender = SlackSender(self._api, self._clock)
        self._app = self._bolt_app()
        self._joined = Participation(self._clock)
        self._people: Recent[str, Names] = Recent(_MOST_PEOPLE)
        self._chores: asyncio.Queue[Chore] = asyncio.Queue(_MOST_CHORES)
        self._may_set_status = True

    @property
    def health(self) -> ChannelHealth:
        """Connected once Slack has greeted us, or with HTTP deliveries once it has accepted the token."""
        return self._health

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled; reconnects by itself. Raises `Unauthorized` where Slack refuses a token."""
        self._health = ChannelHealth(ChannelState.STARTING)
        self._refusal = None
        self._known.clear()
        try:
            async with aiohttp.ClientSession() as session:
                self._api.use(session)
                await self._receive(accept)
        except* Unauthorized as refusals:
            self._refusal = _first_of(refusals)
        finally:
            self._api.use(None)
            self._accept = self._me = None
            self._known.clear()
            self._health = ChannelHealth(ChannelState.OFF, self._refusal.cure if self._refusal else "stopped")
        if self._refusal is not None:
            self._known.set()
            raise self._refusal

    async def send(self, message: OutgoingMessage, delivery: Delivery) -> str:
        """Send the parts of one message that have not arrived, to its thread where it has one."""
        me = await self._connected()
        posted = await self._sender.send(message, delivery, me)
        if message.address.thread_id is not None:
            self._joined.join(message.address.chat_id, message.address.thread_id)
        return posted

    async def show(self, draft: Draft) -> str | None:
        """The text so far in one message that is edited; before there is any, the status line of the thread."""
        if self._me is None:
            return draft.platform_id
        if not draft.text.strip():
            await self._set_status(draft)
            return draft.platform_id
        return await self._sender.show(draft) if self._settings.streaming else draft.platform_id

    async def settle(self, message: OutgoingMessage, delivery: Delivery) -> Uncertain:
        """Look the message up in its chat by the metadata that each post carries."""
        return await self._sender.settle(message, delivery, await self._connected())

    async def open_private_chat(self, user_id: str) -> str:
        """The id of the direct chat with a user, which Slack opens if there is none."""
        await self._connected()
        return await self._api.open_direct(user_id)

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        """What was said in the thread before a message, as `Channel` says."""
        me, thread_ts = self._me, thread_before(message)
        if me is None or thread_ts is None or limit < 1:
            return ()
        try:
            async with asyncio.timeout(_EARLIER.total_seconds()):
                chat_id = message.address.chat_id
                said = await self._api.said_before(chat_id, thread_ts, message.message_id, limit)
        except (ChannelError, TimeoutError) as error:
            log.warning("slack_thread_not_read", error=type(error).__name__)
            return ()
        return tuple(self._with_known_name(each) for one in said if (each := earlier_of(one, me)) is not None)

    async def fetch(self, attachment: Attachment, limit_bytes: int) -> bytes:
        """Read an uploaded file as `Channel` says."""
        check_size(NAME, attachment.size_bytes, limit_bytes)
        return await read_upload(self._api.client, attachment, limit_bytes)

    async def handle_events(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, str, str]:
        """Answer a request of Slack's Events API: status, content type and body. Unsigned ones are refused."""
        secret = self._settings.signing_secret
        if secret is None:
            return 404, _PLAIN, "no signing secret is set"
        named = {name.lower(): value for name, value in headers.items()}
        if not _is_signed(body, named, secret.get_secret_value()):
            return 401, _PLAIN, "not signed"
        request = _http_request(body.decode(), named)
        if request is None:
            return 400, _PLAIN, "malformed"
        response = await self._app.async_dispatch(request)
        return response.status, response.headers.get("content-type", [_PLAIN])[0], response.body

    def _bolt_app(self) -> AsyncApp:
        app = AsyncApp(
            name=NAME,
            logger=_library_log(),
            client=self._api.client,
            signing_secret="",
            # Bolt reads a request before it checks its signature; `handle_events` does it the other way round.
            request_verification_enabled=False,
            # Ahead of Bolt's own authorization, which confirms a delivery where it cannot ask Slack about it.
            before_authorize=self._on_delivery,
        )
        app.error(_on_error)
        return app

    async def _on_delivery(
        self, body: dict[str, object], request: AsyncBoltRequest, next: Callable[[], Awaitable[None]]
    ) -> BoltResponse | None:
        """Bolt's middleware for everything: takes its arguments by these names, confirms by status 200."""
        if body.get("type") == "url_verification":
            await next()
            return None
        # Bolt finds nothing in the form of a slash command whose words contain "payload".
        return await self._take(body or dict(parse_qsl(request.raw_body)))

    async def _take(self, body: Mapping[str, object]) -> BoltResponse:
        if self._accept is None or self._me is None:
            return BoltResponse(status=503, body="not ready")
        message = normalize_delivery(
            body,
            self._me,
            now=self._clock.now(),
            joined=self._joined,
            always_addressed=self._settings.group_trigger is GroupTrigger.ALL,
        )
        if message is not None:
            message = self._with_names(message)
            self._after(message, await self._accept(message))
        return BoltResponse(status=200, body="")

    def _after(self, message: IncomingMessage, accepted: Accepted) -> None:
        address, metadata = message.address, message.metadata
        if accepted.thread_id is not None and metadata.chat_type.is_shared and address.thread_id is not None:
            self._joined.join(address.chat_id, address.thread_id)
        note = accepted.note
        if metadata.structured and note:
            self._later(lambda: self._api.whisper(address, message.sender.user_id, note))

    def _with_names(self, message: IncomingMessage) -> IncomingMessage:
        """The message with its writer's names if we know them; else they are asked for, for the next message."""
        user_id = message.sender.user_id
        names = self._people.get(user_id)
        if names is None:
            self._people.put(user_id, Names(message.sender.display_name, message.sender.username))
            self._later(lambda: self._learn_names(user_id))
            return message
        username = names.username or message.sender.username
        known = Sender(user_id=user_id, display_name=names.display_name, username=username)
        return message.model_copy(update={"sender": known})

    def _with_known_name(self, message: EarlierMessage) -> EarlierMessage:
        user_id = message.sender.user_id
        names = self._people.get(user_id)
        if names is None:
            return message
        known = Sender(user_id=user_id, display_name=names.display_name, username=names.username)
        return message.model_copy(update={"sender": known})

    async def _learn_names(self, user_id: str) -> None:
        self._people.put(user_id, await self._api.names_of(user_id))

    def _later(self, chore: Chore) -> None:
        """Do something that nobody waits for and that may fail; dropped where too much of it waits."""
        if not self._chores.full():
            self._chores.put_nowait(chore)

    async def _do_chores(self) -> None:
        while True:
            chore = await self._chores.get()
            try:
                await chore()
            except RateLimited as error:
                await self._clock.sleep(error.retry_after)
            except ChannelError as error:
                log.info("slack_chore_failed", reason=type(error).__name__)

    async def _receive(self, accept: Accept) -> None:
        self._me = await self._identify()
        self._accept = accept
        self._known.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._do_chores())
            if self._settings.app_token is not None:
                app_token = self._settings.app_token.get_secret_value()
                await SocketMode(
                    lambda: self._api.connect(app_token, self._heartbeat), self._dispatch, self._report, self._clock
                ).run()
            elif self._settings.signing_secret is not None:
                self._report(None)
            else:
                raise Unauthorized(NAME, "set SLACK_APP_TOKEN, or SLACK_SIGNING_SECRET for deliveries over HTTP")

    async def _identify(self) -> Me:
        failures = 0
        while True:
            try:
                return await self._api.identify()
            except RateLimited as error:
                wait, reason = error.retry_after, "Slack asks to wait"
            except Unavailable as error:
                failures += 1
                wait, reason = backoff(failures), error.reason
            self._report(reason)
            log.warning("slack_not_reached", reason=reason, wait_seconds=wait.total_seconds())
            await self._clock.sleep(wait)

    async def _dispatch(self, payload: dict[str, object]) -> bool:
        """Hand an envelope on; whether it may be acknowledged."""
        request = _socket_request(payload)
        return request is None or (await self._app.async_dispatch(request)).status == 200

    def _report(self, trouble: str | None) -> None:
        self._health = (
            ChannelHealth(ChannelState.CONNECTED) if trouble is None else ChannelHealth(ChannelState.DEGRADED, trouble)
        )

    async def _connected(self) -> Me:
        """Wait until Slack has told who we are; raises `Unauthorized` if it will not."""
        while self._me is None:
            if self._refusal is not None:
                raise self._refusal
            await self._known.wait()
        return self._me

    async def _set_status(self, draft: Draft) -> None:
        """The status line works below threads only, and only for apps with the scope for it."""
        thread_ts = draft.address.thread_id
        if thread_ts is None or not self._may_set_status:
            return
        try:
            await self._api.set_status(draft.address.chat_id, thread_ts, _STATUS)
        except (RateLimited, Unavailable):
            return
        except ChannelError as error:
            self._may_set_status = False
            log.info("slack_status_off", reason=type(error).__name__)


_PLAIN = "text/plain"
_STATUS = "is thinking…"
_EARLIER = timedelta(seconds=3)
_MOST_PEOPLE = 2048
_MOST_CHORES = 100


def _library_log() -> logging.Logger:
    """The log of the SDK. Only its errors are kept: below them it writes texts, payloads and secret addresses."""
    logger = logging.getLogger(f"{__name__}.sdk")
    logger.setLevel(logging.ERROR)
    return logger


async def _on_error(error: Exception) -> BoltResponse:
    """Log a delivery that could not be taken, without what it said, and leave it to Slack to repeat it."""
    log.error("slack_delivery_failed", error=type(error).__name__)
    return BoltResponse(status=500, body="")


def _is_signed(body: bytes, headers: Mapping[str, str], secret: str) -> bool:
    """Whether Slack signed the request within the last five minutes; compared in constant time by the SDK."""
    timestamp, signature = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
    try:
        return signature.isascii() and SignatureVerifier(secret).is_valid(body, timestamp, signature)
    except (ValueError, OverflowError):  # a time that is no number, a body or a secret that is no text
        return False


def _http_request(body: str, headers: dict[str, str]) -> AsyncBoltRequest | None:
    try:
        return AsyncBoltRequest(body=body, headers={**headers})
    except _MALFORMED:
        log.warning("slack_delivery_malformed", length=len(body))
        return None


def _socket_request(payload: dict[str, object]) -> AsyncBoltRequest | None:
    try:
        return AsyncBoltRequest(body=payload, mode="socket_mode")
    except _MALFORMED:
        log.warning("slack_delivery_malformed", keys=len(payload))
        return None


# Bolt looks into what it is given without asking whether it has the shape.
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)


def _first_of(group: ExceptionGroup[Unauthorized]) -> Unauthorized:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first
