"""Whose files a turn may see: the one predicate behind the prompt, the memory tools, the file tools and the shell."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from channels.message import Address, ChatType

_LONGEST_NAME = 150  # file systems take 255 bytes; the rest is left for suffixes


@dataclass(frozen=True, slots=True)
class OperatorScope:
    """The operator in private: the workspace itself, without other people's and groups' folders."""

    @property
    def folder(self) -> PurePosixPath:
        return PurePosixPath()


@dataclass(frozen=True, slots=True)
class PersonScope:
    """Another person in private."""

    channel: str
    user_id: str

    @property
    def folder(self) -> PurePosixPath:
        return PurePosixPath("users", _name(self.channel), _name(self.user_id))


@dataclass(frozen=True, slots=True)
class GroupScope:
    """A shared chat, whoever speaks in it, the operator included. `member` is who speaks, where that is known."""

    channel: str
    chat_id: str
    member: str | None = None

    @property
    def folder(self) -> PurePosixPath:
        return PurePosixPath("groups", _name(self.channel), _name(self.chat_id))

    @property
    def member_file(self) -> PurePosixPath | None:
        """Below the folder: what the chat remembers of the member who speaks, seen in that member's turns only."""
        return None if self.member is None else PurePosixPath("people", f"{_name(self.member)}.md")


Scope = OperatorScope | PersonScope | GroupScope


def scope_of(address: Address, sender_id: str, chat_type: ChatType, *, is_operator: bool) -> Scope:
    """Whose files are in reach of a message. A shared chat never reaches a person's, not even the operator's."""
    if chat_type.is_shared:
        return GroupScope(address.channel, address.chat_id, sender_id)
    if is_operator:
        return OperatorScope()
    return PersonScope(address.channel, sender_id)


def _name(part: str) -> str:
    """A folder name that distinct parts never share, also where file names ignore case."""
    if not part:
        return "%"  # no encoded part is a bare "%"; an empty name would be the parent folder
    if _is_platform_id(part):
        return part
    plain = quote(part, safe="-", errors="surrogatepass").replace(".", "%2E").replace("~", "%7E")
    if _is_platform_id(part.upper()):
        plain = f"%{ord(part[0]):02X}{plain[1:]}" if part[0].islower() else plain
    folded = re.sub(r"%[0-9A-F]{2}|[A-Z]", lambda m: m[0] if len(m[0]) > 1 else f"%{ord(m[0]):02X}", plain)
    if len(folded) <= _LONGEST_NAME:
        return folded
    digest = hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{folded[:60]}%-{digest[:40]}"  # "%-" begins no encoded character


def _is_platform_id(part: str) -> bool:
    """Slack ids are upper case with digits (U0ABC): they stay; what differs from one by case alone is encoded."""
    return re.fullmatch(r"(?=.*[0-9])[A-Z][A-Z0-9]{1,30}", part) is not None
