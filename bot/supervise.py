"""Keeps services running: restarts what fails with growing waits, gives up what cannot work until settings change."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from agent.clock import Clock
from channels.errors import ChannelError, Unauthorized

log = structlog.get_logger(__name__)

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(seconds=60)
CALM_AFTER = timedelta(minutes=5)


async def supervise(name: str, service: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run `service` until cancelled, whatever it raises; ends only where its credential is refused."""
    wait = FIRST_WAIT
    while True:
        began = clock.now()
        try:
            await service()
            log.warning("service_ended", service=name)
        except Unauthorized as error:
            log.error("channel_off", service=name, cure=error.cure)
            return
        except ChannelError as error:
            log.warning("service_failed", service=name, reason=str(error), retry_s=wait.total_seconds())
        except Exception:
            log.exception("service_broke", service=name, retry_s=wait.total_seconds())
        if clock.now() - began > CALM_AFTER:
            wait = FIRST_WAIT
        await clock.sleep(wait * random.uniform(0.8, 1.2))
        wait = min(wait * 2, LONGEST_WAIT)
