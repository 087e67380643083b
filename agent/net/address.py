"""Which addresses of the web a tool may ask: public ones, over TLS, without credentials in them."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import unquote

from yarl import URL

from agent.safety.views import INVISIBLE

IPAddress = IPv4Address | IPv6Address

LONGEST_URL = 2048
_HIDDEN = re.compile(rf"[\r\n\t\\{INVISIBLE}]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # a host that ends so is an IPv4 address: URL standard, "host parsing"
_LONGEST_NAME = 253  # RFC 1035, 2.3.4, without the length octets
_NOT_PUBLIC = "this machine and its network are not read."
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an IPv4 address in the last 32 bits
_CREDENTIAL_KEYS = frozenset({
    "api_key", "apikey", "api-key", "key", "auth", "client_id", "app_key", "sig", "signature",
})  # fmt: skip
_CREDENTIAL_WORDS = re.compile("token|secret|password|auth|credential")
_CREDENTIAL_HEADERS = frozenset({"cookie", "x-api-key", "api-key"})
_CREDENTIAL_SCHEMES = re.compile(r"\s*(?:bearer|basic|token|digest|hoba|mutual|aws4-hmac-sha256)\b", re.IGNORECASE)


class Unreachable(Exception):
    """A page that cannot or may not be had. The text says why, for the model."""


def check_url(text: str) -> URL:
    """The address as it will be asked. Raises Unreachable.

    Only the form is judged here: what a name leads to is known after it is looked up (`is_public`).
    """
    if len(text) > LONGEST_URL:
        raise Unreachable(f"the address is longer than {LONGEST_URL} characters.")
    if _HIDDEN.search(text):
        raise Unreachable("the address holds characters that cannot be seen, or a backslash.")
    try:
        url = URL(text)
        host, port = url.raw_host, url.port
    except ValueError:
        raise Unreachable("this is not an address of a page.") from None
    if url.scheme != "https":
        raise Unreachable("only https addresses are read.")
    if not host or not port:
        raise Unreachable("the address names no host.")
    if url.user is not None or url.password is not None:
        raise Unreachable("a name or a password in an address is not sent.")
    _check_host(host.removesuffix(".").lower())
    return url.with_fragment(None)


def _check_host(name: str) -> None:
    """Refuse what names this machine, and what a resolver could read in another way than we do. Raises Unreachable."""
    if name == "localhost" or name.endswith(".localhost"):
        raise Unreachable(_NOT_PUBLIC)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        labels = name.split(".")
        if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)) or _NUMBER.fullmatch(labels[-1]):
            raise Unreachable("this is not a host of the internet.") from None
        return
    if not is_public(address) or "%" in name:
        raise Unreachable(_NOT_PUBLIC)


def is_public(address: IPAddress) -> bool:
    """Whether an address lies on the internet: neither here, nor in a local network, nor a group of machines."""
    if isinstance(address, IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def holds_credential(text: str) -> bool:
    """Whether an address carries something by which a service knows somebody, to judge by the names in its query."""
    try:
        names = [name.lower() for name in URL(text).query]
    except ValueError:
        return False
    return any(name in _CREDENTIAL_KEYS or _CREDENTIAL_WORDS.search(name) for name in names)


def is_credential_header(name: str, value: str) -> bool:
    """Whether a header is one by which a service knows somebody, to judge by its name or the beginning of its value."""
    lower = name.lower()
    return (
        lower in _CREDENTIAL_HEADERS
        or _CREDENTIAL_WORDS.search(lower) is not None
        or _CREDENTIAL_SCHEMES.match(value) is not None
    )


def spellings(text: str) -> str:
    """The address as given and with its escapes undone, twice: something hidden in it can be looked for."""
    once = unquote(text)
    return "\n".join((text, once, unquote(once)))


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    return IPv4Address(address.packed[-4:]) if address in _NAT64 else None
