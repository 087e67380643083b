"""The real sandbox: what a command can do in it, and what it cannot."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from agent.tools.sandbox import (
    BareRunner,
    BubblewrapSandbox,
    Finished,
    Limits,
    NotRun,
    Sandbox,
    SandboxRequest,
    TimedOut,
    choose_sandbox,
    find_fault,
)
from tests.support.sandboxes import ENVIRONMENT, bubblewrap, finish, needs_bubblewrap


def bare() -> BareRunner:
    return BareRunner(ENVIRONMENT)


both = pytest.mark.parametrize("make", [pytest.param(bubblewrap, marks=needs_bubblewrap), bare])
Make = Callable[[], Sandbox]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working folder, in a home."""
    place = tmp_path / "home" / "workspace"
    place.mkdir(parents=True)
    return place


# -- in every backend


@both
async def test_a_command_runs_in_its_folder_and_its_files_are_ours_to_use(make: Make, folder: Path) -> None:
    result = await finish(make(), SandboxRequest("echo hello | tee note; umask 077; echo x > private", folder))

    assert result == Finished(0, "hello\n")
    assert (folder / "note").read_text() == "hello\n"
    assert (folder / "private").read_text() == "x\n"
    (folder / "note").write_text("changed")
    (folder / "note").unlink()


@both
async def test_a_file_we_write_can_be_changed_by_the_next_command(make: Make, folder: Path) -> None:
    await finish(make(), SandboxRequest("mkdir sub", folder))
    (folder / "sub" / "ours").write_text("a\n")
    (folder / "sub" / "ours").chmod(0o600)

    result = await finish(make(), SandboxRequest("echo b >> sub/ours && chmod +x sub/ours && cat sub/ours", folder))

    assert result.output == "a\nb\n"


@both
async def test_both_streams_come_back_in_order_with_the_exit_code(make: Make, folder: Path) -> None:
    result = await finish(make(), SandboxRequest("echo 1; echo 2 >&2; echo 3; exit 7", folder))

    assert result == Finished(7, "1\n2\n3\n")


@both
async def test_a_command_starts_in_its_workdir(make: Make, folder: Path) -> None:
    (folder / "sub").mkdir(parents=True)

    result = await finish(make(), SandboxRequest("pwd; echo $HOME", folder, workdir=PurePosixPath("sub")))

    assert result.output.splitlines()[0].endswith("/sub")
    assert result.output.splitlines()[1] in ("/workspace", str(folder))


@both
async def test_no_key_of_ours_is_in_the_environment(make: Make, folder: Path) -> None:
    result = await finish(make(), SandboxRequest("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'", folder))

    if make is bubblewrap:
        assert "canary" not in result.output
    assert "ANTHROPIC" not in (await finish(make(), SandboxRequest("env", folder))).output
    assert "LC_TIME=C" in result.output


@both
async def test_input_is_closed(make: Make, folder: Path) -> None:
    assert await finish(make(), SandboxRequest("cat; echo end", folder)) == Finished(0, "end\n")


@both
async def test_a_long_output_keeps_head_and_tail_and_does_not_block(make: Make, folder: Path) -> None:
    result = await finish(make(), SandboxRequest("echo first; seq 1 500000; seq 1 500000 >&2; echo last", folder))

    assert result.output.startswith("first\n1\n2\n")
    assert result.output.endswith("500000\nlast\n")
    assert "bytes left out" in result.output
    assert len(result.output) < 66_000


@both
async def test_output_that_is_no_text_is_no_fault(make: Make, folder: Path) -> None:
    assert "\ufffd" in (await finish(make(), SandboxRequest("printf '\\377x'", folder))).output


@both
async def test_a_time_out_kills_all_that_was_started_and_keeps_the_output(make: Make, folder: Path) -> None:
    command = "echo begun; (while true; do echo . >> beats; sleep 0.05; done) & sleep 60"

    outcome = await make().run(SandboxRequest(command, folder, timeout=timedelta(seconds=1)))

    assert outcome == TimedOut("begun\n")
    await assert_no_more_beats(folder)


@both
async def test_cancelling_kills_all_that_was_started_before_it_goes_on(make: Make, folder: Path) -> None:
    command = "(while true; do echo . >> beats; sleep 0.05; done) & echo . >> beats; sleep 60"
    async with asyncio.TaskGroup() as group:
        task = group.create_task(make().run(SandboxRequest(command, folder)))
        await appearance(folder / "beats")
        task.cancel()

    assert task.cancelled()
    await assert_no_more_beats(folder)


@both
async def test_what_a_command_leaves_in_the_background_ends_with_it(make: Make, folder: Path) -> None:
    command = "(while true; do echo . >> beats; sleep 0.05; done) & echo . >> beats; echo done"

    assert await finish(make(), SandboxRequest(command, folder)) == Finished(0, "done\n")
    await assert_no_more_beats(folder)


async def appearance(path: Path) -> None:
    """Wait until another process has made a file; there is no event for that."""
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(path.exists):
            await asyncio.sleep(0.02)


async def assert_no_more_beats(folder: Path) -> None:
    before = (folder / "beats").stat().st_size
    await asyncio.sleep(0.3)  # the length of several beats: a survivor would have written
    assert (folder / "beats").stat().st_size == before


# -- bubblewrap


@needs_bubblewrap
async def test_the_sandbox_of_this_machine_passes_its_self_test() -> None:
    assert await find_fault(bubblewrap()) is None
    assert isinstance(await choose_sandbox("auto", ENVIRONMENT), BubblewrapSandbox)


async def test_running_bare_fails_the_self_test() -> None:
    assert await find_fault(bare()) is not None


async def test_a_sandbox_program_that_does_not_work_is_found_out(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho cannot >&2\nexit 1\n")
    broken.chmod(0o755)

    fault = await find_fault(BubblewrapSandbox(str(broken), ENVIRONMENT))
    missing = await find_fault(BubblewrapSandbox(str(tmp_path / "missing"), ENVIRONMENT))

    assert fault is not None
    assert "cannot" in fault
    assert missing is not None


@needs_bubblewrap
async def test_nothing_of_the_machine_but_the_folder_is_there(folder: Path) -> None:
    (folder.parent / "config.toml").write_text("token = 'canary'")
    home = folder.parent
    command = f"cat '{home}/config.toml'; ls '{home}' /root /home /etc/shadow /var /mnt /sys; cat /etc/passwd"

    result = await finish(bubblewrap(), SandboxRequest(command, folder))

    assert "canary" not in result.output
    assert result.output.count("No such file") == 8
    assert result.output.splitlines()[-1].startswith("agent:x:")


@needs_bubblewrap
async def test_a_link_out_of_the_folder_leads_nowhere(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.write_text("canary")
    (folder / "link").symlink_to(outside)

    result = await finish(bubblewrap(), SandboxRequest("cat link; echo x > link", folder))

    assert "canary" not in result.output
    assert outside.read_text() == "canary"
    assert outside.lstat().st_uid == os.geteuid()


@needs_bubblewrap
async def test_a_folder_below_one_that_only_its_owner_may_enter_works(folder: Path) -> None:
    folder.parent.chmod(0o700)

    assert await finish(bubblewrap(), SandboxRequest("echo x > f; cat f", folder)) == Finished(0, "x\n")


@needs_bubblewrap
async def test_a_folder_that_only_its_owner_may_enter_works(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)

    assert await finish(bubblewrap(), SandboxRequest("pwd", folder)) == Finished(0, "/workspace\n")


@needs_bubblewrap
async def test_other_peoples_folders_look_empty_and_cannot_be_written(folder: Path) -> None:
    secret = folder / "users" / "telegram" / "7" / "MEMORY.md"
    secret.parent.mkdir(parents=True)
    secret.write_text("canary")
    owner = secret.stat().st_uid
    hidden = (folder / "users", folder / "groups")
    command = "cat users/telegram/7/MEMORY.md; ls -A users groups; touch users/x; rmdir users; mv users y; umount users"

    result = await finish(bubblewrap(), SandboxRequest(command, folder, hidden=hidden))

    assert "canary" not in result.output
    assert secret.read_text() == "canary"
    assert secret.stat().st_uid == owner
    assert sorted(os.listdir(folder)) == ["groups", "users"]
    assert os.listdir(folder / "users") == ["telegram"]


@needs_bubblewrap
async def test_one_persons_command_does_not_see_another_persons_folder(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "users" / "t" / "1", tmp_path / "users" / "t" / "2"
    theirs.mkdir(parents=True)
    (theirs / "MEMORY.md").write_text("canary")

    result = await finish(bubblewrap(), SandboxRequest(f"cat ../2/MEMORY.md '{theirs}/MEMORY.md'; ls ..", mine))

    assert "canary" not in result.output


@needs_bubblewrap
async def test_the_agents_files_can_be_read_but_not_changed(folder: Path) -> None:
    inside, outside = folder / "AGENTS.md", folder.parent / "SOUL.md"
    for path in (inside, outside):
        path.write_text("be kind\n")
        path.chmod(0o600)
    command = (
        "cat AGENTS.md /agent/SOUL.md; echo x >> AGENTS.md; rm -f AGENTS.md; mv AGENTS.md z; ln -sf z AGENTS.md; "
        "echo x >> /agent/SOUL.md; rm -f /agent/SOUL.md; touch /agent/new; chmod 777 AGENTS.md"
    )

    result = await finish(
        bubblewrap(), SandboxRequest(command, folder, readonly=(inside, outside, folder / "TOOLS.md"))
    )

    assert result.output.startswith("be kind\nbe kind\n")
    assert inside.read_text() == outside.read_text() == "be kind\n"
    assert inside.stat().st_uid == os.geteuid()
    assert os.listdir(folder) == ["AGENTS.md"]


@needs_bubblewrap
async def test_an_agents_file_replaced_by_a_link_is_refused(folder: Path) -> None:
    (folder.parent / "key").write_text("canary")
    (folder / "TOOLS.md").symlink_to(folder.parent / "key")

    outcome = await bubblewrap().run(SandboxRequest("cat TOOLS.md", folder, readonly=(folder / "TOOLS.md",)))

    assert isinstance(outcome, NotRun)
    assert "TOOLS.md" in outcome.reason


@needs_bubblewrap
async def test_a_file_with_another_name_elsewhere_keeps_its_owner(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.write_text("x")
    os.link(elsewhere, folder / "linked")

    await finish(bubblewrap(), SandboxRequest("true", folder))

    assert elsewhere.stat().st_uid == os.geteuid()


@needs_bubblewrap
async def test_there_is_no_network(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected; tail -n +3 /proc/net/dev | cut -d : -f 1"

        result = await finish(bubblewrap(), SandboxRequest(command, folder))

    assert "connected" not in result.output
    assert result.output.split()[-1] == "lo"


@needs_bubblewrap
async def test_a_command_has_no_rights_and_is_not_root(folder: Path) -> None:
    result = await finish(
        bubblewrap(), SandboxRequest("id -u; grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs' /proc/self/status", folder)
    )

    uid, *rest = result.output.splitlines()
    assert uid != "0"
    assert {line.split()[1] for line in rest} == {"0" * 16, "1"}


@needs_bubblewrap
async def test_the_number_of_processes_is_limited(folder: Path) -> None:
    limits = replace(Limits(), processes=16)
    # dash gives up at the first fork that fails; bash would try again for half a minute.
    command = "exec dash -c 'n=0; while [ $n -lt 40 ]; do sleep 5 & n=$((n+1)); done; echo started 40'"

    result = await finish(bubblewrap(), SandboxRequest(command, folder, limits=limits))

    assert "started 40" not in result.output
    assert "fork" in result.output


@needs_bubblewrap
async def test_memory_file_size_and_scratch_space_are_limited(folder: Path) -> None:
    mebibyte = 1024 * 1024
    limits = Limits(memory_bytes=64 * mebibyte, file_bytes=mebibyte, scratch_bytes=2 * mebibyte)
    command = (
        "head -c 3000000 /dev/zero > big; stat -c %s big; "
        "for n in 1 2 3 4 5; do head -c 900000 /dev/zero > /tmp/$n; done; du -s --block-size=1 /tmp | cut -f 1; "
        "head -c 200000000 /dev/zero | tail -c 150000000 | wc -c"
    )

    result = await finish(bubblewrap(), SandboxRequest(command, folder, limits=limits))

    sizes = [int(line) for line in result.output.splitlines() if line.strip().isdigit()]
    assert sizes[0] <= mebibyte
    assert sizes[1] <= 2 * mebibyte
    assert sizes[2] < 150_000_000


@needs_bubblewrap
async def test_nothing_but_the_folder_and_scratch_space_can_be_written(folder: Path) -> None:
    places = "/x /etc/x /dev/x /usr/x /proc/x /agent/x /tmp/x /dev/shm/x x"

    result = await finish(
        bubblewrap(), SandboxRequest(f"for p in {places}; do touch $p 2>/dev/null && echo $p; done", folder)
    )

    assert result.output.split() == ["/tmp/x", "/dev/shm/x", "x"]


@needs_bubblewrap
async def test_a_folder_of_a_thousand_levels_is_no_fault(folder: Path) -> None:
    make_deep(folder / "top", 1_100)
    try:
        outcome = await bubblewrap().run(SandboxRequest("echo still here", folder))
    finally:  # too deep for the cleaning of temporary folders
        await finish(bare(), SandboxRequest("rm -rf top", folder))

    assert outcome == Finished(0, "still here\n")


def make_deep(top: Path, levels: int) -> None:
    """Folders in folders; the path to the last one is longer than a path may be."""
    top.mkdir()
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
