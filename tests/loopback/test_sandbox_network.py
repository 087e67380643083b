"""The real sandbox with a way to named hosts: what a command reaches through the proxy, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from agent.tools.sandbox import BareRunner, BubblewrapSandbox, SandboxRequest, TimedOut, choose_sandbox
from agent.tools.sandbox_door import PORT, find_python
from agent.tools.sandbox_proxy import HostProxy, IPAddress, ProxyLimits
from bot.sandboxed import late_sandbox
from config.hosts import host_rule
from tests.support.sandboxes import ENVIRONMENT, bubblewrap, finish, needs_bubblewrap
from tests.support.settings import make_settings
from tests.support.tls import HERE, NAME, serving

pytestmark = [
    needs_bubblewrap,
    pytest.mark.skipif(find_python("/usr/local/bin:/usr/bin") is None, reason="no Python in /usr: NOT tested"),
    pytest.mark.skipif(shutil.which("curl", path="/usr/bin") is None, reason="no curl in /usr: NOT tested"),
]

FETCH = f"""
import socket, sys
s = socket.create_connection(("127.0.0.1", {PORT}), 5)
s.sendall(f"CONNECT {{sys.argv[1]}} HTTP/1.1\\r\\n\\r\\n".encode())
print(s.recv(200).decode())
"""


async def here(host: str, port: int) -> Sequence[IPAddress]:
    return [HERE]


def proxy_to(*rules: str, limits: ProxyLimits | None = None) -> HostProxy:
    return HostProxy([host_rule(rule) for rule in rules], here, lambda address: True, limits)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "home" / "workspace"
    place.mkdir(parents=True)
    return place


async def answer(request: web.Request) -> web.StreamResponse:
    return web.Response(text=f"hello from {request.host}")


@pytest.fixture
async def port(tmp_path: Path, folder: Path) -> AsyncIterator[int]:
    """A server on this machine that speaks TLS; commands trust it by `ca.pem`."""
    async with serving(tmp_path, answer) as at:
        pem = (tmp_path / "server.pem").read_text()
        (folder / "ca.pem").write_text(pem[pem.index("-----BEGIN CERTIFICATE") :])
        yield at


async def test_a_listed_host_is_reached_over_tls(port: int, folder: Path) -> None:
    command = f"curl -sS --cacert ca.pem https://{NAME}:{port}/x"

    result = await finish(bubblewrap(proxy_to(f"{NAME}:{port}")), SandboxRequest(command, folder))

    assert result.output == f"hello from {NAME}:{port}"
    assert result.refusals == ()


async def test_the_servers_certificate_is_checked_by_the_command_itself(port: int, folder: Path) -> None:
    result = await finish(
        bubblewrap(proxy_to(f"{NAME}:{port}")), SandboxRequest(f"curl -sS https://{NAME}:{port}/", folder)
    )

    assert result.exit_code == 60
    assert "certificate" in result.output


async def test_a_host_that_is_not_listed_is_refused_and_the_model_told(port: int, folder: Path) -> None:
    command = f"curl -sS https://other.example:{port}/; curl -s http://plain.example/"

    result = await finish(bubblewrap(proxy_to(f"{NAME}:{port}")), SandboxRequest(command, folder))

    assert "403" in result.output
    assert "plain.example:80 is not among the hosts" in result.output
    assert [refusal.split()[0] for refusal in result.refusals] == [f"other.example:{port}", "plain.example:80"]


async def test_nothing_is_reached_but_through_the_proxy(port: int, folder: Path) -> None:
    command = (
        f"curl -sS -k --noproxy '*' https://127.0.0.1:{port}/; curl -sS -k --noproxy '*' https://1.1.1.1/; "
        "getent hosts example.com; tail -n +3 /proc/net/dev | cut -d : -f 1; cat /proc/net/unix | tail -n +2"
    )

    result = await finish(bubblewrap(proxy_to(f"{NAME}:{port}")), SandboxRequest(command, folder))

    first, second, *rest = result.output.splitlines()
    assert "Failed to connect" in first
    assert "Failed to connect" in second
    assert [line.strip() for line in rest] == ["lo"]


async def test_without_hosts_there_is_no_proxy(folder: Path) -> None:
    command = f"env | grep -i proxy; python3 -c '{FETCH}' a.example:443"

    result = await finish(bubblewrap(), SandboxRequest(command, folder))

    assert "http://" not in result.output
    assert "refused" in result.output.lower()


async def test_programs_find_the_proxy_and_keep_their_own_servers_to_themselves(port: int, folder: Path) -> None:
    command = (
        "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "for n in 1 2 3 4 5 6 7 8 9; do curl -s http://127.0.0.1:8000/ca.pem && break; sleep 0.3; done; env"
    )

    result = await finish(bubblewrap(proxy_to(f"{NAME}:{port}")), SandboxRequest(command, folder))

    assert "BEGIN CERTIFICATE" in result.output
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        assert f"{name}=http://127.0.0.1:{PORT}\n" in result.output


async def test_one_command_does_not_reach_another_ones_proxy(port: int, tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    mine = bubblewrap(proxy_to(f"{NAME}:{port}"))
    ready = "echo x > ready; while [ ! -e done ]; do sleep 0.05; done"
    async with asyncio.TaskGroup() as group:
        first = group.create_task(mine.run(SandboxRequest(ready, folder)))
        async with asyncio.timeout(20):
            while not await asyncio.to_thread((folder / "ready").exists):
                await asyncio.sleep(0.02)

        result = await finish(bubblewrap(), SandboxRequest(f"python3 -c '{FETCH}' {NAME}:{port}", other))
        with pytest.raises(OSError, match=r"."):
            socket.create_connection(("127.0.0.1", PORT), 1)
        (folder / "done").write_text("")

    assert "200" not in result.output
    assert first.result() is not None


async def test_proxy_and_descriptors_are_gone_after_the_command(port: int, folder: Path) -> None:
    sandbox = bubblewrap(proxy_to(f"{NAME}:{port}"))
    await finish(sandbox, SandboxRequest("true", folder))
    before, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())

    background = f"(while true; do curl -sk https://{NAME}:{port}/ >/dev/null; done) & sleep 0.5"
    await finish(sandbox, SandboxRequest(background, folder))
    hangs = f"python3 -u -c 'import time; {FETCH.strip().replace(chr(10), '; ')}; time.sleep(60)' {NAME}:{port}"
    outcome = await sandbox.run(SandboxRequest(hangs, folder, timeout=timedelta(seconds=1)))

    assert isinstance(outcome, TimedOut)
    assert "200" in outcome.output
    async with asyncio.timeout(10):  # the server's own ends close as they hear of it
        while len(os.listdir("/proc/self/fd")) > before or len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.02)


async def test_cancelling_a_command_closes_its_way_out(port: int, folder: Path) -> None:
    sandbox = bubblewrap(proxy_to(f"{NAME}:{port}"))
    await finish(sandbox, SandboxRequest("true", folder))
    before = len(os.listdir("/proc/self/fd"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(sandbox.run(SandboxRequest("echo x > begun; sleep 60", folder)))
        async with asyncio.timeout(20):
            while not await asyncio.to_thread((folder / "begun").exists):
                await asyncio.sleep(0.02)
        task.cancel()

    assert task.cancelled()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_command_inherits_nothing_of_the_door(port: int, folder: Path) -> None:
    command = "ls -l /proc/self/fd | grep -c socket; yes | head -n 1; cat /proc/*/cmdline | tr '\\0' ' '"

    result = await finish(bubblewrap(proxy_to(f"{NAME}:{port}")), SandboxRequest(command, folder))

    assert result.output.startswith("0\ny\n")
    assert str(folder) not in result.output


async def test_a_command_may_move_only_so_much(port: int, folder: Path) -> None:
    limits = replace(ProxyLimits(), total_bytes=2_000)

    result = await finish(
        bubblewrap(proxy_to(f"{NAME}:{port}", limits=limits)),
        SandboxRequest(f"for n in 1 2 3 4 5; do curl -sk https://{NAME}:{port}/; done", folder),
    )

    assert result.output.count("hello") < 5
    assert any("MiB in all" in refusal for refusal in result.refusals)


async def test_the_way_out_is_tried_before_it_is_offered() -> None:
    with capture_logs() as logs:
        sandbox = await choose_sandbox("auto", ENVIRONMENT, proxy_to("a.example"))

    assert isinstance(sandbox, BubblewrapSandbox)
    assert await sandbox.network_fault() is None
    assert [entry["event"] for entry in logs] == ["sandbox_ready"]


async def test_a_sandbox_without_a_way_to_the_proxy_says_so() -> None:
    assert await bubblewrap().network_fault() is not None


async def test_without_a_sandbox_the_list_of_hosts_has_no_effect_and_the_log_says_so() -> None:
    with capture_logs() as logs:
        sandbox = await choose_sandbox("off", ENVIRONMENT, proxy_to("a.example"))

    assert isinstance(sandbox, BareRunner)
    assert [entry["event"] for entry in logs] == ["sandbox_off", "sandbox_hosts_ignored"]


async def test_the_setting_opens_the_way_for_the_shell(tmp_path: Path, folder: Path) -> None:
    closed = late_sandbox(make_settings(tmp_path))
    opened = late_sandbox(make_settings(tmp_path, {"SANDBOX_ALLOW_HOSTS": "a.example"}))
    request = SandboxRequest("curl -s https://b.example/; env | grep -c -i _proxy", folder)

    assert (await finish(closed, request)).output == "0\n"
    result = await finish(opened, request)
    assert result.output == "8\n"
    assert result.refusals == ("b.example:443 is not among the hosts that the operator allows",)
