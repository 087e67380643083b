"""Short commands: quick by themselves, and beside a running bot."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot import __version__
from tests.process.bot_process import SOURCE, environment, on_fakes, run, started
from tests.support.fake_llm_api import FakeLLMApi, Say, fake_llm_api
from tests.support.fake_telegram import FakeTelegram

# Nothing of these is needed to say a version or a usage.
HEAVY = frozenset(
    {"telegram", "slack_bolt", "slack_sdk", "discord", "openai", "anthropic", "aiohttp", "sqlalchemy", "pydantic"}
    | {"alembic", "structlog", "rich", "prompt_toolkit", "markdown_it", "asyncio"}
)


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def api() -> AsyncIterator[FakeLLMApi]:
    async with fake_llm_api() as server:
        yield server


@pytest.mark.parametrize("option", ["--version", "--help"])
async def test_version_and_help_load_no_library_they_do_not_need(tmp_path: Path, option: str) -> None:
    code = (
        "import sys\nfrom bot.__main__ import main\nsys.argv = ['optimclaw', sys.argv[1]]\n"
        "try:\n    main()\nfinally:\n    print('|' + ' '.join(sorted(sys.modules)), file=sys.stderr)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        option,
        env=environment(tmp_path),
        cwd=SOURCE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()

    assert process.returncode == 0, err.decode()
    loaded = set(err.decode().rpartition("|")[2].split())
    assert loaded.isdisjoint(HEAVY), loaded & HEAVY
    assert __version__ in out.decode() if option == "--version" else "pairing" in out.decode()


async def test_version_makes_no_home(tmp_path: Path) -> None:
    home = tmp_path / "home"

    ended = await run(["--version"], environment(home), tmp_path)

    assert (ended.code, ended.out) == (0, f"optimclaw, version {__version__}\n")
    assert not home.exists()


async def test_unknown_command_is_refused_with_the_usage(tmp_path: Path) -> None:
    ended = await run(["dance"], environment(tmp_path), tmp_path)

    assert ended.code == 2
    assert "No such command" in ended.err


async def test_person_approved_in_a_shell_is_let_in_by_the_running_bot(
    tmp_path: Path, telegram: FakeTelegram, api: FakeLLMApi
) -> None:
    api.play(Say("Welcome!"))
    variables = on_fakes(tmp_path, telegram, api)
    async with started(["run"], variables, tmp_path) as bot:
        await telegram.push(telegram.said("hello", chat_id=9, user_id=9))
        await telegram.wait(lambda: bool(telegram.made("sendMessage")))
        code = re.findall(r"\b[A-HJ-NP-Z2-9]{8}\b", telegram.made("sendMessage")[0]["text"])[0]

        listed = await run(["pairing", "list"], variables, tmp_path)
        unknown = await run(["pairing", "approve", "telegram", "AAAAAAAA"], variables, tmp_path)
        approved = await run(["pairing", "approve", "Telegram", code.lower()], variables, tmp_path)
        await telegram.push(telegram.said("hello again", chat_id=9, user_id=9))
        await telegram.wait(lambda: len(telegram.made("sendMessage")) == 2)
        revoked = await run(["pairing", "revoke", "telegram", "9"], variables, tmp_path)
        again = await run(["pairing", "revoke", "telegram", "9"], variables, tmp_path)
        assert bot.is_running

    assert telegram.made("sendMessage")[1]["text"] == "Welcome!"
    assert [each.code for each in (listed, unknown, approved, revoked, again)] == [0, 1, 0, 0, 1]
    assert code in listed.out
    assert "9 may talk to the bot now" in approved.out
    assert "no open request has that code" in unknown.err
