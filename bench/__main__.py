"""`make bench`: the bot beside its floors, in one run, as a table.

Floor A relays through python-telegram-bot and the openai SDK, floor B through python-telegram-bot and a plain request;
neither keeps anything. The bot does its whole job on SQLite. Times are medians in milliseconds; CPU is of the measured
process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench import conversation, jobs, pipeline, routines, search
from bench.platform import TOKEN, Platform

TICKS = os.sysconf("SC_CLK_TCK")
Figures = dict[str, float]


@dataclass(frozen=True)
class Contender:
    """A program to measure."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


CONTENDERS = (
    Contender("floor A", (sys.executable, "-m", "bench.relay", "sdk")),
    Contender("floor B", (sys.executable, "-m", "bench.relay", "raw")),
    Contender("bot", (sys.executable, "-m", "bot", "run")),
)


@dataclass(frozen=True)
class Process:
    """A running contender."""

    pid: int
    started: float

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory_mib(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextlib.asynccontextmanager
async def running(contender: Contender, platform: Platform) -> AsyncIterator[Process]:
    """The contender, polling, with a home of its own; ended on leaving."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "OPTIMCLAW_HOME": home,
            "TZ": "UTC",
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_API_BASE_URL": platform.url,
            "TELEGRAM_DM_POLICY": "open",
            "OPENAI_API_KEY": "sk-bench",
            "OPENAI_BASE_URL": f"{platform.url}/v1",
            "LLM_PROVIDER": "openai",
            "LLM_MODEL": "bench",
            "WEB_ENABLED": "false",
            "LOG_FORMAT": "json",
            **contender.env,
        }
        platform.first_poll = None
        with (Path(home) / "log").open("wb") as log:
            started = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                *contender.command, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                async with asyncio.timeout(30):
                    while platform.first_poll is None:
                        await asyncio.sleep(0.005)
                yield Process(process.pid, started)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                try:
                    await asyncio.wait_for(process.wait(), 10)
                except TimeoutError:
                    process.kill()
                    await process.wait()


async def cold_start(contender: Contender) -> Figures:
    """Start to first poll, the first message of the process, and what it weighs when idle."""
    starts, first, memory = [], [], []
    for _ in range(3):
        async with Platform() as platform, running(contender, platform) as process:
            assert platform.first_poll is not None
            starts.append((platform.first_poll - process.started) * 1000)
            await asyncio.sleep(3)
            memory.append(process.memory_mib)
            said = platform.say(1, "hello")
            first.append((await platform.heard(1, 1) - said) * 1000)
    return {
        "cold start to first poll, ms": statistics.median(starts),
        "first message of the process, ms": statistics.median(first),
        "idle memory, MiB": statistics.median(memory),
    }


async def one_user(contender: Contender, count: int) -> Figures:
    """Messages of one user, each after the answer to the one before: the bot's own time, and its CPU."""
    async with Platform() as platform, running(contender, platform) as process:
        await _exchange(platform, 1, 20)
        cpu, times = process.cpu_seconds, await _exchange(platform, 1, count, done=20)
        used = process.cpu_seconds - cpu
    return {
        "one user, overhead p50, ms": statistics.median(times),
        "one user, overhead p95, ms": statistics.quantiles(times, n=20)[18],
        "CPU s per 1000 messages": used / count * 1000,
    }


async def many_users(contender: Contender, users: int, each: int, seconds: float = 0.5) -> Figures:
    """Everybody writes at once, and again as soon as they have their answer."""
    async with Platform(model_seconds=seconds) as platform, running(contender, platform):
        platform.model_seconds = 0
        await _exchange(platform, 10_000_000, 3)
        platform.model_seconds = seconds
        began = time.perf_counter()
        times = await asyncio.gather(*(_exchange(platform, user, each) for user in range(1, users + 1)))
        took = time.perf_counter() - began
        wrong = sum(len(platform.answered[user]) != each for user in range(1, users + 1))
    flat = sorted(each_time for user in times for each_time in user)
    label = f"{users} users, model {seconds * 1000:.0f} ms:"
    return {
        f"{label} messages/s": users * each / took,
        f"{label} p95, s": flat[int(len(flat) * 0.95)] / 1000,
        f"{label} lost or doubled": float(wrong),
    }


async def long_conversation(contender: Contender, turns: int) -> Figures:
    """What the last turns of a long conversation cost, and how much of each prompt is the one before."""
    async with Platform(keep_prompts=True) as platform, running(contender, platform):
        await _exchange(platform, 2, 20)  # another conversation, so that everything is warm
        platform.prompts.clear()
        times = await _exchange(platform, 1, turns)
        prompts = platform.prompts
    return {
        "turn 2-11, ms": statistics.median(times[1:11]),
        f"turn {turns // 4}, ms": statistics.median(times[turns // 4 - 5 : turns // 4 + 5]),
        f"turn {turns}, ms": statistics.median(times[-10:]),
        "last turns : first turns": statistics.median(times[-10:]) / statistics.median(times[1:11]),
        "prefix reuse": min(_reuse(a, b) for a, b in pairwise(prompts)),
        "first prompt, kB": len(prompts[0]) / 1000,
    }


async def version(command: tuple[str, ...]) -> float:
    """How long `--version` takes, in ms."""
    times = []
    for _ in range(7):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        await process.wait()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _reuse(earlier: bytes, later: bytes) -> float:
    """The share of a prompt that stands again, word for word, at the start of the next one."""
    before, after = (_rendered(raw) for raw in (earlier, later))
    same = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    return same / len(before)


def _rendered(raw: bytes) -> list[str]:
    body = json.loads(raw)
    return [json.dumps(part, sort_keys=True) for part in (body.get("tools") or [], *body["messages"])]


async def _exchange(platform: Platform, user: int, count: int, done: int = 0) -> list[float]:
    times = []
    for number in range(done + 1, done + count + 1):
        said = platform.say(user, f"message {number} of user {user}, with a few words in it")
        times.append((await platform.heard(user, number, 120) - said) * 1000)
    return times


GOALS = {
    "one user, overhead p50, ms": "<= 1.0 x A",
    "CPU s per 1000 messages": "<= 1.0 x A",
    "200 users, model 500 ms: messages/s": ">= 1.0 x A",
    "200 users, model 500 ms: p95, s": "<= 1.3 x A",
    "1000 users, model 500 ms: lost or doubled": "0",
    "last turns : first turns": "<= 1.5",
    "cold start to first poll, ms": "<= 1.8 x A",
    "idle memory, MiB": "<= 110",
    "first message of the process, ms": "<= 150",
    "first prompt, kB": "<= 12",
    "prefix reuse": "1.000",
    "--version, ms": "<= 300",
    **conversation.GOALS,
    **search.GOALS,
    **pipeline.GOALS,
    **routines.GOALS,
    **jobs.GOALS,
}
PARTS = {"search": search.measure, "pipeline": pipeline.measure, "routines": routines.measure, "jobs": jobs.measure}
"""What can be measured by itself, in this process."""


async def measure(quick: bool) -> dict[str, Figures]:
    """All figures of all contenders, one contender after the other in each exercise."""
    found: dict[str, Figures] = {contender.name: {} for contender in CONTENDERS}
    for contender in CONTENDERS:
        found[contender.name] |= await cold_start(contender)
    for contender in CONTENDERS:
        found[contender.name] |= await one_user(contender, 100 if quick else 300)
    for contender in CONTENDERS:
        found[contender.name] |= await many_users(contender, 50, 4)
    for contender in CONTENDERS:
        found[contender.name] |= await many_users(contender, 200, 4)
    if not quick:
        for contender in CONTENDERS:
            found[contender.name] |= await many_users(contender, 1000, 1)
    for contender in CONTENDERS:
        found[contender.name] |= await long_conversation(contender, 100 if quick else 400)
    found["bot"]["--version, ms"] = await version((sys.executable, "-m", "bot", "--version"))
    found["bot"] |= await conversation.measure()
    for part in PARTS.values():
        found["bot"] |= await part()
    return found


async def measure_part(name: str) -> dict[str, Figures]:
    """The figures of one part."""
    return {contender.name: {} for contender in CONTENDERS} | {"bot": await PARTS[name]()}


def show(found: dict[str, Figures]) -> None:
    """The table: each figure of each contender, the bot's ratio to the floors, and the goal."""
    print(f"{'':<46}{'floor A':>10}{'floor B':>10}{'bot':>10}{'bot : A':>9}{'bot : B':>9}   goal")
    for name in {name: None for figures in found.values() for name in figures}:
        a, b, bot = (found[contender.name].get(name) for contender in CONTENDERS)
        cells = "".join(f"{value:>10.2f}" if value is not None else f"{'-':>10}" for value in (a, b, bot))
        ratios = "".join(f"{bot / floor:>9.2f}" if bot is not None and floor else f"{'-':>9}" for floor in (a, b))
        print(f"{name:<46}{cells}{ratios}   {GOALS.get(name, '')}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=list(PARTS), help="this part alone")
    parser.add_argument("--quick", action="store_true", help="fewer messages, no burst of 1000 users")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    show(asyncio.run(measure_part(options.part) if options.part else measure(options.quick)))


if __name__ == "__main__":
    main()
