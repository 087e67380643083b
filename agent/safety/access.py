"""Who may talk to the bot, and who commands it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import StrEnum

from channels.message import IncomingMessage, Sender

EVERYBODY = "*"

# Telegram and Discord number their users; Slack's ids are upper case throughout.
_PLATFORM_ID = re.compile(r"[0-9]+|[UWB][A-Z0-9]{6,}")


class DmPolicy(StrEnum):
    """Who may write in private."""

    PAIRING = "pairing"  # a stranger gets a code that the operator approves
    ALLOWLIST = "allowlist"
    OPEN = "open"


class GroupPolicy(StrEnum):
    """Who is heard in shared chats."""

    ALLOWLIST = "allowlist"
    OPEN = "open"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """One channel's rules. Nothing set means closed: strangers can only ask for a pairing.

    `groups`: the shared chats the bot answers in; empty for all. `everyone_is_operator`: for the terminal and the page,
    which only the person who runs the bot can reach.
    """

    owner_id: str | None = None
    dm_policy: DmPolicy = DmPolicy.PAIRING
    allow_from: frozenset[str] = frozenset()
    group_policy: GroupPolicy = GroupPolicy.ALLOWLIST
    groups: frozenset[str] = frozenset()
    everyone_is_operator: bool = False

    @classmethod
    def of(
        cls,
        owner_id: str | None,
        dm_policy: DmPolicy | str,
        allow_from: Iterable[str],
        group_policy: GroupPolicy | str,
        groups: Iterable[str],
    ) -> AccessPolicy:
        """From the words of the settings; blank entries count for nothing. Raises ValueError for an unknown policy."""
        return cls(
            owner_id=(owner_id or "").strip() or None,
            dm_policy=DmPolicy(dm_policy),
            allow_from=_entries(allow_from),
            group_policy=GroupPolicy(group_policy),
            groups=_entries(groups),
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """The message is taken."""

    is_operator: bool


@dataclass(frozen=True, slots=True)
class Ignored:
    """The message is dropped without a reply. `reason` is for the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class NeedsPairing:
    """A stranger in private, who may be given a pairing code."""


Access = Allowed | Ignored | NeedsPairing


def decide_access(
    policy: AccessPolicy, message: IncomingMessage, *, is_paired: bool, former_chat: str | None = None
) -> Access:
    """Whether `message` is taken. `is_paired`: its sender has been approved on this channel.

    `former_chat`: the id its chat had before, which may be the one on the list.

    The owner always may. A chat of unknown type counts as shared, and strangers there are never offered a pairing.
    """
    if policy.everyone_is_operator:
        return Allowed(is_operator=True)
    sender = message.sender
    if not sender.user_id:
        return Ignored("anonymous sender")
    is_owner = sender.user_id == policy.owner_id
    if message.metadata.chat_type.is_shared:
        chats = {message.address.chat_id, former_chat or message.address.chat_id}
        return _in_shared_chat(policy, message, chats, is_owner=is_owner, is_paired=is_paired)
    if is_owner:
        return Allowed(is_operator=True)
    if policy.dm_policy is DmPolicy.OPEN or is_paired or _is_listed(policy, sender):
        return Allowed(is_operator=False)
    return NeedsPairing() if policy.dm_policy is DmPolicy.PAIRING else Ignored("not on the allow list")


def access_warnings(channel: str, policy: AccessPolicy) -> tuple[str, ...]:
    """What the operator should know about these rules, for the log at start and for `check`."""
    found: list[str] = []
    setting = f"{channel.upper()}_ALLOW_FROM"
    if names := sorted(e for e in policy.allow_from if e != EVERYBODY and not _PLATFORM_ID.fullmatch(e)):
        found.append(f"{setting} lists {', '.join(names)} by name: names can change hands, use the numeric or U… id")
    if EVERYBODY in policy.allow_from or policy.dm_policy is DmPolicy.OPEN:
        found.append(f"anybody who finds the bot on {channel} can talk to it")
    if policy.dm_policy is DmPolicy.ALLOWLIST and not policy.allow_from and policy.owner_id is None:
        found.append(f"{channel} is closed: {setting} and {channel.upper()}_OWNER_ID are empty")
    return tuple(found)


def _in_shared_chat(
    policy: AccessPolicy, message: IncomingMessage, chats: Set[str], *, is_owner: bool, is_paired: bool
) -> Access:
    if not message.metadata.addressed_to_bot:
        return Ignored("not addressed to the bot")
    if is_owner:
        return Allowed(is_operator=True)
    if policy.group_policy is GroupPolicy.DISABLED:
        return Ignored("shared chats are disabled")
    if policy.groups and not policy.groups & {*chats, EVERYBODY}:
        return Ignored("chat is not on the list")
    if policy.group_policy is GroupPolicy.OPEN or is_paired or _is_listed(policy, message.sender):
        return Allowed(is_operator=False)
    return Ignored("not on the allow list")


def _is_listed(policy: AccessPolicy, sender: Sender) -> bool:
    if policy.allow_from & {EVERYBODY, sender.user_id}:
        return True
    name = (sender.username or "").removeprefix("@").casefold()
    return bool(name) and any(_names(entry, name) for entry in policy.allow_from)


def _names(entry: str, name: str) -> bool:
    # An entry shaped like an id never matches a name: on Discord anybody may call themselves "1234567890".
    return not _PLATFORM_ID.fullmatch(entry) and entry.removeprefix("@").casefold() == name


def _entries(values: Iterable[str]) -> frozenset[str]:
    return frozenset(entry for value in values if (entry := value.strip()))
