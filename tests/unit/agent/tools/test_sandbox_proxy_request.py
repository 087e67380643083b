from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.sandbox_proxy_request import Fetch, Refused, Tunnel, parse_head


def head(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("example.com:443", "example.com", 443),
        ("EXAMPLE.com.:8443", "example.com", 8443),
        ("example.com", "example.com", 443),
        ("[2606:4700::1111]:443", "2606:4700::1111", 443),
    ],
)
def test_connect_opens_a_tunnel(target: str, host: str, port: int) -> None:
    assert parse_head(head(f"CONNECT {target} HTTP/1.1", f"Host: {target}")) == Tunnel(host, port)


def test_a_plain_address_is_fetched_with_a_head_of_our_own() -> None:
    request = parse_head(
        head(
            "GET http://Example.com:8080/a?b=c HTTP/1.0",
            "Host: other.example",
            "Proxy-Authorization: Basic eA==",
            "Connection: keep-alive",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
            "Accept: */*",
        )
    )

    assert request == Fetch(
        "example.com",
        8080,
        head("GET /a?b=c HTTP/1.1", "Host: example.com:8080", "Connection: close", "Accept: */*"),
    )


@pytest.mark.parametrize(
    ("target", "first"),
    [("http://a.example", "GET / HTTP/1.1"), ("http://a.example?x", "GET /?x HTTP/1.1")],
)
def test_an_address_without_a_path_asks_for_the_root(target: str, first: str) -> None:
    request = parse_head(head(f"GET {target} HTTP/1.1"))

    assert isinstance(request, Fetch)
    assert request.head.decode().splitlines()[:2] == [first, "Host: a.example"]
    assert request.port == 80


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET / HTTP/1.1", 400),
        ("GET https://example.com/ HTTP/1.1", 400),
        ("GET ftp://example.com/ HTTP/1.1", 400),
        ("GET http://me@example.com/ HTTP/1.1", 400),
        ("GET http://allowed.example@evil.example/ HTTP/1.1", 400),
        ("GET http://example.com\\@evil.example/ HTTP/1.1", 400),
        ("GET http://127.1/ HTTP/1.1", 400),
        ("GET http:///x HTTP/1.1", 400),
        ("GET http://example.com/#x HTTP/1.1", 400),
        ("GET  http://example.com/ HTTP/1.1", 400),
        ("get http://example.com/ HTTP/1.1", 400),
        ("GET http://example.com/ HTTP/2", 400),
        ("GET http://example.com/", 400),
        ("POST http://example.com/ HTTP/1.1", 405),
        ("CONNECT localhost:443 HTTP/1.1", 400),
        ("CONNECT example.com:0 HTTP/1.1", 400),
        ("CONNECT example.com:443/x HTTP/1.1", 400),
        ("CONNECT 0x7f.0.0.1:443 HTTP/1.1", 400),
        ("CONNECT exam\x00ple.com:443 HTTP/1.1", 400),
        ("", 400),
        ("\x16\x03\x01", 400),
    ],
)
def test_anything_else_is_refused(line: str, status: int) -> None:
    with pytest.raises(Refused) as caught:
        parse_head(head(line))

    assert caught.value.status == status


@pytest.mark.parametrize("header", ["no colon", " folded: x", "a b: c", "X: a\nY: b", "X: a\rY: b", "X: \x00", ": x"])
def test_a_header_that_could_be_read_in_two_ways_is_refused(header: str) -> None:
    with pytest.raises(Refused):
        parse_head(head("GET http://example.com/ HTTP/1.1", header))


@given(st.binary(max_size=300))
def test_no_head_is_a_fault_of_ours(data: bytes) -> None:
    with suppress(Refused):
        assert isinstance(parse_head(data), Tunnel | Fetch)


@given(
    st.sampled_from(["GET", "HEAD"]),
    st.text(alphabet="ab/?=&;%\r\n #:\\é", max_size=30),
    st.lists(st.text(alphabet="aA:- \r\n\t\x00xé", max_size=20), max_size=5),
)
def test_what_a_server_is_sent_is_one_request_without_a_body(method: str, path: str, headers: list[str]) -> None:
    try:
        request = parse_head(head(f"{method} http://example.com/{path} HTTP/1.1", *headers))
    except (Refused, UnicodeEncodeError):
        return

    assert isinstance(request, Fetch)
    text = request.head.decode("latin-1")
    assert text.count("\r\n\r\n") == 1
    assert text.endswith("\r\n\r\n")
    assert all(char == "\t" or char >= " " for char in text.replace("\r\n", ""))
    lines = text.lower().split("\r\n")
    assert [line for line in lines if line.startswith("host:")] == ["host: example.com"]
    assert not [line for line in lines if line.startswith(("content-length:", "transfer-encoding:"))]
