"""The methods of Slack's Web API that we call, with Slack's refusals as our errors. `ok: false` is a refusal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, TypeVar
from uuid import UUID

import aiohttp
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from channels.errors import ChannelError, RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Address
from channels.slack_events import NAME, Me
from channels.slack_history import Said

# Part number of a draft: a message that the finished answer has not replaced yet.
DRAFT = -1

# Slack Web API, errors that name a text or blocks we should not have sent like that, and a message that is not there.
REFUSED_FORMAT = frozenset(
    {"msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_blocks_format", "invalid_attachments"}
)
MESSAGE_GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "is_inactive"})


@dataclass(frozen=True, slots=True)
class Content:
    """What a post shows and how it is found again: `part` is its number in the message `message_id`."""

    text: str
    blocks: Sequence[dict[str, object]]
    message_id: UUID
    part: int

    @property
    def metadata(self) -> dict[str, object]:
        """Slack message metadata, which only apps see."""
        return {"event_type": _EVENT_TYPE, "event_payload": {"id": str(self.message_id), "part": self.part}}


@dataclass(frozen=True, slots=True)
class Names:
    """How a person is called."""

    display_name: str
    username: str | None


class SlackApi:
    """Calls Slack with one bot token. Nothing is sent twice by itself: each failure is the caller's to judge."""

    def __init__(self, token: str, base_url: str, logger: logging.Logger) -> None:
        # No retry handlers: a post that may have arrived is never repeated behind our back.
        self.client = AsyncWebClient(token, base_url, retry_handlers=[], logger=logger)

    def use(self, session: aiohttp.ClientSession | None) -> None:
        """Make further calls on this session, which the caller closes."""
        self.client.session = session

    async def identify(self) -> Me:
        """Who the token belongs to; raises `Unauthorized` where Slack does not accept it."""
        found = await self.call(_Identity, self.client.auth_test())
        return Me(found.user_id, found.bot_id)

    async def connect(self, app_token: str, heartbeat: timedelta) -> aiohttp.ClientWebSocketResponse:
        """A new Socket Mode connection; it is pinged each `heartbeat`, and closes half of that later if unanswered."""
        request = self.client.apps_connections_open(app_token=app_token)
        opened = await self.call(_Opened, request, credential="SLACK_APP_TOKEN")
        session = self.client.session
        assert session is not None
        # Neither error is chained: their texts have the address, with which anybody could read our events.
        try:
            async with asyncio.timeout(_TIMEOUT.total_seconds()):
                return await session.ws_connect(
                    opened.url,
                    heartbeat=heartbeat.total_seconds(),
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSING.total_seconds()),
                    proxy=self.client.proxy,
                )
        except TimeoutError:
            raise Unavailable(NAME, "no socket in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(NAME, f"no socket ({type(error).__name__})") from None

    async def post(self, address: Address, content: Content) -> str:
        """Post a message; its `ts`."""
        request = self.client.chat_postMessage(
            channel=address.chat_id,
            thread_ts=address.thread_id,
            text=content.text,
            blocks=content.blocks or None,
            metadata=content.metadata,
            mrkdwn=True,
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
        )
        return (await self.call(_Posted, request, creates=True)).ts

    async def update(self, chat_id: str, ts: str, content: Content) -> str:
        """Replace a message of ours, buttons included; its `ts`."""
        request = self.client.chat_update(
            channel=chat_id,
            ts=ts,
            text=content.text,
            blocks=content.blocks,  # an empty list takes the old ones away
            metadata=content.metadata,
            link_names=False,
        )
        return (await self.call(_Posted, request)).ts

    async def whisper(self, address: Address, user_id: str, text: str) -> None:
        """Show a text to one person only."""
        request = self.client.chat_postEphemeral(
            channel=address.chat_id, user=user_id, text=text, thread_ts=address.thread_id
        )
        await self.call(Answer, request)

    async def set_status(self, chat_id: str, thread_ts: str, status: str) -> None:
        """Show what the bot is doing below a thread. Slack takes it away at the next post."""
        request = self.client.assistant_threads_setStatus(channel_id=chat_id, thread_ts=thread_ts, status=status)
        await self.call(Answer, request)

    async def names_of(self, user_id: str) -> Names:
        """How a person wants to be called."""
        user = (await self.call(_Profile, self.client.users_info(user=user_id))).user
        display_name = user.profile.display_name or user.profile.real_name or user.name or user_id
        return Names(display_name, user.name or None)

    async def open_direct(self, user_id: str) -> str:
        """The id of the direct chat with a person."""
        return (await self.call(_Direct, self.client.conversations_open(users=user_id))).channel.id

    async def find_parts(self, address: Address, message_id: UUID, me: Me, *, since: str) -> Mapping[int, str]:
        """The posts of a message that are in the chat: number of the part to `ts`.

        Reads what was posted after `since`; raises `Unavailable` where that is more than can be looked through.
        """
        found: dict[int, str] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self.call(_Page, self.history(address, since, cursor))
            for message in page.messages:
                mark = message.metadata
                if (
                    mark is not None
                    and mark.event_type == _EVENT_TYPE
                    and mark.event_payload.id == str(message_id)
                    and message.user == me.user_id
                ):
                    found[mark.event_payload.part] = message.ts
            cursor = page.response_metadata.next_cursor
            if not cursor:
                return found
        raise Unavailable(NAME, "too many messages to look through")

    async def said_before(self, chat_id: str, thread_ts: str, ts: str, limit: int) -> Sequence[Said]:
        """The last `limit` messages of a thread before `ts`, oldest first; raises `Unavailable` for an endless one."""
        found: dict[str, Said] = {}  # Slack gives a thread from its beginning, and may give that on each page
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            request = self.client.conversations_replies(
                channel=chat_id, ts=thread_ts, latest=ts, inclusive=False, limit=_PAGE, cursor=cursor
            )
            page = await self.call(_SaidPage, request)
            found |= {said.ts: said for said in page.messages if float(said.ts) < float(ts)}
            cursor = page.response_metadata.next_cursor
            if not cursor:
                return sorted(found.values(), key=lambda said: float(said.ts))[-limit:]
        raise Unavailable(NAME, "too many messages to look through")

    async def history(self, address: Address, since: str, cursor: str | None) -> AsyncSlackResponse:
        """A page of what was posted in a place after `since`."""
        if address.thread_id is None:
            return await self.client.conversations_history(
                channel=address.chat_id, include_all_metadata=True, limit=_PAGE, oldest=since, cursor=cursor
            )
        return await self.client.conversations_replies(
            channel=address.chat_id,
            ts=address.thread_id,
            include_all_metadata=True,
            limit=_PAGE,
            oldest=since,
            cursor=cursor,
        )

    async def call(
        self,
        model: type[_A],
        request: Awaitable[AsyncSlackResponse],
        *,
        creates: bool = False,
        credential: str = "SLACK_BOT_TOKEN",
    ) -> _A:
        """The answer to a request. `creates`: after a lost answer, something may be there that was not before."""
        try:
            async with asyncio.timeout(_TIMEOUT.total_seconds()):
                response = await request
            return model.model_validate(response.data)
        except SlackApiError as error:
            raise _translated(error.response, creates, credential) from error
        except aiohttp.ClientConnectorError as error:
            raise Unavailable(NAME, "no connection") from error
        except TimeoutError as error:
            reason = f"no answer within {_TIMEOUT.total_seconds():g} s"
            raise Unavailable(NAME, reason, maybe_sent=creates) from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(NAME, f"the connection broke ({type(error).__name__})", maybe_sent=creates) from error
        # slack_sdk 3.48 looks for keys in the text of an answer that is no JSON.
        except (SlackClientError, ValidationError, AttributeError) as error:
            raise Unavailable(NAME, "an answer that is not Slack's", maybe_sent=creates) from error


_EVENT_TYPE = "optimclaw"
_TIMEOUT = timedelta(seconds=20)
_CLOSING = timedelta(seconds=2)

# Slack Web API, conversations.history and .replies: at most 999; 200 is what Slack recommends.
_PAGE = 200
_MOST_PAGES = 10

# Slack Web API, errors of all methods.
_BAD_CREDENTIAL = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "missing_scope",
        "no_permission",
        "access_denied",
    }
)
_PASSING = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "external_error"}
)
_LIMITED = frozenset({"ratelimited", "rate_limited"})

_UNSTATED_WAIT = timedelta(seconds=30)
_LONGEST_WAIT = timedelta(hours=1)


def _translated(response: object, creates: bool, credential: str) -> ChannelError:
    if not isinstance(response, AsyncSlackResponse) or not isinstance(response.data, dict):
        return Unavailable(NAME, "an answer that is not Slack's", maybe_sent=creates)
    code = str(response.data.get("error", ""))
    if response.status_code == 429 or code in _LIMITED:
        return RateLimited(NAME, _wait(response.headers))
    if response.status_code >= 500 or code in _PASSING:
        return Unavailable(NAME, code or f"status {response.status_code}", maybe_sent=creates)
    if code in _BAD_CREDENTIAL:
        needed = response.data.get("needed")
        if code == "missing_scope" and needed:
            return Unauthorized(NAME, f"give the app the scope {needed}, then install it again")
        return Unauthorized(NAME, f"Slack says {code!r}: check {credential}")
    return Rejected(NAME, code or f"status {response.status_code}")


def _wait(headers: Mapping[str, str]) -> timedelta:
    stated = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    try:
        wait = timedelta(seconds=float(stated))
    except (ValueError, OverflowError):
        return _UNSTATED_WAIT
    return min(max(wait, timedelta()), _LONGEST_WAIT)


def _or_empty(value: object) -> object:
    return {} if value is None else value


class Answer(BaseModel):
    """What we read of an answer; the rest is skipped."""

    model_config = ConfigDict(frozen=True, extra="ignore")


_A = TypeVar("_A", bound=Answer)


class _Identity(Answer):
    user_id: str
    bot_id: str = ""


class _Opened(Answer):
    url: str


class _Posted(Answer):
    ts: str


class _Chat(Answer):
    id: str


class _Direct(Answer):
    channel: _Chat


class _ProfileNames(Answer):
    display_name: str = ""
    real_name: str = ""


class _User(Answer):
    name: str = ""
    profile: _ProfileNames = _ProfileNames()


class _Profile(Answer):
    user: _User


class _MarkPayload(Answer):
    id: str = ""
    part: int = DRAFT


class _Mark(Answer):
    event_type: str = ""
    event_payload: _MarkPayload = _MarkPayload()


class _Found(Answer):
    ts: str
    user: str = ""
    metadata: _Mark | None = None


class _Cursor(Answer):
    next_cursor: str = ""


class _SaidPage(Answer):
    messages: tuple[Said, ...] = ()
    response_metadata: Annotated[_Cursor, BeforeValidator(_or_empty)] = _Cursor()


class _Page(Answer):
    messages: tuple[_Found, ...] = ()
    response_metadata: Annotated[_Cursor, BeforeValidator(_or_empty)] = _Cursor()
