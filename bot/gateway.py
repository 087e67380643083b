"""Hosts channels: takes what they receive to the intake, and brings what is in the outbox to them.

Messages of one chat leave in order, one at a time; chats do not wait for each other.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from agent.clock import Clock
from agent.media.ports import Unfetched
from agent.store import blobs, conversations, facts, outbox
from agent.store.base import Store, Transaction
from agent.store.errors import StoreError
from agent.store.outbox import Parcel, SendState
from bot.supervise import supervise
from channels.base import Accept, CatchesUp, Channel, ChannelHealth, ChannelState, ReportsMigration, Uncertain
from channels.errors import ChannelError, Migrated, RateLimited, Rejected, Unauthorized, Unavailable
from channels.message import Address, Attachment, EarlierMessage, IncomingMessage, OutgoingFile

log = structlog.get_logger(__name__)

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=60)
KEEP_EVERY = timedelta(seconds=30)
PRUNE_EVERY = timedelta(minutes=50)
GIVE_UP_AFTER = 50
"""Tries of one message before it is given up: with the waits above, most of an hour of a platform being away."""

_Chat = tuple[str, str]


class Gateway:
    """The channels of this process, and their outgoing messages."""

    def __init__(self, channels: Mapping[str, Channel], store: Store, clock: Clock) -> None:
        self._channels = channels
        self._store = store
        self._clock = clock
        self._queues: dict[_Chat, deque[Parcel]] = {}
        self._early: list[Parcel] = []
        self._group: asyncio.TaskGroup | None = None
        self._off: set[str] = set()
        self._kept_seen: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()

    # -- receiving -----------------------------------------------------------------------------------------------
    async def receive(self, name: str, accept: Accept) -> None:
        """Run a channel until cancelled; it ends early only where its credential is refused."""
        channel = self._channels[name]
        if isinstance(channel, ReportsMigration):
            channel.on_migration = partial(self._moved, name)
        if isinstance(channel, CatchesUp) and (kept := await self._store.read(partial(facts.get, name=_seen(name)))):
            channel.resume_after(json.loads(kept))
        await supervise(name, partial(channel.run, accept), self._clock)
        self._off.add(name)

    def health(self) -> dict[str, ChannelHealth]:
        """How each channel is."""
        return {name: channel.health for name, channel in self._channels.items()}

    def faults(self) -> dict[str, str]:
        """Channels that are not connected, and why."""
        return {
            name: health.reason or health.state.value
            for name, health in self.health().items()
            if health.state is not ChannelState.CONNECTED
        }

    async def private_chat(self, channel: str, user_id: str) -> Address | None:
        """The private chat with a user, or None where the platform knows none."""
        if channel not in self._channels:
            return None
        try:
            chat_id = await self._channels[channel].open_private_chat(user_id)
        except ChannelError as error:
            log.warning("private_chat_unknown", channel=channel, reason=str(error))
            return None
        return Address(channel=channel, chat_id=chat_id)

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the channels."""
        return tuple(self._channels)

    async def place_of(self, channel: str, target: str) -> Address | None:
        """Where to reach `target`: the private chat with a user of that id, else the chat of that id.

        None where the platform cannot be asked now.
        """
        try:
            chat_id = await self._channels[channel].open_private_chat(target)
        except Rejected:
            chat_id = target  # no user: the platform itself refuses a chat that does not exist
        except ChannelError as error:
            log.warning("target_unknown", channel=channel, reason=str(error))
            return None
        return Address(channel=channel, chat_id=chat_id)

    async def earlier(self, message: IncomingMessage, limit: int) -> tuple[EarlierMessage, ...]:
        """What was said in a thread before `message`."""
        channel = self._channels.get(message.address.channel)
        return () if channel is None else await channel.earlier(message, limit)

    async def fetch(self, channel: str, attachment: Attachment, limit_bytes: int) -> bytes | Unfetched:
        """A file that came with a message on this channel, or why there is none."""
        found = self._channels.get(channel)
        if found is None:
            return Unfetched.AWAY
        try:
            return await found.fetch(attachment, limit_bytes)
        except ChannelError as error:
            log.info("attachment_not_fetched", channel=channel, error=type(error).__name__)
            return Unfetched.REFUSED if isinstance(error, Rejected) else Unfetched.AWAY

    async def _moved(self, channel: str, old_chat: str, new_chat: str) -> None:
        """A chat has a new id: everything of it moves there. Hearing it twice changes nothing."""
        threads = await self._store.write(lambda tx: conversations.move_chat(tx, channel, old_chat, new_chat))
        log.info("chat_migrated", channel=channel, threads=threads)

    async def keep_last_seen(self) -> None:
        """Keep what channels have seen, now and then until cancelled and once more then, for the next process."""
        try:
            while True:
                await self._clock.sleep(KEEP_EVERY)
                await self._keep_last_seen()
        finally:
            await self._keep_last_seen()

    async def _keep_last_seen(self) -> None:
        for name, channel in self._channels.items():
            if isinstance(channel, CatchesUp):
                seen = json.dumps(dict(channel.last_seen))
                if seen != self._kept_seen.get(name):
                    await self._store.write(partial(facts.put, name=_seen(name), value=seen))
                    self._kept_seen[name] = seen

    async def prune_files(self) -> None:
        """Now and then, until cancelled, remove the contents of files that no message needs any more."""
        while True:
            await self._clock.sleep(PRUNE_EVERY)
            removed = await self._store.write(partial(blobs.prune, now=self._clock.now()))
            if removed:
                log.info("sent_files_removed", files=removed)

    # -- delivering ----------------------------------------------------------------------------------------------
    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._queues and not self._early

    def offer(self, parcel: Parcel) -> None:
        """Take a committed message; it is sent when those before it in its chat are."""
        if self._group is None:
            self._early.append(parcel)
            return
        address = parcel.message.address
        chat = (address.channel, address.chat_id)
        if chat in self._queues:
            self._queues[chat].append(parcel)
            return
        self._queues[chat] = deque((parcel,))
        self._empty.clear()
        self._group.create_task(self._serve_chat(chat))

    async def deliver(self) -> None:
        """Send until cancelled, beginning with what earlier processes left."""
        left = await self._store.read(outbox.unfinished)
        async with asyncio.TaskGroup() as group:
            self._group = group
            known = {parcel.number for parcel in left}
            try:
                for parcel in (*left, *(parcel for parcel in self._early if parcel.number not in known)):
                    self.offer(parcel)
                self._early.clear()
                await asyncio.Event().wait()  # until cancelled
            finally:
                self._group = None

    async def flush(self, grace: timedelta) -> None:
        """Wait until everything is sent, at most `grace`; the rest stays in the outbox for the next start."""
        try:
            async with asyncio.timeout(grace.total_seconds()):
                await self._empty.wait()
        except TimeoutError:
            log.warning("messages_left_for_next_start", chats=len(self._queues))

    async def _serve_chat(self, chat: _Chat) -> None:
        queue = self._queues[chat]
        try:
            while queue:
                await self._bring(queue[0])
                queue.popleft()
        finally:
            del self._queues[chat]
            if not self._queues:
                self._empty.set()

    async def _bring(self, parcel: Parcel) -> None:
        """Send one message, however often it takes. What cannot be sent now by anybody stays pending in its row."""
        channel = self._channels.get(parcel.message.address.channel)
        if channel is None or channel.name in self._off:
            return
        wait = FIRST_WAIT
        while True:
            try:
                if parcel.not_before is not None and (left := parcel.not_before - self._clock.now()) > timedelta(0):
                    await self._clock.sleep(left)
                if parcel.state is SendState.SENDING:
                    settled = await self._settled(channel, parcel)
                    if settled is None:
                        return
                    parcel = settled
                verdict = await self._try(channel, parcel)
            except StoreError as error:
                log.error("store_unavailable", reason=str(error))
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
                continue
            match verdict:
                case Parcel():
                    parcel = verdict
                case _Done():
                    return

    async def _settled(self, channel: Channel, parcel: Parcel) -> Parcel | None:
        """Settle a message whose sending a crash cut off: what is still to be sent of it, None for nothing."""
        delivery = _Delivery(self._store, parcel)
        verdict = await channel.settle(parcel.message, delivery)
        log.warning("send_was_cut_off", channel=channel.name, verdict=verdict.value, message_id=str(parcel.message.id))
        match verdict:
            case Uncertain.RESEND:
                return replace(parcel, sent=delivery.sent)
            case Uncertain.SENT:
                await self._finish(parcel, SendState.SENT, delivery.sent)
            case Uncertain.SKIP:
                await self._finish(parcel, SendState.SKIPPED, delivery.sent, "cut off by a crash; not sent again")
        return None

    async def _try(self, channel: Channel, parcel: Parcel) -> Parcel | _Done:
        """One try: done, or the parcel as it stands for the next one."""
        parcel = replace(parcel, state=SendState.SENDING, attempts=parcel.attempts + 1)
        await self._store.write(lambda tx: outbox.mark(tx, parcel, SendState.SENDING))
        delivery = _Delivery(self._store, parcel)
        try:
            platform_id = await channel.send(parcel.message, delivery)
        except Rejected as error:
            log.warning("message_rejected", channel=channel.name, reason=error.reason)
            await self._finish(parcel, SendState.FAILED, delivery.sent, error.reason)
            return _Done()
        except Migrated as error:
            return await self._move(replace(parcel, sent=delivery.sent), error)
        except RateLimited as error:
            log.warning("rate_limited", channel=channel.name, retry_s=error.retry_after.total_seconds())
            return await self._later(replace(parcel, sent=delivery.sent), error.retry_after)
        except Unauthorized as error:
            log.error("channel_off", service=channel.name, cure=error.cure)
            self._off.add(channel.name)
            await self._later(replace(parcel, sent=delivery.sent), timedelta(0))
            return _Done()
        except Unavailable as error:
            log.warning("send_failed", channel=channel.name, reason=error.reason, attempt=parcel.attempts)
            if parcel.attempts >= GIVE_UP_AFTER:
                await self._finish(parcel, SendState.FAILED, delivery.sent, error.reason)
                return _Done()
            return await self._again(channel, replace(parcel, sent=delivery.sent), error)
        except StoreError:
            raise
        except Exception:  # a supervised place: a defect in one message must not end the bot, now and at each start
            log.exception("send_broke", channel=channel.name, message_id=str(parcel.message.id))
            await self._finish(parcel, SendState.FAILED, delivery.sent, "a defect of the channel")
            return _Done()
        await self._finish(parcel, SendState.SENT, (*delivery.sent, platform_id))
        return _Done()

    async def _again(self, channel: Channel, parcel: Parcel, error: Unavailable) -> Parcel | _Done:
        """After a fault of the platform. Where the message may have arrived, it is looked up if that can be done."""
        if error.maybe_sent:
            delivery = _Delivery(self._store, parcel)
            if await channel.settle(parcel.message, delivery) is Uncertain.SENT:
                await self._finish(parcel, SendState.SENT, delivery.sent)
                return _Done()
            parcel = replace(parcel, sent=delivery.sent)
        wait: timedelta = min(FIRST_WAIT * 2 ** min(parcel.attempts - 1, 10), LONGEST_WAIT)
        return await self._later(parcel, wait)

    async def _later(self, parcel: Parcel, wait: timedelta) -> Parcel:
        due = self._clock.now() + wait
        await self._store.write(lambda tx: outbox.mark(tx, parcel, SendState.PENDING, not_before=due))
        return replace(parcel, state=SendState.PENDING, not_before=due)

    async def _move(self, parcel: Parcel, error: Migrated) -> Parcel:
        """The chat has a new id: everything of it moves there, this message first.

        Messages are numbered anew there: the number of an old one would name another.
        """
        address = parcel.message.address.model_copy(update={"chat_id": error.new_chat_id})
        message = parcel.message.model_copy(update={"address": address, "edits": None, "reply_to": None})
        moved = replace(parcel, message=message, state=SendState.PENDING)

        def move(tx: Transaction) -> int:
            outbox.replace(tx, parcel, moved.message)
            outbox.mark(tx, moved, SendState.PENDING)
            return conversations.move_chat(tx, error.channel, error.old_chat_id, error.new_chat_id)

        threads = await self._store.write(move)
        log.info("chat_migrated", channel=error.channel, threads=threads)
        return moved

    async def _finish(self, parcel: Parcel, state: SendState, sent: tuple[str, ...], error: str | None = None) -> None:
        now = self._clock.now()
        self.counts[state.value] += 1
        await self._store.write(lambda tx: outbox.finish(tx, parcel, state, sent, now, error))


@dataclass(frozen=True, slots=True)
class _Done:
    """The message needs no more tries."""


class _Delivery:
    """`channels.base.Delivery` on the outbox row."""

    def __init__(self, store: Store, parcel: Parcel) -> None:
        self._store = store
        self._parcel = parcel

    @property
    def sent(self) -> tuple[str, ...]:
        return self._parcel.sent

    async def record(self, platform_id: str) -> None:
        self._parcel = parcel = replace(self._parcel, sent=(*self._parcel.sent, platform_id))
        await self._store.write(lambda tx: outbox.mark(tx, parcel, SendState.SENDING))

    async def read_file(self, file: OutgoingFile) -> bytes:
        data = await self._store.read(partial(blobs.get, digest=file.digest))
        if data is None:
            raise Rejected(self._parcel.message.address.channel, "the content of a file is no longer there")
        return data


def _seen(channel: str) -> str:
    """The fact that holds what a channel has seen."""
    return f"last-seen:{channel}"
