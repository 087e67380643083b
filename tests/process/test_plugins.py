"""Installed packages bring a tool, a hook and a channel; the program starts without one that is broken."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks
from tests.process.bot_process import SOURCE, environment, run, started
from tests.support.fake_llm_api import Call, FakeLLMApi, Say, fake_llm_api

CHANNEL = '''
"""A channel that says one thing when it starts and writes what it is told to a file."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from channels.base import ChannelHealth, ChannelLimits, ChannelState, Uncertain
from channels.message import Address, ChatType, IncomingMessage, MessageMetadata, Sender
from channels.settings import ChannelSettings


class BoxSettings(ChannelSettings):
    out: str


class BoxChannel:
    name = "box"
    limits = ChannelLimits(max_text=4000, buttons=False, threads=False)
    health = ChannelHealth(ChannelState.CONNECTED)

    def __init__(self, settings):
        self._out = Path(settings.out)

    async def run(self, accept):
        await accept(IncomingMessage(
            message_id="1", address=Address(channel="box", chat_id="1"), sender=Sender(user_id="7", display_name="Ann"),
            text="roll a die", received_at=datetime.now(UTC),
            metadata=MessageMetadata(chat_type=ChatType.PRIVATE, addressed_to_bot=True),
        ))
        await asyncio.Event().wait()

    async def send(self, message, delivery):
        self._out.write_text(message.text)
        return "1"

    async def show(self, draft):
        return None

    async def settle(self, message, delivery):
        return Uncertain.RESEND

    async def open_private_chat(self, user_id):
        return "1"

    async def earlier(self, message, limit):
        return ()

    async def fetch(self, attachment, limit_bytes):
        return b""
'''

BROKEN = 'def register(plugins):\n    plugins.channel("wreck", "a:B", None)\n'


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as server:
        yield server


class Site:
    """A folder with installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def install(self, plugin: str, module: str, source: str, register: str = "register") -> None:
        (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[optimclaw.plugins]\n{plugin} = {module}:{register}\n")

    def environment(self, home: Path, **variables: str) -> dict[str, str]:
        return environment(home, PYTHONPATH=f"{SOURCE}:{self.folder}", **variables)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "site")
    dice = next(block.text for block in blocks(ROOT / "docs" / "write-a-plugin.md") if block.language == "python")
    made.install("dice", "optimclaw_dice", dice)
    made.install(
        "box",
        "box_plugin",
        f"{CHANNEL}\n\ndef register(plugins):\n    plugins.channel('box', 'box_plugin:BoxChannel', BoxSettings)\n",
    )
    return made


async def test_tool_hook_and_channel_of_plugins_serve_a_message_beside_a_broken_plugin(
    tmp_path: Path, site: Site, api: FakeLLMApi
) -> None:
    site.install("wreck", "wrecked", BROKEN)
    (tmp_path / "config.toml").write_text('[channels.wreck]\nbot_token = "x"\n')
    api.play(Say(calls=(Call("roll_dice", json.dumps({"sides": 1})),)), Say("There you are."))
    out = tmp_path / "out.txt"
    variables = site.environment(
        tmp_path,
        BOX_BOT_TOKEN="not-a-secret-here",
        BOX_OUT=str(out),
        BOX_OWNER_ID="7",
        OPENAI_BASE_URL=f"{api.url}/v1",
        OPENAI_API_KEY="loopback",
        LLM_MODEL="fake-model-1",
    )

    async with started(["run"], variables, tmp_path) as bot:
        async with asyncio.timeout(15):
            while not await asyncio.to_thread(lambda: out.exists() and out.read_text()):
                await asyncio.sleep(0.02)
        bot.signal(signal.SIGTERM)
        ended = await bot.end()

    assert ended.code == 0, ended.err
    assert out.read_text() == "There you are. -- the dice bot"
    assert b"rolled 1" in api.requests[-1].raw
    lines = [json.loads(line) for line in ended.err.splitlines()]
    doubts = " ".join(str(line.get("about")) for line in lines if line["event"] == "setting_doubtful")
    assert "the plug-in wreck is left out: TypeError" in doubts
    assert "[channels.wreck] belongs to a plug-in that is not loaded" in doubts
    assert {line["event"] for line in lines} >= {"audit_inbound", "audit_tool_call", "audit_outbound"}


async def test_plugin_that_is_switched_off_is_not_even_imported(tmp_path: Path, site: Site) -> None:
    site.install("loud", "loud_plugin", "import pathlib\npathlib.Path('imported').touch()\ndef register(p): ...\n")

    off = await run(["pairing", "list"], site.environment(tmp_path, PLUGINS_DISABLED="loud, dice"), tmp_path)
    assert off.code == 0, off.err
    assert not (tmp_path / "imported").exists()

    (tmp_path / "config.toml").write_text('[plugins]\ndisabled = ["loud"]\n')
    await run(["pairing", "list"], site.environment(tmp_path), tmp_path)
    assert not (tmp_path / "imported").exists()

    (tmp_path / "config.toml").unlink()
    await run(["pairing", "list"], site.environment(tmp_path), tmp_path)
    assert (tmp_path / "imported").exists()


@pytest.mark.parametrize("option", ["--version", "--help"])
async def test_version_and_help_load_no_plugin(tmp_path: Path, site: Site, option: str) -> None:
    site.install("loud", "loud_plugin", "import pathlib\npathlib.Path('imported').touch()\ndef register(p): ...\n")

    ended = await run([option], site.environment(tmp_path / "home"), tmp_path)

    assert ended.code == 0, ended.err
    assert not (tmp_path / "imported").exists()
