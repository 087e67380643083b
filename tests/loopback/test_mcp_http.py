"""MCP servers over HTTP: tokens, signing in over OAuth, renewing, and addresses that are not asked."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import timedelta
from pathlib import Path

import uvicorn
from pydantic import SecretStr

from agent.mcp.connection import Limits
from agent.mcp.outcome import AsksFor, Connected, NotConnected
from agent.model.ids import OPERATOR
from agent.tools.base import Approval
from tests.support.fake_mcp import server as notes
from tests.support.fake_mcp_http import FakeMcpHttp
from tests.support.mcp_bench import HERE, LIMITS, McpBench

TOKEN = "canary-81fd02b7a6e4"


async def test_server_of_the_official_package_is_used_over_http(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        http = uvicorn.Server(uvicorn.Config(notes.streamable_http_app(), ws="none", log_level="critical"))
        async with McpBench(tmp_path, notes={"url": f"http://127.0.0.1:{port}/mcp"}) as bench:
            serving = asyncio.ensure_future(http.serve([listening]))
            await bench.up("notes__add")
            output = await bench.call("notes__add", first=20, second=3)
            refused = await bench.call("notes__fail")
        http.should_exit = True
        http.force_exit = True
        await serving

    assert output.text.startswith("23")
    assert refused.is_error


async def test_token_is_asked_for_sent_as_bearer_and_kept_from_results(tmp_path: Path) -> None:
    async with FakeMcpHttp(token=TOKEN) as fake:
        fake.says = f"you sent {TOKEN}"
        async with McpBench(tmp_path, far={"url": fake.url}) as bench:
            await bench.until(lambda: bench.state("far") == "needs a credential")

            asked = await bench.servers.authenticate("far", HERE)
            await bench.hand_over("mcp/far", TOKEN)

            await bench.told("far is connected: 1 tool")
            output = await bench.call("far__lookup", word="x")

    assert isinstance(asked, AsksFor)
    assert asked.name == "mcp/far"
    assert "127.0.0.1" in asked.instructions
    assert fake.seen[-1] == f"Bearer {TOKEN}"
    assert output.text == "you sent [REDACTED]"


async def test_token_that_is_refused_is_said_and_no_success_is_claimed(tmp_path: Path) -> None:
    async with FakeMcpHttp(token=TOKEN) as fake, McpBench(tmp_path, far={"url": fake.url}) as bench:
        await bench.until(lambda: bench.state("far") == "needs a credential")

        await bench.hand_over("mcp/far", "something-else")

        assert "refuses requests" in await bench.told("far is not connected")
        assert bench.registry.names == ()


async def test_token_of_another_host_is_not_sent(tmp_path: Path) -> None:
    async with FakeMcpHttp(token=TOKEN) as fake, McpBench(tmp_path, far={"url": "http://localhost:1/mcp"}) as bench:
        await bench.until(lambda: bench.servers.knows("far"))
        await bench.vault.put(OPERATOR, "mcp/far", SecretStr(TOKEN))
        bench.write(far={"url": fake.url})

        await bench.servers.activate("far", HERE)

    assert set(fake.seen) == {""}


async def test_credential_that_the_entry_names_is_sent(tmp_path: Path) -> None:
    async with FakeMcpHttp(token=TOKEN) as fake:
        entry = {"url": fake.url, "credential": "Far Key", "headers": {"X-Team": "t-${credential:team}"}}
        async with McpBench(tmp_path, far=entry) as bench:
            await bench.until(lambda: bench.state("far") == "needs a credential")
            await bench.hand_over("team", "reds")
            await bench.hand_over("far key", TOKEN)
            await bench.up("far__lookup")

    assert fake.seen[-1] == f"Bearer {TOKEN}"


async def test_sign_in_ends_with_what_was_pasted_and_lasts_over_a_restart(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake:
        async with McpBench(tmp_path, far={"url": fake.url}) as bench:
            asked = await bench.servers.authenticate("far", HERE)
            assert isinstance(asked, AsksFor)
            await bench.hand_over(asked.name, fake.open_link(link_in(asked)))
            await bench.told("far is connected: 1 tool")
            assert not (await bench.call("far__lookup", word="x")).is_error
            kept = await bench.vault.names(OPERATOR)
        async with McpBench(tmp_path) as bench:
            await bench.up("far__lookup")

    assert asked.name == "mcp/far/sign-in"
    assert kept == ("mcp/far/client", "mcp/far/tokens")
    assert fake.counts["register"] == 1
    assert fake.counts["authorization_code"] == 1


async def test_code_alone_will_do(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake, McpBench(tmp_path, far={"url": fake.url}) as bench:
        asked = await bench.servers.authenticate("far", HERE)
        assert isinstance(asked, AsksFor)
        address = fake.open_link(link_in(asked))

        await bench.hand_over(asked.name, address.partition("code=")[2].partition("&")[0])

        await bench.told("far is connected")


async def test_answer_of_another_sign_in_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake, McpBench(tmp_path, far={"url": fake.url}) as bench:
        asked = await bench.servers.authenticate("far", HERE)
        assert isinstance(asked, AsksFor)
        address = fake.open_link(link_in(asked)).partition("&state=")[0] + "&state=forged"

        await bench.hand_over(asked.name, address)

        assert "belongs to another sign-in" in await bench.told("far is not connected")
        assert fake.counts["authorization_code"] == 0
        assert await bench.vault.names(OPERATOR) == ("mcp/far/client",)


async def test_refused_code_is_said_in_the_chat(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake, McpBench(tmp_path, far={"url": fake.url}) as bench:
        fake.refuses_codes = True
        asked = await bench.servers.authenticate("far", HERE)
        assert isinstance(asked, AsksFor)

        await bench.hand_over(asked.name, fake.open_link(link_in(asked)))

        assert "did not accept the code" in await bench.told("far is not connected")
        assert "far__lookup" not in bench.registry.names


async def test_sign_in_that_a_restart_cut_off_is_said_to_be_over(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake:
        async with McpBench(tmp_path, far={"url": fake.url}) as bench:
            asked = await bench.servers.authenticate("far", HERE)
            assert isinstance(asked, AsksFor)
            address = fake.open_link(link_in(asked))
        async with McpBench(tmp_path) as bench:
            await bench.until(lambda: bench.state("far") == "needs a credential")
            await bench.hand_over(asked.name, address)

            assert "Ask me to connect far again" in await bench.told("cannot be finished")
            assert asked.name not in await bench.vault.names(OPERATOR)


async def test_tokens_are_renewed_after_a_restart_when_their_time_is_over(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake:
        await sign_in(tmp_path, fake)
        async with McpBench(tmp_path, far={"url": fake.url, "enabled": False}) as bench:
            kept = await bench.vault.get(OPERATOR, "mcp/far/tokens")
            stale = json.loads(kept.secret.get_secret_value()) | {"expires_at": 1.0}
            await bench.vault.put(OPERATOR, "mcp/far/tokens", SecretStr(json.dumps(stale)), kept.terms)
            await bench.until(lambda: bench.servers.knows("far"))
            await bench.servers.activate("far", HERE)
            await bench.up("far__lookup")

    assert fake.counts["refresh_token"] >= 1
    assert fake.counts["authorization_code"] == 1


async def test_withdrawn_token_is_renewed_before_a_person_is_asked(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake:
        await sign_in(tmp_path, fake)
        fake.withdraw_tokens()
        async with McpBench(tmp_path) as bench:
            await bench.up("far__lookup")

    assert fake.counts["refresh_token"] == 1


async def test_sign_in_that_cannot_be_renewed_waits_for_a_person(tmp_path: Path) -> None:
    async with FakeMcpHttp(signs_in=True) as fake:
        await sign_in(tmp_path, fake)
        fake.withdraw_tokens()
        fake.refuses_refresh = True
        async with McpBench(tmp_path) as bench:
            await bench.until(lambda: bench.state("far") == "needs a credential")

            assert "sign in again" in bench.detail("far")
            assert isinstance(await bench.servers.authenticate("far", HERE), AsksFor)


async def test_link_that_leads_to_a_machine_nearby_is_not_shown_for_an_installed_server(tmp_path: Path) -> None:
    entry = {"url": "https://127.0.0.1:1/mcp", "installed": True}
    async with McpBench(tmp_path, far=entry) as bench:
        await bench.until(lambda: bench.state("far").startswith("not reachable"))

        outcome = await bench.servers.authenticate("far", HERE)

    assert isinstance(outcome, NotConnected)


async def test_installed_server_on_this_machine_is_never_asked(tmp_path: Path) -> None:
    async with FakeMcpHttp() as fake, McpBench(tmp_path, far={"url": fake.url, "installed": True}) as bench:
        await bench.until(lambda: bench.state("far").startswith("not reachable"))

    assert fake.seen == []


async def test_server_that_does_not_answer_a_call_is_asked_whether_it_lives(tmp_path: Path) -> None:
    limits = Limits(timedelta(seconds=5), timedelta(seconds=5), timedelta(seconds=0.3), timedelta(seconds=0.3))
    async with FakeMcpHttp() as fake, McpBench(tmp_path, limits=limits, far={"url": fake.url}) as bench:
        await bench.up("far__lookup")
        fake.says = "hang"

        output = await bench.call("far__lookup", word="x")
        fake.hangs.set()

        assert output.is_error
        assert "did not answer" in output.text
        await bench.until(lambda: fake.counts["ping"] > 0)
        assert "far__lookup" in bench.registry.names


async def test_server_that_is_gone_costs_its_tools_and_comes_back(tmp_path: Path) -> None:
    async with FakeMcpHttp() as fake, McpBench(tmp_path, far={"url": fake.url}) as bench:
        await bench.up("far__lookup")
        await fake.stop()

        output = await bench.call("far__lookup", word="x")

        assert output.is_error
        await bench.until(lambda: "far__lookup" not in bench.registry.names)
        await fake.start_again()
        await bench.up("far__lookup")


async def test_server_is_switched_off_and_on_installed_and_removed_in_the_file(tmp_path: Path) -> None:
    async with FakeMcpHttp() as fake, McpBench(tmp_path, far={"url": fake.url, "enabled": False, "note": 1}) as bench:
        await bench.until(lambda: bench.state("far") == "switched off")

        outcome = await bench.servers.activate("far", HERE)
        await bench.up("far__lookup")
        switched_on = json.loads((tmp_path / "mcp.json").read_text())
        installed = await bench.servers.install("near", "https://127.0.0.1:9/mcp")
        with_installed = json.loads((tmp_path / "mcp.json").read_text())
        is_gone = await bench.servers.remove("far")

        assert isinstance(outcome, Connected)
        assert switched_on == {"mcpServers": {"far": {"url": fake.url, "enabled": True, "note": 1}}, "other": "kept"}
        assert isinstance(installed, NotConnected)
        assert with_installed["mcpServers"]["near"]["installed"] is True
        assert is_gone
        assert "far__lookup" not in bench.registry.names
        assert (tmp_path / "mcp.json").stat().st_mode & 0o777 == 0o600


async def test_marks_of_an_installed_server_are_not_trusted(tmp_path: Path) -> None:
    from agent.mcp.config import Endpoint, OfferedTo, ServerConfig
    from agent.mcp.tool import read_offer
    from tests.support.fake_mcp_http import TOOL

    async def call(name: str, arguments: object) -> dict[str, object]:
        return {}

    def approval(*, is_installed: bool) -> Approval:
        place = Endpoint("http://localhost:1/mcp", (), is_installed)
        config = ServerConfig("far", place, True, OfferedTo.OPERATOR, None)
        return read_offer(config, [TOOL], call, str, LIMITS.call).tools[0].spec.approval

    assert approval(is_installed=False) is Approval.NEVER
    assert approval(is_installed=True) is Approval.UNLESS_ALWAYS


def link_in(asked: AsksFor) -> str:
    return next(line for line in asked.instructions.splitlines() if line.startswith("http"))


async def sign_in(home: Path, fake: FakeMcpHttp) -> None:
    async with McpBench(home, far={"url": fake.url}) as bench:
        asked = await bench.servers.authenticate("far", HERE)
        assert isinstance(asked, AsksFor)
        await bench.hand_over(asked.name, fake.open_link(link_in(asked)))
        await bench.told("far is connected")


async def test_each_secret_that_is_sent_is_kept_from_results(tmp_path: Path) -> None:
    async with FakeMcpHttp(token=TOKEN) as fake:
        fake.says = f"you sent {TOKEN} for reds-secret"
        entry = {"url": fake.url, "credential": "far key", "headers": {"X-Team": "t-${credential:team}"}}
        async with McpBench(tmp_path, far=entry) as bench:
            await bench.until(lambda: bench.state("far") == "needs a credential")
            await bench.hand_over("team", "reds-secret")
            await bench.hand_over("far key", TOKEN)
            await bench.up("far__lookup")

            assert (await bench.call("far__lookup", word="x")).text == "you sent [REDACTED] for [REDACTED]"
            kept = await bench.vault.get(OPERATOR, "far key")

    assert kept.may_be_sent_to("127.0.0.1")
