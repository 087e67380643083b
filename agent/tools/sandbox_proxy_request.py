"""What a program asks of the sandbox's proxy: the first lines of its connection, read and judged by their form."""

from __future__ import annotations

import re
from dataclasses import dataclass

from config.hosts import HTTPS_PORT, normal_host, split_port

_HTTP_PORT = 80
_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) ([\x21-\x7e]{1,8000}) HTTP/1\.[01]")
_PLAIN = re.compile(r"http://([^/?#@]+)([/?][^#]*)?", re.IGNORECASE)
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
# RFC 9110 7.6.1: they concern one connection only. What announces a body goes with them: no body is passed on.
_DROPPED = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "expect",
})  # fmt: skip


class Refused(Exception):
    """A request that is not served. `status` is the answer's, the text says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A connection to a host, whatever is said over it."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """One page over plain HTTP. `head` is what its server is sent."""

    host: str
    port: int
    head: bytes


ProxyRequest = Tunnel | Fetch


def parse_head(head: bytes) -> ProxyRequest:
    """The request in the lines up to the first empty one. Raises Refused."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise Refused(400, "this is not a request to a proxy")
    method, target = match[1], match[2]
    if method == "CONNECT":
        return Tunnel(*_authority(target, HTTPS_PORT))
    plain = _PLAIN.fullmatch(target)
    if plain is None:
        raise Refused(400, "the proxy takes CONNECT, and http:// addresses")
    if method not in ("GET", "HEAD"):
        raise Refused(405, "over plain http only GET and HEAD are passed on; use https")
    host, port = _authority(plain[1], _HTTP_PORT)
    path = plain[2] or "/"
    return Fetch(host, port, _rewritten(method, path if path.startswith("/") else f"/{path}", host, port, lines))


def _authority(text: str, default_port: int) -> tuple[str, int]:
    try:
        host, port = split_port(text)
        return normal_host(host), default_port if port is None else port
    except ValueError:
        raise Refused(400, "the address names no host of the internet") from None


def _rewritten(method: str, path: str, host: str, port: int, lines: list[str]) -> bytes:
    """The head as the server of the page expects it: it can be read in one way only, and ends the connection."""
    headers = [_header(line) for line in lines]
    name = f"[{host}]" if ":" in host else host
    kept = [f"{key}: {value}" for key, value in headers if key.lower() not in _DROPPED]
    own = [f"Host: {name}" if port == _HTTP_PORT else f"Host: {name}:{port}", "Connection: close"]
    return "\r\n".join((f"{method} {path} HTTP/1.1", *own, *kept, "", "")).encode("latin-1")


def _header(line: str) -> tuple[str, str]:
    match = _HEADER.fullmatch(line)
    if match is None:
        raise Refused(400, "a header of the request is malformed")
    return match[1], match[2]
