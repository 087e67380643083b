"""Log records as JSON lines or, on a terminal, as coloured text: ours and the libraries' through one chain.

No record carries a secret: known values and everything shaped like a token are masked in texts, fields and tracebacks,
at every level. That is the net; the rule is not to log them.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from agent.safety.known_values import SecretValues
from agent.safety.leak_detector import LeakDetector
from config.masking import MASK, mask_pattern, mask_shapes
from config.settings import LogFormat, LogSettings

# Libraries say what they send and receive at lower levels: people's texts, tokens, SQL parameters.
_LIBRARY_LEVEL: Final = logging.WARNING
# slack_bolt warns of each event without a listener by quoting it whole, the person's text included.
_SHORT: Final = 100
_QUIETER: Final = {"slack_bolt": logging.ERROR}


def configure_logging(settings: LogSettings, secrets: Iterable[str], stream: TextIO | None = None) -> None:
    """Send all records to `stream` (standard error if None). `secrets` are masked wherever they turn up.

    Calling it again replaces what an earlier call set up. Crashes of the program are records too.
    """
    out = sys.stderr if stream is None else stream
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [structlog.processors.format_exc_info, redactor(secrets), _renderer(settings.format, out)]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_line_factory(out),
        cache_logger_on_first_use=True,
    )
    _take_library_records(out, max(level, _LIBRARY_LEVEL), shared, last)
    _take_crashes()


def redactor(secrets: Iterable[str]) -> Processor:
    """A processor that masks these secrets, and whatever looks like one, in every value of a record."""
    values = tuple(secrets)
    known = mask_pattern(values)
    detector = LeakDetector(SecretValues(values))

    def mask(text: str) -> str:
        return detector.redact(mask_shapes(known.sub(MASK, text) if known else text))

    # Names, ids and events come again with each message: thirty of them a turn.
    mask_again = lru_cache(maxsize=1024)(mask)

    def clean(value: object) -> object:
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return mask_again(value) if len(value) <= _SHORT else mask(value)
            case dict():
                return {mask_again(str(key)): clean(item) for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [clean(item) for item in value]
            case _:
                return mask(str(value))

    def redact(logger: WrappedLogger, method: str, record: EventDict) -> EventDict:
        return {key: clean(value) for key, value in record.items()}

    return redact


class _Line:
    """Writes finished lines. A stream that is gone ends the log, not the bot."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self._stream = stream

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: the stream was closed
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = info = warning = error = critical = _write


def _line_factory(stream: TextIO) -> Callable[..., _Line]:
    return lambda name="", *_: _Line(name, stream)


def _renderer(chosen: LogFormat | None, stream: TextIO) -> Processor:
    match chosen or (LogFormat.CONSOLE if stream.isatty() else LogFormat.JSON):
        case LogFormat.JSON:
            return structlog.processors.JSONRenderer()
        case LogFormat.CONSOLE:
            plain = structlog.dev.plain_traceback  # the traceback arrives as text, masked already
            return structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)


def _take_library_records(stream: TextIO, level: int, shared: list[Processor], last: list[Processor]) -> None:
    """Let records of the standard library's loggers, and warnings, pass the same chain."""
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[strip, *last]))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name, quieter in _QUIETER.items():
        logging.getLogger(name).setLevel(quieter)
    logging.captureWarnings(True)
    # A record that cannot be formatted would be printed with its arguments, past the chain.
    logging.raiseExceptions = False


def _take_crashes() -> None:
    """Log an exception that nobody caught, instead of printing it past the chain."""
    log = structlog.get_logger(__name__)

    def in_main(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("crashed", exc_info=(kind, error, trace))

    def in_thread(crash: threading.ExceptHookArgs) -> None:
        if crash.exc_value is not None:
            thread = crash.thread.name if crash.thread else None
            log.critical("thread_crashed", thread=thread, exc_info=crash.exc_value)

    sys.excepthook = in_main
    threading.excepthook = in_thread
