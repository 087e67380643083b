"""No tool reaches this machine or its network: by no spelling, name or redirect, and by no second answer of a DNS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agent.extensions.services import Injection
from agent.hooks.webhooks import BadWebhook, check_webhook_url
from agent.model.ids import UserId
from agent.net.address import Unreachable, check_url, is_public
from agent.net.client import WebClient, WebRequest
from agent.tools.builtin.http import Http, HttpArguments
from agent.tools.builtin.skills import SkillInstall, SkillInstallArguments
from agent.tools.builtin.web_fetch import WebFetch, WebFetchArguments
from tests.conftest import LeftTheMachine, attempts
from tests.security.corpus.addresses import ALLOWED, LOCAL, TRICKS
from tests.support.tls import ELSEWHERE, HERE, NAME, Names, serving

PUBLIC = ip_address("1.1.1.1")


class NoCredentials:
    def knows(self, host: str) -> bool:
        return False

    async def injections(self, user: UserId, host: str) -> Sequence[Injection]:
        return ()


def checks() -> Mapping[str, Callable[[str], str | None]]:
    """What each way out says of an address before anybody is asked: why not, or None."""

    async def never(*arguments: object, **more: object) -> object:
        raise AssertionError("asked")

    def webhook(url: str) -> str | None:
        try:
            check_webhook_url(url)
        except BadWebhook as error:
            return str(error)
        return None

    http = Http(never, NoCredentials(), lambda text: False, Path("/nowhere"), lambda context: True)  # type: ignore[arg-type]  # never called
    fetch = WebFetch.spec.check
    install = SkillInstall.spec.check
    assert fetch is not None
    assert install is not None
    assert http.spec.check is not None
    ask = http.spec.check
    return {
        "web_fetch": lambda url: fetch(WebFetchArguments(url=url)),
        "http": lambda url: ask(HttpArguments(url=url)),
        "skill_install": lambda url: install(SkillInstallArguments(name="x", url=url)),
        "webhook": webhook,
    }


@pytest.mark.parametrize("way", checks())
@pytest.mark.parametrize("url", [*LOCAL, *TRICKS])
def test_local_and_ambiguous_addresses_are_refused_by_their_form(way: str, url: str) -> None:
    assert checks()[way](url) is not None


@pytest.mark.parametrize("way", checks())
@pytest.mark.parametrize("url", ALLOWED)
def test_ordinary_addresses_are_not_refused(way: str, url: str) -> None:
    assert checks()[way](url) is None


@given(st.text(max_size=60), st.sampled_from(["", "https://", "https://127.0.0.1", "https://[", "https://a@"]))
def test_any_text_is_refused_or_gives_a_public_https_address(text: str, head: str) -> None:
    try:
        url = check_url(head + text)
    except Unreachable:
        return
    assert url.scheme == "https"
    assert url.host
    assert url.user is None
    assert check_url(str(url)) == url, "what is asked would be judged otherwise"


@given(st.integers(0, 2**32 - 1))
def test_every_wrapping_of_an_address_is_judged_as_the_address_itself(number: int) -> None:
    four = ip_address(number)
    wrapped = [ip_address(f"::ffff:{four}"), ip_address(f"64:ff9b::{four}")]
    wrapped.append(ip_address((0x2002 << 112) | (number << 80)))

    if not is_public(four):
        assert not any(map(is_public, wrapped))


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.integers(0, 255))
def test_no_number_passes_for_a_name(a: int, b: int, c: int, d: int) -> None:
    whole = (a << 24) | (b << 16) | (c << 8) | d
    short = f"{a}.{b * 65536 + c * 256 + d}"
    for host in (f"{whole}", f"{whole:#x}", f"0{whole:o}", f"{a:#x}.{b}.{c}.{d}", f"{a}.{b}.{c}.0{d:o}", short):
        with pytest.raises(Unreachable):
            check_url(f"https://{host}/")


# -- what a name leads to ------------------------------------------------------------------------------------------
class Server:
    """A page on this machine that nothing may read."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.location = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path == "/hop":
            return web.Response(status=302, headers={"Location": self.location})
        return web.Response(text="inside")


LEADS_HERE = (
    ("127.0.0.1",), ("::1",), ("1.1.1.1", "127.0.0.1"), ("127.0.0.1", "1.1.1.1"), ("::ffff:127.0.0.1",), ("0.0.0.0",),
    ("64:ff9b::7f00:1",), ("2002:7f00:1::",), ("10.0.0.1",), ("169.254.169.254",), (),
)  # fmt: skip


@pytest.mark.parametrize("said", LEADS_HERE, ids=" ".join)
async def test_name_that_leads_here_gets_no_connection(said: Sequence[str], tmp_path: Path) -> None:
    inside = Server()
    async with serving(tmp_path, inside.answer) as port:
        tls = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
        names = Names([ip_address(each) for each in said])
        with pytest.raises(Unreachable, match="this machine"):
            await WebClient(names, tls=tls).get(f"https://{NAME}:{port}/")
        with pytest.raises(Unreachable, match="this machine"):
            await WebClient(names, tls=tls).post_json(f"https://{NAME}:{port}/", {}, {})

    assert inside.asked == []


@pytest.mark.parametrize("url", [*LOCAL, *TRICKS, "https:///page", "/\\127.0.0.1/page", "\\\\127.0.0.1\\page"])
async def test_no_redirect_leads_where_an_address_may_not(url: str, tmp_path: Path) -> None:
    if "\n" in url or not url.isprintable():
        return  # no header can hold it
    inside = Server()
    async with serving(tmp_path, inside.answer) as port:
        tls = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
        client = WebClient(Names([HERE], [ELSEWHERE]), lambda address: address == HERE, tls)
        inside.location = url
        if url in RELATIVE:
            return
        with pytest.raises(Unreachable):
            await client.get(f"https://{NAME}:{port}/hop")

    assert inside.asked == ["/hop"]


RELATIVE = frozenset({"//example.com/", "example.com", ""})
"""Of these a redirect makes an address of the same server or another public one."""


async def test_dns_that_changes_its_mind_after_the_check_changes_nothing(tmp_path: Path) -> None:
    """Judged once and held on to: the second answer, which leads elsewhere, is never asked for."""
    inside = Server()
    async with serving(tmp_path, inside.answer) as port:
        tls = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
        names = Names([PUBLIC], [HERE])
        client = WebClient(names, is_public, tls)
        with pytest.raises((Unreachable, LeftTheMachine)):
            await client.send(WebRequest(check_url(f"https://{NAME}:{port}/")), timedelta(seconds=1))
        attempts.clear()  # it went for the public address, as it should

    assert inside.asked == []
