"""Who may ask what: tokens, cookies, origins and host names. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

SIGNATURE = "X-Hub-Signature-256"  # GitHub, "Validating webhook deliveries"; others write it the same way

_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")


def is_same(given: str, expected: str) -> bool:
    """Compares two secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(_bytes(given), _bytes(expected))


def cookie_value(token: str) -> str:
    """What the page's cookie holds: proof of the token, not the token, since browsers show it to every local port."""
    return hmac.new(_bytes(token), b"optimclaw page cookie", hashlib.sha256).hexdigest()


def cookie_name(port: int) -> str:
    """Cookies are shared between the ports of a host: two bots on one machine need two names."""
    return f"optimclaw_{port}"


def has_bearer(headers: Mapping[str, str], token: str) -> bool:
    """Whether the Authorization header carries the token."""
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and is_same(given.strip(), token)


def is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a browser sends this request on behalf of another site's page."""
    origin = headers.get("Origin")
    if origin is not None:
        theirs = _authority(origin)
        if theirs is None or theirs != _authority(f"//{headers.get('Host', '')}"):
            return True
    return headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")


def is_loopback_host(host: str) -> bool:
    """Whether a bound address or a peer's address never leaves this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def names_loopback(headers: Mapping[str, str]) -> bool:
    """Whether the Host header names this machine. A rebound DNS name of another site does not."""
    try:
        return is_loopback_host(urlsplit(f"//{headers.get('Host', '')}").hostname or "")
    except ValueError:
        return False


def is_local_request(peer: str | None, headers: Mapping[str, str]) -> bool:
    """Whether a request comes from this machine itself, not through a proxy or tunnel that runs on it."""
    if peer is None or not is_loopback_host(peer):
        return False
    return names_loopback(headers) and not any(name in headers for name in _FORWARDED)


def has_signature(headers: Mapping[str, str]) -> bool:
    """Whether there is anything of the shape of a signature."""
    return re.fullmatch(r"sha256=[0-9a-f]{64}", _given_signature(headers)) is not None


def bears_signature(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Whether the headers hold the signature of a body under this secret. Nothing bears that of an empty secret."""
    expected = "sha256=" + hmac.new(_bytes(secret), body, hashlib.sha256).hexdigest()
    return is_same(_given_signature(headers), expected) and bool(secret.strip())


class FixedWindow:
    """Counts calls in fixed windows of time."""

    def __init__(self, limit: int, period: timedelta) -> None:
        self._limit = limit
        self._period = period
        self._began: datetime | None = None
        self._count = 0

    def admit(self, now: datetime) -> timedelta | None:
        """None if the call is within the limit, else how long until the next window."""
        if self._began is None or now - self._began >= self._period or now < self._began:
            self._began, self._count = now, 0
        if self._count >= self._limit:
            return self._began + self._period - now
        self._count += 1
        return None


def _given_signature(headers: Mapping[str, str]) -> str:
    return headers.get(SIGNATURE, "").strip().lower()


def _authority(url: str) -> tuple[str, int | None] | None:
    """Host and port of an http(s) URL; None for anything else, such as the origin `null`.

    A default port counts as none: a proxy that speaks TLS hands on a Host without one.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("", "http", "https") or not parts.hostname:
        return None
    return parts.hostname, None if port in (80, 443) else port


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
