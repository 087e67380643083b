"""Prometheus metrics, read from the process when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bot.compose import Core
from channels.base import ChannelState


class _Core(Collector):
    """What a running core can tell without asking the database."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> Iterable[Metric]:
        connected = GaugeMetricFamily(
            "optimclaw_channel_connected", "Whether a channel is connected.", labels=["channel"]
        )
        for name, health in self._core.gateway.health().items():
            connected.add_metric([name], float(health.state is ChannelState.CONNECTED))
        yield connected
        counts = self._core.runner.counts
        turns = CounterMetricFamily("optimclaw_turns", "Turns that came to rest, by how.", labels=["outcome"])
        for outcome, count in sorted(counts.items()):
            turns.add_metric([outcome], float(count))
        yield turns
        sent = CounterMetricFamily("optimclaw_messages_sent", "Messages brought to a chat, by how.", labels=["state"])
        for state, count in sorted(self._core.gateway.counts.items()):
            sent.add_metric([state], float(count))
        yield sent
        jobs = CounterMetricFamily("optimclaw_jobs", "Background jobs that came into a state.", labels=["state"])
        for state, count in sorted(self._core.jobs.counts.items()):
            jobs.add_metric([state], float(count))
        yield jobs


def registry_of(core: Core) -> CollectorRegistry:
    """A registry of this process's metrics."""
    registry = CollectorRegistry()
    registry.register(_Core(core))
    return registry
