"""The net below the log: what is logged by mistake is masked, whatever it is and wherever in a record it stands."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from bot.log import configure_logging
from config.settings import LogFormat, LogSettings
from tests.security.corpus.secrets import BREAKS, BY_SHAPE, CODINGS, CONFIGURED, CONFIGURED_LINES, ONE_LINE

HIDING = [how for how in BREAKS if "after each letter" not in how]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the log writes, down to its lowest level. What was set up before is put back."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level, raises = list(root.handlers), root.level, logging.raiseExceptions
    stream = io.StringIO()
    try:
        configure_logging(LogSettings(level="DEBUG", format=LogFormat.JSON), [CONFIGURED, CONFIGURED_LINES], stream)
        yield stream
    finally:
        logging.captureWarnings(False)
        root.handlers, logging.raiseExceptions = handlers, raises
        root.setLevel(level)
        structlog.configure(**before)


class Holder:
    """An object that shows what it holds."""

    def __init__(self, held: str) -> None:
        self._held = held

    def __repr__(self) -> str:
        return f"Holder({self._held!r})"


def log_everywhere(secret: str) -> None:
    """Records with a secret at every place that a record has."""
    log = structlog.get_logger("tests.security")
    library = logging.getLogger("some.library")
    log.debug("event", value=secret, deep={secret: [{"a": (secret,)}]}, held=Holder(secret), data=secret.encode())
    log.info(f"event with {secret}")
    library.error("said %s and %r", secret, {"key": secret})
    try:
        raise ValueError(f"cannot use {secret}")
    except ValueError as error:
        log.exception("broke", error=error)
        library.exception("broke with %s", secret)


@pytest.mark.parametrize("name", ONE_LINE)
def test_each_kind_of_secret_is_masked_in_each_part_of_a_record(name: str, lines: io.StringIO) -> None:
    log_everywhere(BY_SHAPE[name])

    written = lines.getvalue()
    assert BY_SHAPE[name] not in written
    assert len(written.splitlines()) == 5
    assert all(json.loads(line) for line in written.splitlines())


@pytest.mark.parametrize("secret", [CONFIGURED, CONFIGURED_LINES], ids=["one line", "two lines"])
@pytest.mark.parametrize("how", CODINGS)
def test_secret_of_the_settings_is_masked_in_every_coding(how: str, secret: str, lines: io.StringIO) -> None:
    coded = CODINGS[how](secret)
    log_everywhere(coded)

    assert coded[6:-6] not in lines.getvalue()
    assert json.dumps(coded)[8:-8] not in lines.getvalue()


@pytest.mark.parametrize("how", HIDING)
def test_broken_secret_is_masked(how: str, lines: io.StringIO) -> None:
    log = structlog.get_logger("tests.security")
    for name in ONE_LINE:
        if " " not in BY_SHAPE[name]:
            log.info("event", value=BREAKS[how](BY_SHAPE[name]))

    left = [line for line in lines.getvalue().splitlines() if "[REDACTED]" not in json.loads(line)["value"]]
    assert left == []
