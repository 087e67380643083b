from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.net.address import LONGEST_URL, Unreachable, check_url, holds_credential, is_public
from agent.net.page import MOST_HTML_BYTES, Page, page_text
from agent.tools.base import Approval
from agent.tools.builtin.web_fetch import WebFetch, WebFetchArguments
from agent.workspace.scope import OperatorScope
from tests.support.tool_context import make_context


def page(body: str | bytes, media: str = "text/html", charset: str | None = "utf-8", status: int = 200) -> Page:
    return Page("https://example.org/a/b", status, media, charset, body.encode() if isinstance(body, str) else body)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/", "only https"),
        ("file:///etc/passwd", "only https"),
        ("ftp://example.org/", "only https"),
        ("example.org", "only https"),
        ("", "only https"),
        ("https://", "no host"),
        ("https:///path", "no host"),
        ("https://user:word@example.org/", "password"),
        ("https://user@example.org/", "password"),
        ("https://localhost/", "this machine"),
        ("https://LOCALHOST./", "this machine"),
        ("https://a.localhost:8443/", "this machine"),
        ("https://[::1/", "not an address"),
        ("https://example.org:99999/", "not an address"),
        ("https://example.org/" + "a" * LONGEST_URL, "longer than"),
    ],
)
def test_address_of_a_wrong_form_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(Unreachable, match=why):
        check_url(url)


def test_good_address_is_asked_without_its_fragment() -> None:
    assert str(check_url("https://Example.org/a?b=c#d")) == "https://example.org/a?b=c"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "::1", "::", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2002:c0a8:101::", "2001::1",
    ],
)  # fmt: skip
def test_address_that_is_not_on_the_internet_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_address_on_the_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_address_within_an_address_is_judged_like_itself(inner: ipaddress.IPv4Address) -> None:
    for outer in (
        f"::ffff:{inner}",
        f"64:ff9b::{inner}",
        str(ipaddress.IPv6Address((0x2002 << 112) | int(inner) << 80)),
    ):
        assert is_public(ipaddress.ip_address(outer)) == is_public(inner)


@pytest.mark.parametrize(
    ("url", "holds"),
    [
        ("https://example.org/?q=cats", False),
        ("https://example.org/?API_KEY=x", True),
        ("https://example.org/?a=1&my_token=x", True),
        ("https://example.org/?sig=x", True),
        ("https://example.org/token", False),
        ("https://[", False),
    ],
)
def test_credential_in_the_query_is_told_by_its_name(url: str, holds: bool) -> None:
    assert holds_credential(url) is holds
    wanted = Approval.ALWAYS if holds else Approval.UNLESS_ALWAYS
    assert WebFetch.spec.assess is not None
    assert WebFetch.spec.assess(WebFetchArguments(url=url)) is wanted


def test_page_becomes_markdown_without_what_nobody_sees() -> None:
    text = page_text(
        page(
            "<html><head><title>Cats &amp; dogs</title><style>p {}</style></head><body><nav>menu</nav>"
            "<h1>Cats</h1><p>They <b>purr</b>. <a href='/more'>More</a></p><script>evil()</script>"
            "<ul><li>one</li><li>two</li></ul><table><tr><th>a</th></tr><tr><td>1</td></tr></table>"
        )
    )

    assert text is not None
    assert text.startswith("Title: Cats & dogs\n\n# Cats\n\nThey **purr**. [More](https://example.org/more)")
    assert "- one\n- two" in text
    assert "| 1 |" in text
    for unseen in ("evil", "menu", "p {}", "\n\n\n"):
        assert unseen not in text


@pytest.mark.parametrize(
    "media", ["text/plain", "application/json", "application/ld+json", "text/csv", "image/svg+xml"]
)
def test_other_text_stays_as_it_is(media: str) -> None:
    assert page_text(page('{"a": "<b>"}', media)) == '{"a": "<b>"}'


@pytest.mark.parametrize("media", ["image/png", "application/octet-stream", "application/pdf"])
def test_what_is_no_text_is_none(media: str) -> None:
    assert page_text(page(b"\x00\x01", media)) is None


def test_charset_of_the_server_counts_and_an_unknown_one_is_survived() -> None:
    assert page_text(page("Käse".encode("latin-1"), "text/plain", "latin-1")) == "Käse"
    assert page_text(page("Käse", "text/plain", "no-such-charset")) == "Käse"
    assert page_text(page(b"\xff\xfe ok", "text/plain")) == "\ufffd\ufffd ok"


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(st.binary(max_size=300), st.sampled_from([None, "utf-8", "latin-1", "no-such", "utf-16"]))
def test_no_bytes_break_the_conversion(body: bytes, charset: str | None) -> None:
    for media in ("text/html", "text/plain"):
        assert isinstance(page_text(page(body, media, charset)), str)


def test_deep_and_large_pages_are_survived_and_cut_aloud() -> None:
    assert "deep" in (page_text(page("<div>" * 20_000 + "deep")) or "")
    text = page_text(page("<p>word</p>" * (MOST_HTML_BYTES // 11 + 1000))) or ""
    assert text.endswith("bytes were read]")


async def test_secret_in_an_address_never_leaves_also_with_escapes() -> None:
    asked: list[str] = []

    async def get(url: str) -> Page:
        asked.append(url)
        return page("<p>hello</p>")

    tool = WebFetch(get, lambda text: "sk-secret" in text)
    context = make_context(OperatorScope())
    for url in ("https://example.org/?q=sk-secret", "https://example.org/sk%2Dsecret", "https://a.b/sk%252Dsecret"):
        output = await tool.run(WebFetchArguments(url=url), context)
        assert output.is_error
        assert "sk-secret" not in output.text
    assert asked == []

    output = await tool.run(WebFetchArguments(url="https://example.org/"), context)
    assert output.text == "URL: https://example.org/a/b\nStatus: 200\nhello"


async def test_failed_status_and_unreadable_pages_are_errors() -> None:
    answers = {"https://x.org/404": page("<p>gone</p>", status=404), "https://x.org/png": page(b"1", "image/png")}

    async def get(url: str) -> Page:
        if url not in answers:
            raise Unreachable("there is no host x.")
        return answers[url]

    tool = WebFetch(get, lambda text: False)
    context = make_context(OperatorScope())
    outputs = [
        await tool.run(WebFetchArguments(url=f"https://x.org/{name}"), context) for name in ("404", "png", "other")
    ]
    assert all(output.is_error for output in outputs)
    assert "Status: 404\ngone" in outputs[0].text
    assert "image/png of 1 bytes" in outputs[1].text
    assert "there is no host x." in outputs[2].text
