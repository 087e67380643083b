"""The floors: a relay from Telegram to a model and back, with the same libraries and nothing else.

`python -m bench.relay sdk` calls the model through the openai SDK (floor A), `raw` with a plain request (floor B).
Nothing is kept on disk; the history of a chat is a list in memory.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import Any

from telegram import Update
from telegram.ext import Application, ApplicationBuilder, ContextTypes, MessageHandler, filters

History = dict[int, list[dict[str, Any]]]


def build(how: str) -> Application[Any, Any, Any, Any, Any, Any]:
    """The relay's application."""
    base = os.environ["TELEGRAM_API_BASE_URL"]
    histories: History = defaultdict(list)
    ask = _sdk() if how == "sdk" else _raw()

    async def handle(update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
        assert update.message is not None
        history = histories[update.message.chat_id]
        history.append({"role": "user", "content": update.message.text})
        answer = await ask(history)
        history.append({"role": "assistant", "content": answer})
        await update.message.reply_text(answer)

    builder = ApplicationBuilder().token(os.environ["TELEGRAM_BOT_TOKEN"]).base_url(f"{base}/bot")
    application = builder.concurrent_updates(2000).connection_pool_size(2000).pool_timeout(60).build()
    application.add_handler(MessageHandler(filters.TEXT, handle))
    return application


def _sdk() -> Any:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key=os.environ["OPENAI_API_KEY"], base_url=os.environ["OPENAI_BASE_URL"], max_retries=0)

    async def ask(history: list[dict[str, Any]]) -> str:
        completion = await client.chat.completions.create(model="bench", messages=history)  # type: ignore[arg-type]
        return completion.choices[0].message.content or ""

    return ask


def _raw() -> Any:
    import aiohttp

    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    sessions: list[aiohttp.ClientSession] = []

    async def ask(history: list[dict[str, Any]]) -> str:
        if not sessions:
            sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        body = {"model": "bench", "messages": history}
        async with sessions[0].post(url, json=body, headers=headers) as answer:
            return str((await answer.json())["choices"][0]["message"]["content"])

    return ask


if __name__ == "__main__":
    build(sys.argv[1]).run_polling(allowed_updates=["message"])
