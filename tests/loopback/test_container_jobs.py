"""Jobs in containers against real workers: a bare process, bubblewrap and podman. Nothing is left of any of them."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.jobs.container import wording
from agent.jobs.container.assignment import Bounds
from agent.jobs.container.engine import EngineHost
from agent.jobs.container.host import ContainerHost, RefusingHost
from agent.llm.base import CompletionRequest
from agent.llm.errors import BudgetExceeded, TransientError
from agent.llm.messages import AssistantTurn, ToolResult, UserText
from agent.loop.agentic_loop import Failed, Finish, Inject, Responded, Stop, Stopped
from agent.store.open import open_store
from tests.support.containers import (
    REPOSITORY,
    SECRET,
    ContainerBench,
    ProcessHost,
    make_envelope,
    make_job,
    needs_podman,
)
from tests.support.sandboxes import needs_bubblewrap
from tests.support.scripted_llm import Held, ScriptedLLM, call, say

DONE = say("I have completed the job: 42 sheep.")
QUICK = Bounds(start=timedelta(seconds=20), silence=timedelta(seconds=20), wall=timedelta(seconds=60))
HTTP = """
import http.client, json, socket, time
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)
def ask(method, path, body=None, token=None, folder=None):
    import os
    found = os.stat(".")
    headers = {"Authorization": "Bearer " + (token or TOKEN), "Content-Type": "application/json",
               "X-Folder": folder or f"{found.st_dev}:{found.st_ino}"}
    connection = Unix("optimclaw")
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
"""


@asynccontextmanager
async def bench_on(
    home: Path, host: ContainerHost | RefusingHost | None, *steps: object, bounds: Bounds = QUICK, backend: str = "auto"
) -> AsyncIterator[ContainerBench]:
    store = open_store(home)
    bench = ContainerBench(home, store, host, ScriptedLLM(steps), backend=backend, bounds=bounds)  # type: ignore[arg-type]
    try:
        yield bench
        assert bench.left_running() == []
    finally:
        await bench.close()
        await store.close()


def text_of(finish: Finish) -> str:
    assert isinstance(finish.outcome, Responded | Failed), finish.outcome
    return finish.outcome.text


def asked(bench: ContainerBench, number: int) -> CompletionRequest:
    return bench.llm.requests[number]


_WALLS = [pytest.param("bubblewrap", marks=needs_bubblewrap), pytest.param("podman", marks=needs_podman)]
within_walls = pytest.mark.parametrize("backend", _WALLS)
walls = pytest.mark.parametrize("backend", ["process", *_WALLS])


def on(backend: str) -> ContainerHost | None:
    return ProcessHost() if backend == "process" else None


# -- work --------------------------------------------------------------------------------------------------------------
@walls
async def test_a_job_works_with_tools_in_its_folder_and_its_last_words_are_the_result(
    tmp_path: Path, backend: str
) -> None:
    steps = (
        call("write_file", id="a", text="I count.", path="sheep.txt", content="42 sheep\n"),
        call("shell", id="b", command="cat sheep.txt; echo again >> sheep.txt"),
        DONE,
    )
    async with bench_on(tmp_path, on(backend), *steps, backend=backend) as bench:
        finish = await bench.work(make_job(folder="projects/farm"))
        assert text_of(finish) == "I have completed the job: 42 sheep."
        file = bench.workspace / "projects" / "farm" / "sheep.txt"
        assert file.read_text() == "42 sheep\nagain\n"
        results = [m for m in asked(bench, 2).messages if isinstance(m, ToolResult)]
        assert not any(result.is_error for result in results), results
        assert "42 sheep" in results[1].text
        assert {request.account for request in bench.llm.requests} == {str(make_envelope().turn.id)}
        assert bench.deliveries.texts == ["[Job 00000007] I count."]
        kept = bench.life.kept[-1].added
        told = [m.calls[0].name for m in kept if isinstance(m, AssistantTurn) and m.calls]
        assert told == ["write_file", "shell"]
        assert ("shell",) in bench.life.pulses


@within_walls
async def test_nothing_of_the_operator_is_inside(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor the files show keys; there is no network, no other file, and no root."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    (tmp_path / "secret.txt").write_text(SECRET)
    command = f"cat /proc/*/environ 2>/dev/null; env; cat {tmp_path}/secret.txt; id -u; cat /proc/net/dev; ls -a /"
    async with bench_on(tmp_path, None, call("shell", command=command), DONE, backend=backend) as bench:
        assert isinstance((await bench.work()).outcome, Responded)
        (result,) = [m for m in asked(bench, 1).messages if isinstance(m, ToolResult)]
        assert "PATH=" in result.text
        for kept_out in ("canary", "eth0", "\n0\n", str(tmp_path) + "\n"):
            assert kept_out not in result.text
        assert all(assignment not in str(bench.llm.requests) for assignment in (SECRET, "Bearer"))


@within_walls
async def test_the_token_is_in_no_argument_environment_or_file(tmp_path: Path, backend: str) -> None:
    """What a command may look at: the arguments and variables of each process, and each file it can read."""
    look = "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -cE '^[A-Za-z0-9_-]{43}$'"
    async with bench_on(tmp_path, None, call("shell", command=look), DONE, backend=backend) as bench:
        assert isinstance((await bench.work()).outcome, Responded)
        (result,) = [m for m in asked(bench, 1).messages if isinstance(m, ToolResult)]
        assert "\n0\n" in result.text, result.text


@walls
async def test_what_its_person_says_joins_and_a_stop_ends_it(tmp_path: Path, backend: str) -> None:
    async with bench_on(tmp_path, on(backend), say("On it."), DONE, backend=backend) as bench:
        bench.life.signals = [Inject("only the black ones"), Inject("and hurry"), Stop()]
        finish = await bench.work()
        assert isinstance(finish.outcome, Stopped | Responded)
        words = [m.text for m in asked(bench, 1).messages if isinstance(m, UserText)]
        assert any("only the black ones" in each for each in words)
        assert any("and hurry" in each for each in words)
        assert bench.llm.left == 0


async def test_a_stop_reaches_it_at_its_next_step(tmp_path: Path) -> None:
    async with bench_on(tmp_path, ProcessHost(), say("On it.")) as bench:
        bench.life.signals = [Inject("go"), Stop()]
        assert isinstance((await bench.work()).outcome, Stopped)


async def test_a_model_that_goes_on_talking_is_told_to_go_on(tmp_path: Path) -> None:
    async with bench_on(tmp_path, ProcessHost(), say("First the hills."), DONE) as bench:
        await bench.work()
        last = asked(bench, 1).messages[-1]
        assert isinstance(last, UserText)
        assert "Go on" in last.text


async def test_steps_are_limited(tmp_path: Path) -> None:
    steps = [call("echo", id=f"c{n}", message=f"{n}") for n in range(3)]
    async with bench_on(tmp_path, ProcessHost(), *steps, bounds=replace(QUICK, iterations=3)) as bench:
        assert "3 steps" in text_of(await bench.work())


async def test_messages_of_a_job_with_nobody_to_tell_are_kept_and_not_sent(tmp_path: Path) -> None:
    async with bench_on(tmp_path, ProcessHost(), say("First the hills."), DONE) as bench:
        await bench.work(make_job(reports=False))
        assert bench.deliveries.texts == []
        assert AssistantTurn("First the hills.") in bench.life.kept[-1].added


async def test_a_fault_of_the_model_ends_the_container_with_that_fault(tmp_path: Path) -> None:
    for fault in (BudgetExceeded("used up"), TransientError("away")):
        async with bench_on(tmp_path, ProcessHost(), fault) as bench:
            with pytest.raises(type(fault)):
                await bench.work()


async def test_secrets_in_what_it_says_are_masked_before_they_are_kept_or_shown(tmp_path: Path) -> None:
    steps = (say(f"The key is {SECRET}, I go on."), say(f"I have completed the job with {SECRET}."))
    async with bench_on(tmp_path, ProcessHost(), *steps) as bench:
        finish = await bench.work()
        assert SECRET not in text_of(finish)
        assert SECRET not in str(bench.deliveries.texts)
        assert SECRET not in str(bench.life.kept)


# -- containers that misbehave -----------------------------------------------------------------------------------------
async def test_one_that_never_answers_is_ended(tmp_path: Path) -> None:
    bounds = replace(QUICK, start=timedelta(seconds=1))
    async with bench_on(tmp_path, ProcessHost("import time\ntime.sleep(1000)"), bounds=bounds) as bench:
        assert text_of(await bench.work()) == wording.NEVER_BEGAN.format(seconds="1")


async def test_one_that_falls_silent_is_ended(tmp_path: Path) -> None:
    bounds = replace(QUICK, silence=timedelta(seconds=1))
    script = f"{HTTP}\nask('GET', '/job')\ntime.sleep(1000)"
    async with bench_on(tmp_path, ProcessHost(script), bounds=bounds) as bench:
        assert text_of(await bench.work()) == wording.SILENT.format(seconds="1")


async def test_one_that_is_over_its_time_is_ended(tmp_path: Path) -> None:
    bounds = replace(QUICK, wall=timedelta(seconds=2))
    script = (
        f"{HTTP}\nask('GET', '/job')\nwhile True:\n    ask('POST', '/status', {{'iteration': 1}})\n    time.sleep(0.2)"
    )
    async with bench_on(tmp_path, ProcessHost(script), bounds=bounds) as bench:
        assert text_of(await bench.work()) == wording.OUT_OF_TIME.format(seconds="2")


async def test_one_that_floods_events_is_ended(tmp_path: Path) -> None:
    script = f"{HTTP}\nask('GET', '/job')\nwhile True:\n    ask('POST', '/events', {{'kind': 'status', 'text': 'x'}})"
    async with bench_on(tmp_path, ProcessHost(script)) as bench:
        assert "more than it may" in text_of(await bench.work())
        assert bench.llm.requests == []


async def test_one_that_sends_ten_megabytes_is_ended(tmp_path: Path) -> None:
    script = f"{HTTP}\nask('GET', '/job')\nask('POST', '/events', b'x' * 10_000_000)\ntime.sleep(1000)"
    async with bench_on(tmp_path, ProcessHost(script)) as bench:
        assert "more than it may" in text_of(await bench.work())


async def test_one_that_prints_without_end_is_read_and_ended(tmp_path: Path) -> None:
    bounds = replace(QUICK, start=timedelta(seconds=1))
    async with bench_on(tmp_path, ProcessHost("while True:\n    print('x' * 100_000)"), bounds=bounds) as bench:
        assert text_of(await bench.work()) == wording.NEVER_BEGAN.format(seconds="1")


async def test_one_that_dies_says_so(tmp_path: Path) -> None:
    async with bench_on(tmp_path, ProcessHost("raise SystemExit(7)")) as bench:
        assert text_of(await bench.work()) == wording.DIED.format(status=7)


async def test_one_that_leaves_children_behind_leaves_nothing(tmp_path: Path) -> None:
    script = f"{HTTP}\nimport subprocess\nask('GET', '/job')\nsubprocess.Popen(['sleep', '1000'])\n"
    script += "open('child', 'w').write('x')\nask('POST', '/result', {'success': True, 'text': 'done'})"
    async with bench_on(tmp_path, ProcessHost(script)) as bench:
        assert text_of(await bench.work()) == "done"


async def test_another_jobs_token_opens_nothing(tmp_path: Path) -> None:
    """Two jobs at once: each has its own door; a token that no job has opens none."""
    script = f"""{HTTP}
status, _ = ask('GET', '/job', token='A' * 43)
began, brief = ask('GET', '/job')
again, _ = ask('GET', '/job')
ask('POST', '/result', {{'success': True, 'text': json.dumps([status, began, again, json.loads(brief)['title']])}})
"""
    host = ProcessHost(script)
    async with bench_on(tmp_path, host) as bench:
        jobs = [make_job(number, title=f"job {number}") for number in (3, 4)]
        ends = await asyncio.gather(*(bench.work(job) for job in jobs))
        assert [json.loads(text_of(end)) for end in ends] == [[401, 200, 409, "job 3"], [401, 200, 409, "job 4"]]
        assert len({launch.word for launch in host.launches}) == 2


async def test_a_folder_that_was_put_into_the_place_of_its_own_is_refused(tmp_path: Path) -> None:
    script = f"{HTTP}\nimport sys\nprint(ask('GET', '/job', folder='1:1'))\ntime.sleep(1000)"
    async with bench_on(tmp_path, ProcessHost(script)) as bench:
        assert text_of(await bench.work()) == wording.WRONG_FOLDER


async def test_the_model_is_asked_within_the_programs_bounds_whatever_was_asked_for(tmp_path: Path) -> None:
    script = f"""{HTTP}
ask('GET', '/job')
user = {{'role': 'user', 'text': 'hello'}}
http = {{'name': 'http', 'description': '', 'parameters': {{}}}}
foreign = ask('POST', '/llm', {{'messages': [user], 'tools': [http]}})[0]
extra = ask('POST', '/llm', {{'messages': [user], 'model': 'dearest'}})[0]
fine = ask('POST', '/llm', {{'messages': [user], 'max_tokens': 10**9, 'temperature': 2}})[0]
ask('POST', '/result', {{'success': True, 'text': json.dumps([foreign, extra, fine])}})
"""
    async with bench_on(tmp_path, ProcessHost(script), say("hi")) as bench:
        assert json.loads(text_of(await bench.work())) == [400, 400, 200]
        (request,) = bench.llm.requests
        assert (request.max_tokens, request.temperature, request.model) == (4096, 1.0, None)
        assert "container" in request.system


async def test_a_model_call_is_cut_off_when_its_container_dies(tmp_path: Path) -> None:
    held = Held(DONE)
    script = f"""{HTTP}
import threading, os
ask('GET', '/job')
body = {{'messages': [{{'role': 'user', 'text': 'hello'}}]}}
threading.Thread(target=ask, args=('POST', '/llm', body), daemon=True).start()
time.sleep(1)
os._exit(9)
"""
    async with bench_on(tmp_path, ProcessHost(script), held) as bench:
        assert text_of(await bench.work()) == wording.DIED.format(status=9)
        assert held.reached.is_set()
        held.release.set()


# -- ends from outside -------------------------------------------------------------------------------------------------
@walls
async def test_a_cancelled_job_leaves_nothing_running(tmp_path: Path, backend: str) -> None:
    held = Held(DONE)
    async with bench_on(tmp_path, on(backend), held, backend=backend) as bench:
        task = asyncio.ensure_future(bench.work())
        await held.reached.wait()
        assert bench.left_running() != [] or backend == "podman"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.left_running() == []
        assert await containers_of(bench) == []


async def test_a_worker_whose_program_is_gone_ends_itself(tmp_path: Path) -> None:
    """The door closes under it, as when the program dies: its next request finds nobody, and it does not go on."""
    held = Held(say("Still here."))
    host = ProcessHost()
    async with bench_on(tmp_path, host, held) as bench:
        task = asyncio.ensure_future(bench.work())
        await held.reached.wait()
        closing = asyncio.ensure_future(bench.door.close())
        finish = await task
        await closing
        assert text_of(finish) == wording.DIED.format(status=3)


async def test_a_job_whose_program_was_started_anew_fails_and_says_so(tmp_path: Path) -> None:
    host = ProcessHost()
    async with bench_on(tmp_path, host) as bench:
        finish = await bench.work(envelope=make_envelope((UserText("Job: Count"), UserText("begun"))))
        assert text_of(finish) == wording.RESTARTED
        assert host.launches == []


@needs_podman
async def test_what_a_killed_program_left_in_podman_is_removed(tmp_path: Path) -> None:
    held = Held(DONE)
    async with bench_on(tmp_path, None, held, backend="podman") as bench:
        task = asyncio.ensure_future(bench.work())
        await held.reached.wait()
        assert len(await containers_of(bench)) == 1
        await bench.hosts.reap()  # those of running jobs stay
        assert len(await containers_of(bench)) == 1
        assert not task.done()
        other = ContainerBench(tmp_path, bench.turns.store, None, ScriptedLLM(), backend="podman")
        await other.hosts.reap()  # the next program knows none of them
        assert await containers_of(bench) == []
        assert isinstance((await task).outcome, Failed)


@needs_bubblewrap
async def test_what_a_killed_program_left_in_bubblewrap_is_ended(tmp_path: Path) -> None:
    held = Held(DONE)
    async with bench_on(tmp_path, None, held, backend="bubblewrap") as bench:
        task = asyncio.ensure_future(bench.work())
        await held.reached.wait()
        other = ContainerBench(tmp_path, bench.turns.store, None, ScriptedLLM(), backend="bubblewrap")
        await other.hosts.reap()
        assert isinstance((await task).outcome, Failed)


# -- walls -------------------------------------------------------------------------------------------------------------
@within_walls
async def test_memory_and_processes_are_limited(tmp_path: Path, backend: str) -> None:
    fork = "for i in $(seq 300); do sleep 1 & done 2>&1 | tail -1"
    hog = 'awk \'BEGIN { x = "x"; while (length(x) < 3000000000) x = x x; print "kept" }\''
    steps = (call("shell", id="a", command=fork), call("shell", id="b", command=hog), DONE)
    async with bench_on(tmp_path, None, *steps, backend=backend) as bench:
        assert isinstance((await bench.work()).outcome, Responded)
        results = [m.text for m in asked(bench, 2).messages if isinstance(m, ToolResult)]
        assert "esource" in results[0] or "fork" in results[0], results[0]
        assert "kept" not in results[1]


async def test_a_folder_elsewhere_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    projects = tmp_path / "workspace" / "projects"
    projects.mkdir(parents=True)
    (projects / "link").symlink_to(outside)
    host = ProcessHost()
    async with bench_on(tmp_path, host) as bench:
        finish = await bench.work(make_job(folder="projects/link"))
        assert "cannot be used" in text_of(finish)
        assert host.launches == []
        assert list(outside.iterdir()) == []


async def test_somebody_who_may_not_use_the_shell_gets_no_container(tmp_path: Path) -> None:
    host = ProcessHost()
    async with bench_on(tmp_path, host) as bench:
        finish = await bench.work(envelope=make_envelope(user="telegram:5", sender="5"))
        assert text_of(finish) == wording.GONE
        assert host.launches == []


async def test_without_any_backend_the_job_says_why(tmp_path: Path) -> None:
    async with bench_on(tmp_path, RefusingHost("nothing is installed.")) as bench:
        assert "nothing is installed" in text_of(await bench.work())


async def test_the_socket_lies_where_others_of_the_machine_cannot_reach_it(tmp_path: Path) -> None:
    async with bench_on(tmp_path, ProcessHost()) as bench:
        place = await bench.door.folder()
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert not place.parent.exists()


async def containers_of(bench: ContainerBench) -> list[str]:
    """The containers of podman that this home has, by their labels."""
    host = await bench.hosts.host()
    if not isinstance(host, EngineHost):
        return []
    process = await asyncio.create_subprocess_exec(
        host.command, "ps", "-a", "--format", "{{.Names}}", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return [name for name in output.decode().split() if bench.hosts.mark[:-1] in name]


# -- a program that is killed ------------------------------------------------------------------------------------------
_BOT = """
import asyncio, sys
from pathlib import Path
from agent.store.open import open_store
from tests.support.containers import ContainerBench
from tests.support.scripted_llm import Held, ScriptedLLM, say
async def main():
    home, held = Path(sys.argv[1]), Held(say("never said"))
    bench = ContainerBench(home, open_store(home), None, ScriptedLLM([held]), backend=sys.argv[2])
    task = asyncio.ensure_future(bench.work())
    await held.reached.wait()
    print("works", flush=True)
    await task
asyncio.run(main())
"""


@within_walls
async def test_a_killed_program_leaves_nothing_once_the_next_one_has_looked(tmp_path: Path, backend: str) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BOT, str(tmp_path), backend, stdout=asyncio.subprocess.PIPE, cwd=REPOSITORY
    )
    assert program.stdout is not None
    async with asyncio.timeout(60):
        while b"works" not in await program.stdout.readline():
            pass
    program.send_signal(signal.SIGKILL)
    await program.wait()
    async with bench_on(tmp_path, None, backend=backend) as bench:
        await bench.hosts.reap()
        assert await containers_of(bench) == []
        door = await bench.door.folder()
        assert [path for path in door.parent.parent.glob(f"*{bench.hosts.mark[:-1]}*") if path != door.parent] == []
        async with asyncio.timeout(20):
            while bench.left_running():  # the kernel ends them one after the other
                await asyncio.sleep(0.05)
