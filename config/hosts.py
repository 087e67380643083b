"""Names of hosts as an operator lists them and as programs ask for them, in one spelling."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

HTTPS_PORT: Final = 443

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# The last label holds a letter first: what resolvers would read as a number is no name (127.1, 0x7f.1).
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?![0-9]){_LABEL}", re.ASCII)


class HostRule(NamedTuple):
    """A host and port that may be asked. `below`: all names below `name`, and not itself."""

    name: str
    port: int
    below: bool = False

    def covers(self, host: str, port: int) -> bool:
        """Whether this host, spelled as `normal_host` does, is meant."""
        named = host.endswith(f".{self.name}") if self.below else host == self.name
        return named and port == self.port


def host_rule(text: str) -> HostRule:
    """The rule that `name`, `*.domain` or an address states; port 443 unless one is named. Raises ValueError.

    An address must be one of the internet.
    """
    below = text.startswith("*.")
    host, port = split_port(text.removeprefix("*."))
    name = normal_host(host)
    address = _address(name)
    if address is not None and (below or not address.is_global):
        raise ValueError("not an address of the internet")
    return HostRule(name, HTTPS_PORT if port is None else port, below)


def normal_host(text: str) -> str:
    """A host in lower case, without a final dot, in ASCII; an address as it is written shortest. Raises ValueError."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if (address := _address(bare)) is not None:
        return str(address)
    name = bare.removesuffix(".")
    if not name.isascii():
        name = name.encode("idna").decode("ascii")
    name = name.lower()
    if not _NAME.fullmatch(name):
        raise ValueError("not the name of a host")
    return name


def split_port(text: str) -> tuple[str, int | None]:
    """A host and the port behind its colon, if there is one. An IPv6 address stands in brackets. Raises ValueError."""
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", text)
    if match is None:
        raise ValueError("not host:port")
    port = None if match[2] is None else int(match[2])
    if port is not None and not 1 <= port <= 65_535:
        raise ValueError("no such port")
    return match[1], port


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None
