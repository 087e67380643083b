"""The routines' shell commands, beside a running bot and without one."""

from __future__ import annotations

from pathlib import Path

from agent.model.routine import Manual
from agent.store import routines
from agent.store.open import open_store
from tests.process.bot_process import environment, on_fakes, run, started
from tests.support.fake_llm_api import Say, fake_llm_api
from tests.support.fake_telegram import FakeTelegram
from tests.unit.agent.routines.rows import make_routine


async def test_running_bot_takes_what_a_shell_asks_for(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram, fake_llm_api() as api:
        api.play(Say("Server 3 is down."))
        variables = on_fakes(tmp_path, telegram, api) | {"ROUTINES_CRON_INTERVAL": "0.2"}
        home = Path(variables["OPTIMCLAW_HOME"])
        store = open_store(home)
        await store.write(lambda tx: routines.add(tx, make_routine(trigger=Manual())))
        await store.close()
        async with started(["run"], variables, tmp_path) as bot:
            listed = await run(["routine", "list"], variables, tmp_path)
            off = await run(["routine", "disable", "morning"], variables, tmp_path)
            refused = await run(["routine", "run", "morning"], variables, tmp_path)
            on = await run(["routine", "enable", "morning"], variables, tmp_path)
            ran = await run(["routine", "run", "morning"], variables, tmp_path)
            await telegram.wait(lambda: bool(telegram.made("sendMessage")))
            assert bot.is_running

    assert [each.code for each in (listed, off, refused, on, ran)] == [0, 0, 1, 0, 0]
    assert "operator  morning: by hand; enabled; 0 runs" in listed.out
    assert "is disabled" in refused.err
    assert "Server 3 is down." in telegram.made("sendMessage")[0]["text"]


async def test_without_a_bot_they_say_what_there_is(tmp_path: Path) -> None:
    variables = environment(tmp_path)

    listed = await run(["routine", "list"], variables, tmp_path)
    unknown = await run(["routine", "run", "morning"], variables, tmp_path)
    secretless = await run(["routine", "webhook", "morning"], variables, tmp_path)

    assert (listed.code, listed.out) == (0, "There are no routines.\n")
    assert (unknown.code, secretless.code) == (1, 1)
    assert "no routine named 'morning'" in unknown.err
    assert "WEBHOOK_SECRET" in secretless.err
