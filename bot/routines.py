"""Builds what runs by itself: the engine, what sets it off, and the tools and pages about it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never
from zoneinfo import ZoneInfo

from pydantic import SecretStr

from agent.clock import Clock
from agent.hooks.runner import HookRunner
from agent.llm.base import LLMProvider
from agent.model.routine import Run
from agent.routines.access import OwnerAccess
from agent.routines.desk import Places, RoutineDesk
from agent.routines.engine import JobDispatch, RoutineEngine
from agent.routines.firing import MessageTriggers, Rules, fire_webhook
from agent.routines.guardrails import Blocked
from agent.routines.lightweight import LightweightRunner, LightweightSettings
from agent.safety.access import AccessPolicy
from agent.safety.layer import SafetyLayer
from agent.store.base import Store, Transaction
from agent.tools.builtin.routines import routine_tools
from agent.tools.execute import ToolExecutor
from agent.tools.registry import ToolRegistry
from agent.workspace.identity import Identity
from agent.workspace.workspace import Workspace
from bot.gateway import Gateway
from bot.web.access import bears_signature
from bot.web.deliveries import DeliveryAnswer, NamedRoute
from config.settings import Settings

LONGEST_BODY = 256 * 1024
_NOT_HERE = DeliveryAnswer(404, "application/json", '{"error": {"code": "not_found"}}')


@dataclass(frozen=True, slots=True)
class Routines:
    """What runs by itself, in parts."""

    engine: RoutineEngine
    desk: RoutineDesk
    triggers: MessageTriggers


def build_routines(
    settings: Settings,
    *,
    store: Store,
    clock: Clock,
    llm: LLMProvider,
    registry: ToolRegistry,
    executor: ToolExecutor,
    safety: SafetyLayer,
    workspace: Workspace,
    identity: Identity,
    hooks: HookRunner,
    gateway: Gateway,
    places: Places,
    jobs: JobDispatch,
    policies: Mapping[str, AccessPolicy],
) -> Routines | None:
    """Everything about routines, their tools registered; None where they are switched off."""
    chosen = settings.routines
    if not chosen.enabled:
        return None
    rules = Rules(chosen.max_concurrent, chosen.cron_interval)
    lightweight = LightweightRunner(
        LightweightSettings(
            settings.agent.name,
            ZoneInfo(str(settings.agent.timezone)),
            chosen.max_tokens,
            chosen.lightweight_tools,
            chosen.lightweight_max_iterations,
        ),
        clock=clock,
        llm=llm,
        registry=registry,
        executor=executor,
        safety=safety,
        workspace=workspace,
        identity=identity,
        hooks=hooks,
    )
    engine = RoutineEngine(
        rules,
        store=store,
        clock=clock,
        lightweight=lightweight,
        jobs=jobs,
        deliveries=gateway,
        hooks=hooks,
        owners=OwnerAccess(policies),
    )
    desk = RoutineDesk(
        rules,
        chosen.default_cooldown,
        store=store,
        clock=clock,
        places=places,
        is_secret=safety.contains_secret,
        takes_webhooks=settings.web.takes_webhooks,
        nudge=engine.nudge,
    )
    for tool in routine_tools(desk):
        registry.add_builtin(tool)
    return Routines(engine, desk, MessageTriggers(rules, engine.nudge))


# -- other programs ------------------------------------------------------------------------------------------------
def secret_of(path: str, secret: SecretStr) -> str:
    """The secret of one webhook path. It derives from the operator's, so nothing of it is stored or said in a chat."""
    return hmac.new(secret.get_secret_value().encode(), f"routine:{path}".encode(), hashlib.sha256).hexdigest()


def is_signed(path: str, body: bytes, headers: Mapping[str, str], secret: SecretStr) -> bool:
    """Whether a body bears the signature of its path's secret, as GitHub and others write it."""
    return bears_signature(headers, body, secret_of(path, secret))


def webhook_route(store: Store, clock: Clock, engine: RoutineEngine, secret: SecretStr) -> NamedRoute:
    """`POST /webhook/PATH`. What is not signed and what is not there get the same answer."""

    async def handle(name: str, body: bytes, headers: Mapping[str, str]) -> DeliveryAnswer:
        path = name.lower()
        if not is_signed(path, body, headers, secret):
            return _NOT_HERE
        text = body.decode("utf-8", "replace").replace("\x00", "")
        fired = await store.write(partial(_fire, path, text))
        match fired:
            case None:
                return _NOT_HERE
            case Run():
                return _accepted(True)
            case Blocked(reason=reason):
                return _accepted(False, str(reason))
            case unreachable:
                assert_never(unreachable)

    def _fire(path: str, text: str, tx: Transaction) -> Run | Blocked | None:
        fired = fire_webhook(tx, path, text, clock.now(), engine.rules)
        if isinstance(fired, Run):
            tx.after_commit(engine.nudge)
        return fired

    return NamedRoute("/webhook/{name:[A-Za-z0-9_-]+}", handle, LONGEST_BODY)


def _accepted(fired: bool, reason: str | None = None) -> DeliveryAnswer:
    told: dict[str, bool | str] = {"fired": fired} | ({"reason": reason} if reason else {})
    return DeliveryAnswer(202, "application/json", json.dumps(told))
