"""What can go wrong between us and a platform; one class per decision a caller can take.

ChannelError
├── Unauthorized   the credential is refused: the channel is off until its settings change
├── RateLimited    wait `retry_after`, then send the same again
├── Unavailable    the platform is away: try again later, with backoff
├── Rejected       the platform refuses this message for good: give it up, say why in the log
└── Migrated       the chat has a new id: move what belongs to it and send there
"""

from __future__ import annotations

from datetime import timedelta


class ChannelError(Exception):
    """Base of all channel faults. Texts never hold tokens or message text."""


class Unauthorized(ChannelError):
    """The platform refuses our credential or a permission we asked for. `cure` tells the operator what to change."""

    def __init__(self, channel: str, cure: str) -> None:
        super().__init__(f"{channel} refuses the configured credential or permission: {cure}")
        self.channel = channel
        self.cure = cure


class RateLimited(ChannelError):
    """The platform asked us to wait before sending again."""

    def __init__(self, channel: str, retry_after: timedelta) -> None:
        super().__init__(f"{channel} asks to wait {retry_after.total_seconds():.1f} s")
        self.channel = channel
        self.retry_after = retry_after


class Unavailable(ChannelError):
    """The platform did not answer, or answered with a fault of its own. `maybe_sent`: our request may have arrived."""

    def __init__(self, channel: str, reason: str, *, maybe_sent: bool = False) -> None:
        super().__init__(f"{channel} is not available: {reason}")
        self.channel = channel
        self.reason = reason
        self.maybe_sent = maybe_sent


class Rejected(ChannelError):
    """The platform will never take this message (blocked, chat gone, not allowed)."""

    def __init__(self, channel: str, reason: str) -> None:
        super().__init__(f"{channel} rejects the message: {reason}")
        self.channel = channel
        self.reason = reason


class Migrated(ChannelError):
    """A Telegram group became a supergroup: its chat id changed."""

    def __init__(self, channel: str, old_chat_id: str, new_chat_id: str) -> None:
        super().__init__(f"{channel} chat {old_chat_id} is now {new_chat_id}")
        self.channel = channel
        self.old_chat_id = old_chat_id
        self.new_chat_id = new_chat_id
