from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import structlog

from bot.log import configure_logging
from config.settings import LogFormat, LogLevel, LogSettings

TELEGRAM_TOKEN = "123456789:AAH-abcdefghijklmnopqrstuvwxyz01234"
SLACK_TOKEN = "xoxb-1234567890-abcdefghij"
APP_TOKEN = "xapp-1-A0123456789-abcdef"
MODEL_KEY = "sk-ant-api03-abcdefghijklmnop"
DISCORD_TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
CHOSEN_SECRET = "correct horse/battery"  # no shape gives it away
TOKENS = (TELEGRAM_TOKEN, SLACK_TOKEN, APP_TOKEN, MODEL_KEY, DISCORD_TOKEN, CHOSEN_SECRET)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers, root.level, sys.excepthook, threading.excepthook, logging.raiseExceptions)
    yield
    logging.captureWarnings(False)
    root.handlers, level, sys.excepthook, threading.excepthook, logging.raiseExceptions = before
    root.setLevel(level)
    logging.getLogger("slack_bolt").setLevel(logging.NOTSET)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def start(
    level: LogLevel = LogLevel.DEBUG, form: LogFormat | None = LogFormat.JSON, secrets: tuple[str, ...] = TOKENS
) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(LogSettings(level=level, format=form), secrets, stream)
    return stream


def records(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_record_is_one_json_line_with_event_level_logger_and_fields() -> None:
    stream = start()

    structlog.get_logger("agent.turns").info("turn_settled", turn=3)

    (record,) = records(stream)
    assert record["event"] == "turn_settled"
    assert (record["level"], record["logger"], record["turn"]) == ("info", "agent.turns", 3)
    assert str(record["timestamp"]).endswith("Z")


def test_records_carry_the_correlation_ids_of_their_context() -> None:
    stream = start()

    with structlog.contextvars.bound_contextvars(thread_id="t1"):
        structlog.get_logger("x").info("inside")
        logging.getLogger("library").warning("also inside")
    structlog.get_logger("x").info("outside")

    assert [record.get("thread_id") for record in records(stream)] == ["t1", "t1", None]


def test_records_below_the_level_are_not_written() -> None:
    stream = start(LogLevel.WARNING)

    structlog.get_logger("x").info("quiet")
    structlog.get_logger("x").warning("loud")

    assert [record["event"] for record in records(stream)] == ["loud"]


def test_libraries_stay_silent_below_warning_even_at_debug_level() -> None:
    stream = start(LogLevel.DEBUG)

    for name in ("httpx", "httpx2", "httpcore", "telegram.ext", "slack_sdk", "discord.gateway", "openai"):
        logging.getLogger(name).info("HTTP Request: POST https://api.telegram.org/bot%s/getMe", TELEGRAM_TOKEN)
        logging.getLogger(name).warning("slow")

    assert {record["event"] for record in records(stream)} == {"slow"}


def test_slack_bolt_does_not_quote_events_nobody_listens_to() -> None:
    stream = start()

    logging.getLogger("slack_bolt.AsyncApp").warning("Unhandled request ({'event': {'text': 'private words'}})")

    assert stream.getvalue() == ""


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("form", LogFormat)
def test_known_secrets_are_masked_wherever_they_stand(token: str, form: LogFormat) -> None:
    stream = start(form=form)
    log = structlog.get_logger("x")

    log.info(f"event {token}")
    log.debug("plain", field=token, url=f"https://api.telegram.org/bot{token}/getMe")
    log.info("nested", items=[{"a": (token,)}], keyed={token: 1}, raw=token.encode(), error=ValueError(token))
    log.info("encoded", url=f"https://host/?token={quote(token, safe='')}", lower=quote(token, safe="").lower())
    logging.getLogger("library").warning("%s", token)
    logging.getLogger("library").error({"token": token})
    try:
        raise ValueError(f"cannot open https://host/bot{token}/getMe")
    except ValueError:
        log.exception("failed")
        logging.getLogger("library").exception("failed")

    written = stream.getvalue()
    assert token.lower() not in written.lower()
    assert quote(token, safe="").lower() not in written.lower()
    assert written.count("[REDACTED]") >= 12


@pytest.mark.parametrize("token", TOKENS[:-1])
def test_unknown_secrets_are_masked_by_their_shape(token: str) -> None:
    stream = start(secrets=())
    log = structlog.get_logger("x")

    log.info("plain", field=token, url=f"https://host/{token}/a", text=f"two\n{token}\nthree")
    log.info("escaped", text=repr(f"two\n{token}"), url=f"https://host/{quote(token, safe='')}")
    try:
        raise ValueError(f"first line\n{token}")
    except ValueError:
        log.exception("failed")

    assert token not in stream.getvalue()
    assert quote(token, safe="") not in stream.getvalue()


@pytest.mark.parametrize("colon", [":", "%3A", "%3a"])
def test_telegram_addresses_are_masked_without_knowing_the_token(colon: str) -> None:
    stream = start(secrets=())
    token = TELEGRAM_TOKEN.replace(":", colon)

    structlog.get_logger("x").info("sent", url=f"https://api.telegram.org/file/bot{token}/photos/1.jpg")

    assert records(stream)[0]["url"] == "https://api.telegram.org/file/bot[REDACTED]/photos/1.jpg"


def test_passwords_in_urls_and_credential_headers_are_masked_but_what_is_around_them_stays() -> None:
    stream = start(secrets=())

    structlog.get_logger("x").info(
        "opened", url="postgresql://bot:hunter2@db.example/x", header="Authorization: Bearer abcdefghij0123456789"
    )

    (record,) = records(stream)
    assert record["url"] == "postgresql://bot:[REDACTED]@db.example/x"
    assert record["header"] == "Authorization: Bearer [REDACTED]"


def test_ordinary_words_numbers_and_addresses_are_left_alone() -> None:
    stream = start(secrets=("short",))
    harmless = "short https://example.org:8080/a?b=c 2026-03-02T12:00:00 sketch-book bearer of news task-12345678"

    structlog.get_logger("x").info("fine", text=harmless, number=1234567890, ok=True, nothing=None)

    (record,) = records(stream)
    assert (record["text"], record["number"], record["ok"], record["nothing"]) == (harmless, 1234567890, True, None)


def test_library_record_with_wrong_arguments_does_not_print_them(capsys: pytest.CaptureFixture[str]) -> None:
    stream = start()

    logging.getLogger("library").warning("%d apples", TELEGRAM_TOKEN)

    assert TELEGRAM_TOKEN not in stream.getvalue() + capsys.readouterr().err


def test_configuring_again_replaces_the_former_stream() -> None:
    first = start()
    second = start()

    logging.getLogger("library").warning("once")

    assert first.getvalue() == ""
    assert len(records(second)) == 1


def test_terminal_gets_readable_text_and_a_pipe_gets_json_where_nothing_was_chosen() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    configure_logging(LogSettings(level=LogLevel.INFO), (), terminal)
    structlog.get_logger("x").info("shown", count=1)
    pipe = start(form=None)
    structlog.get_logger("x").info("shown", count=1)

    assert "shown" in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")
    assert records(pipe)[0]["count"] == 1


def test_log_to_a_closed_stream_does_not_raise() -> None:
    stream = start()
    stream.close()

    structlog.get_logger("x").info("unheard")


def test_crash_of_the_program_is_a_record_without_the_token() -> None:
    program = (
        "import threading\n"
        "from bot.log import configure_logging\n"
        "from config.settings import LogSettings\n"
        "configure_logging(LogSettings(level='info', format='json'), ['correct-horse'])\n"
        "def fail(): raise OSError('https://host/correct-horse')\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join()\n"
        "fail()\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)

    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["thread_crashed", "crashed"]
    assert "OSError" in done.stderr
    assert "correct-horse" not in done.stderr
    assert done.returncode == 1
