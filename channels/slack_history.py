"""What was said in a Slack thread before the bot was called into it. Pure: knows no SDK and no socket."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from channels.message import EarlierMessage, IncomingMessage, Sender
from channels.slack_events import Me, readable

_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class Said(BaseModel):
    """A message as Slack's history has it; the rest of it is skipped."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ts: Annotated[str, Field(pattern=r"^\d{1,12}\.\d{1,9}$")]
    subtype: _Text = ""
    user: _Text = ""
    bot_id: _Text = ""
    username: _Text = ""
    text: _Text = ""


def thread_before(message: IncomingMessage) -> str | None:
    """The thread that holds messages before this one; None for what stands outside threads or begins one."""
    thread_ts, ts = message.address.thread_id, message.message_id
    is_post = ts.replace(".", "", 1).isdecimal()  # a pressed button has no place in a thread
    return thread_ts if is_post and thread_ts != ts else None


def earlier_of(said: Said, me: Me) -> EarlierMessage | None:
    """A message of the history, of whomever; None for notices and for what has no text."""
    writer, text = said.user or said.bot_id, readable(said.text, me.user_id)
    if said.subtype not in _SAID or not writer or not text:
        return None
    return EarlierMessage(
        sender=Sender(user_id=writer, display_name=said.username or writer),
        text=text,
        sent_at=datetime.fromtimestamp(float(said.ts), UTC),
        is_ours=said.user == me.user_id or (bool(me.bot_id) and said.bot_id == me.bot_id),
    )


# Slack Events API, message subtypes: what people write, and what apps do.
_SAID = frozenset({"", "file_share", "thread_broadcast", "bot_message"})
